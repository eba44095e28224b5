# ruff: noqa: D103 - the small broken pipelines below are named after their fault
"""Every fault of a graph: its condition and its line; all faults are reported at once, and nothing is written."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sql

from framework import Pipeline
from framework import pipelines as dp
from framework.foundation.errors import GraphErrors, SluiceError
from tests.support.engine_world import EngineWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Declare = "Callable[[SparkSession], None]"


def faults(spark: SparkSession, root: Path, declare: Callable[[SparkSession], None]) -> tuple[SluiceError, ...]:
    """Return the faults of a pipeline; asserts that it wrote nothing."""
    world = EngineWorld(spark, root)
    with pytest.raises(GraphErrors) as caught:
        world.run(lambda: declare(spark))
    assert not (root / "storage").exists()
    assert caught.value.exit_code == 2
    return caught.value.errors


def line_of(declare: Callable[..., Any], text: str) -> int:
    """Return the line of this file where `declare` contains `text`."""
    lines, first = inspect.getsourcelines(declare)
    return first + next(number for number, line in enumerate(lines) if text in line)


def two_of_a_name(spark: SparkSession) -> None:
    dp.create_streaming_table("t")

    @dp.materialized_view
    def t() -> DataFrame:
        return spark.range(1)


def flow_without_target(spark: SparkSession) -> None:
    @dp.table
    def orders() -> DataFrame:
        return spark.readStream.format("rate").load()

    @dp.append_flow(target="order")
    def more() -> DataFrame:
        return spark.readStream.format("rate").load()


def nothing_flows_in(_spark: SparkSession) -> None:
    dp.create_streaming_table("empty")


def a_circle(spark: SparkSession) -> None:
    @dp.table
    def a() -> DataFrame:
        return spark.readStream.table("b")

    @dp.table
    def b() -> DataFrame:
        return spark.readStream.table("a")


def a_batch_for_a_streaming_table(spark: SparkSession) -> None:
    dp.create_streaming_table("t")

    @dp.append_flow(target="t")
    def rows() -> DataFrame:
        return spark.range(1)


def a_stream_for_a_view(spark: SparkSession) -> None:
    @dp.materialized_view
    def view() -> DataFrame:
        return spark.readStream.format("rate").load()


def a_streaming_once_flow(spark: SparkSession) -> None:
    dp.create_streaming_table("t")

    @dp.append_flow(target="t", once=True)
    def rows() -> DataFrame:
        return spark.readStream.format("rate").load()


def a_missing_table(spark: SparkSession) -> None:
    @dp.materialized_view
    def customers() -> DataFrame:
        return spark.range(1)

    @dp.materialized_view
    def report() -> DataFrame:
        return spark.read.table("custmers")


def a_missing_column(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        return spark.range(1).select("nothing_of_this_name")


def a_missing_column_in_sql(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        return spark.sql("SELECT nothing_of_this_name FROM range(1)")


def an_action(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        rows = spark.range(1)
        rows.count()
        return rows


def a_query_that_raises(_spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        raise ZeroDivisionError


def no_data_frame(_spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> Any:
        return 42


def a_setting_in_sql(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        spark.sql("SET spark.sql.ansi.enabled = false")
        return spark.range(1)


def a_schema_chosen_in_sql(spark: SparkSession) -> None:
    spark.sql("USE elsewhere")


def a_command(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        return spark.sql("DROP TABLE customers")


def a_script(spark: SparkSession) -> None:
    @dp.materialized_view
    def report() -> DataFrame:
        return spark.sql("BEGIN DROP TABLE customers; SELECT 1 AS id; END")


def an_expectation_of_no_column(spark: SparkSession) -> None:
    @dp.materialized_view
    @dp.expect("known", "nothing_of_this_name > 0")
    def report() -> DataFrame:
        return spark.range(1)


def an_expectation_that_is_no_condition(spark: SparkSession) -> None:
    @dp.materialized_view
    @dp.expect("number", sql.col("id") + 1)
    def report() -> DataFrame:
        return spark.range(1)


def mixed_flows(spark: SparkSession) -> None:
    dp.create_streaming_table("t")

    @dp.temporary_view
    def changes() -> DataFrame:
        return spark.readStream.format("rate").load()

    dp.create_auto_cdc_flow(target="t", source="changes", keys=["value"], sequence_by="timestamp", name="cdc")

    @dp.append_flow(target="t")
    def more() -> DataFrame:
        return spark.readStream.format("rate").load()


def no_first_snapshot(spark: SparkSession) -> None:
    dp.create_streaming_table("t")
    dp.create_auto_cdc_from_snapshot_flow(target="t", source=lambda latest: latest and (spark.range(1), 1), keys=["id"])


def a_snapshot_without_its_key(spark: SparkSession) -> None:
    dp.create_streaming_table("t")

    @dp.materialized_view
    def snapshot() -> DataFrame:
        return spark.range(1)

    dp.create_auto_cdc_from_snapshot_flow(target="t", source="snapshot", keys=["ident"])


def a_batch_view_read_as_a_stream(spark: SparkSession) -> None:
    @dp.temporary_view
    def view() -> DataFrame:
        return spark.range(1)

    @dp.table
    def t() -> DataFrame:
        return spark.readStream.table("view")


def another_schema_than_declared(spark: SparkSession) -> None:
    @dp.materialized_view(schema="id STRING")
    def report() -> DataFrame:
        return spark.range(1)


def declared_not_null_but_not_returned(spark: SparkSession) -> None:
    @dp.materialized_view(schema="id LONG, day DATE NOT NULL")
    def report() -> DataFrame:
        return spark.range(1)


def laid_out_by_no_column(spark: SparkSession) -> None:
    @dp.materialized_view(partition_cols=["day"])
    def report() -> DataFrame:
        return spark.range(1)


CASES = [
    (two_of_a_name, "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT", "@dp.materialized_view"),
    (flow_without_target, "PIPELINE_FLOW_WITHOUT_TARGET", '@dp.append_flow(target="order")'),
    (nothing_flows_in, "PIPELINE_DATASET_WITHOUT_FLOW", "create_streaming_table"),
    (a_circle, "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED", 'readStream.table("a")'),
    (a_batch_for_a_streaming_table, "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE", "@dp.append_flow"),
    (a_stream_for_a_view, "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW", "@dp.materialized_view"),
    (a_streaming_once_flow, "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_ONCE_FLOW", "@dp.append_flow"),
    (a_missing_table, "TABLE_OR_VIEW_NOT_FOUND", "custmers"),
    (a_missing_column, "FLOW_QUERY_FAILED", "nothing_of_this_name"),
    (a_missing_column_in_sql, "FLOW_QUERY_FAILED", "nothing_of_this_name"),
    (an_action, "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", "rows.count()"),
    (a_query_that_raises, "FLOW_QUERY_FAILED", "raise ZeroDivisionError"),
    (no_data_frame, "FLOW_QUERY_NOT_A_DATAFRAME", "@dp.materialized_view"),
    (a_command, "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", "DROP TABLE"),
    (a_script, "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", "BEGIN DROP TABLE"),
    (a_setting_in_sql, "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_RUNTIME_CONF", "SET spark.sql.ansi.enabled"),
    (a_schema_chosen_in_sql, "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.SET_CURRENT_DATABASE", "USE elsewhere"),
    (an_expectation_of_no_column, "EXPECTATION_INVALID", "@dp.expect"),
    (an_expectation_that_is_no_condition, "EXPECTATION_INVALID", "@dp.expect"),
    (mixed_flows, "AUTOCDC_TARGET_WITH_OTHER_FLOWS", "@dp.append_flow"),
    (no_first_snapshot, "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.FIRST_SNAPSHOT_EMPTY", "create_auto_cdc_from_snapshot_flow"),
    (a_snapshot_without_its_key, "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA", "create_auto_cdc_from_snapshot_flow"),
    (a_batch_view_read_as_a_stream, "INCOMPATIBLE_BATCH_VIEW_READ", 'readStream.table("view")'),
    (another_schema_than_declared, "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE", "@dp.materialized_view"),
    (declared_not_null_but_not_returned, "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE", "@dp.materialized_view"),
    (laid_out_by_no_column, "LAYOUT_COLUMN_NOT_FOUND", "@dp.materialized_view"),
]


@pytest.mark.parametrize(("declare", "condition", "text"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_fault_has_its_condition_and_its_line_and_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, declare: Callable[[SparkSession], None], condition: str, text: str
) -> None:
    """One fault, named, at the line where the user put it; no table, checkpoint or event."""
    found = faults(spark, tmp_path, declare)
    assert [error.condition for error in found] == [condition]
    assert found[0].location is not None
    assert (found[0].location.file, found[0].location.line) == (__file__, line_of(declare, text))
    assert found[0].remedy


def test_a_broken_rule_does_not_hide_a_broken_query(spark: SparkSession, tmp_path: Path) -> None:
    """A dataset without a flow, a flow without a target whose query is broken too, and a broken query: four faults."""

    def declare(spark: SparkSession) -> None:
        nothing_flows_in(spark)
        a_missing_column(spark)

        @dp.append_flow(target="nowhere")
        def lost() -> DataFrame:
            return spark.range(1).select("neither")

        @dp.materialized_view
        def below() -> DataFrame:
            return spark.read.table("empty")

    assert [error.condition for error in faults(spark, tmp_path, declare)] == [
        "PIPELINE_DATASET_WITHOUT_FLOW", "FLOW_QUERY_FAILED", "PIPELINE_FLOW_WITHOUT_TARGET", "FLOW_QUERY_FAILED"
    ]  # fmt: skip


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(spark: SparkSession, tmp_path: Path) -> None:
    """Three broken queries are three faults; a reader of a broken one is not a fourth."""

    def declare(spark: SparkSession) -> None:
        a_missing_table(spark)

        @dp.materialized_view
        def below() -> DataFrame:
            return spark.read.table("report")

        @dp.materialized_view
        def second() -> DataFrame:
            return spark.range(1).select("other")

    found = faults(spark, tmp_path, declare)
    assert [error.condition for error in found] == ["TABLE_OR_VIEW_NOT_FOUND", "FLOW_QUERY_FAILED"]
    assert found[0].fields["hint"] == " Did you mean main.s.customers?"


BROKEN = """
from framework import pipelines as dp

dp.create_streaming_table("first")

@dp.append_flow(target="shared", name="further")
def further():
    return spark.readStream.format("rate").load().selectExpr("value AS extra")

raise RuntimeError("at import")
"""

SOUND = """
from framework import pipelines as dp

@dp.materialized_view
def misspelt():
    return spark.range(1).select("nothing_of_this_name")

@dp.materialized_view
def two_of_a_name():
    return spark.range(1)

@dp.materialized_view(name="two_of_a_name")
def other():
    return spark.range(1)

@dp.table
def shared():
    return spark.readStream.format("rate").load()

@dp.append_flow(target="elsewhere")
def into_elsewhere():
    return spark.readStream.format("rate").load().select("also_wrong")

dp.create_streaming_table("filled_elsewhere")

@dp.table(partition_cols=["region"])
def partitioned_by_a_column_of_a_further_flow():
    return spark.readStream.format("rate").load()

@dp.materialized_view
def reads_and_misnames():
    spark.read.table("shared")
    return no_such_name

@dp.materialized_view
def reads_elsewhere():
    return spark.read.table("elsewhere").select("any")

@dp.materialized_view
def reads_further_column():
    return spark.read.table("shared").select("third")

@dp.temporary_view
def between():
    return spark.read.table("through")

@dp.materialized_view
def through():
    return spark.read.table("shared")

@dp.materialized_view
def reads_it_through_a_view():
    return spark.read.table("between").select("third")

@dp.materialized_view
def reads_a_view():
    return spark.read.table("complete").select("neither")

@dp.materialized_view
def complete():
    return spark.range(1)
"""


def test_a_module_that_raises_does_not_hide_the_faults_of_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """All faults that the broken module can not have caused are reported with its own, and no other ones."""
    for name, text in {"broken": BROKEN, "sound": SOUND, "unreadable": "def ("}.items():
        (tmp_path / f"{name}.py").write_text(text)
    pipeline = Pipeline(
        name="p", storage=tmp_path / "storage", spark=spark, modules=[*map(str, sorted(tmp_path.glob("*.py")))]
    )
    with pytest.raises(GraphErrors) as caught:
        pipeline.validate()
    found = [(error.condition, str(error.location).rpartition("/")[2]) for error in caught.value.errors]
    lines = SOUND.splitlines()

    def line(text: str) -> str:
        return f"sound.py:{1 + next(number for number, each in enumerate(lines) if text in each)}"

    assert sorted(found) == sorted([
        ("FLOW_QUERY_FAILED", line("also_wrong")),
        ("FLOW_QUERY_FAILED", line("return no_such_name")),
        ("FLOW_QUERY_FAILED", line("neither")),
        ("FLOW_QUERY_FAILED", line("nothing_of_this_name")),
        ("MODULE_FAILED", "broken.py:10"),
        ("MODULE_FAILED", "unreadable.py:1"),
        ("PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT", line('name="two_of_a_name"')),
    ])  # fmt: skip
    assert not (tmp_path / "storage").exists()


def test_a_read_of_a_dataset_that_is_not_followed_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Spark says that the table is unknown; the dataset is declared, so correcting the name does not help."""
    reads: dict[str, Callable[[], DataFrame]] = {
        "subquery": lambda: spark.range(1).where("id IN (SELECT id FROM s.other)"),
        "full_name": lambda: spark.range(1).where(sql.expr("id IN (SELECT id FROM main.s.other)")),
        "version": lambda: spark.sql("SELECT id FROM other VERSION AS OF 1"),
        "changes": lambda: spark.sql("SELECT id FROM table_changes('s.other', 0)"),
        "thread": lambda: ThreadPoolExecutor(1).submit(spark.read.table, "other").result(),
    }

    def declare(spark: SparkSession) -> None:
        dp.materialized_view(name="other")(lambda: spark.range(1))
        for name, query in reads.items():
            dp.materialized_view(name=name)(query)

    found = faults(spark, tmp_path, declare)
    assert {(error.condition, str(error.fields["flow"]), str(error.fields["dataset"])) for error in found} == {
        ("PIPELINE_READ_NOT_FOLLOWED", f"main.s.{name}", "main.s.other") for name in reads
    }


def test_a_read_of_a_dataset_by_its_name_in_the_catalog_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds the table of the last update there; the query would be computed before this one has written it.

    A read of the query function itself, of another name or of the folder, is the user's own decision.
    """
    folder = tmp_path / "other"
    spark.range(1).write.format("delta").save(str(folder))
    spark.sql("CREATE SCHEMA kept")
    spark.sql(f"CREATE TABLE kept.other USING delta LOCATION '{folder}'")
    reads: dict[str, Callable[[], DataFrame]] = {
        "condition": lambda: spark.range(1).where("id IN (SELECT id FROM kept.other)"),
        "expression": lambda: spark.range(1).select(
            sql.expr("(SELECT count(*) FROM spark_catalog.kept.other)").alias("n")
        ),
        "version": lambda: spark.sql("SELECT id FROM kept.other VERSION AS OF 0"),
    }

    def declare(spark: SparkSession) -> None:
        dp.materialized_view(name="other", path=str(folder))(lambda: spark.range(1))
        for name, query in reads.items():
            dp.materialized_view(name=name)(query)
        dp.materialized_view(name="by_name")(lambda: spark.read.table("kept.other"))
        dp.materialized_view(name="by_path")(lambda: spark.read.format("delta").load(str(folder)))

    try:
        found = faults(spark, tmp_path / "world", declare)
    finally:
        spark.sql("DROP SCHEMA kept CASCADE")
    assert {(error.condition, str(error.fields["flow"]), str(error.fields["dataset"])) for error in found} == {
        ("PIPELINE_READ_NOT_FOLLOWED", f"main.s.{name}", "main.s.other") for name in reads
    }
