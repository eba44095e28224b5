"""AUTO CDC flows that `validate` rejects, and flows that it accepts: a table of specs over one source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from framework.cdc.analysis.rules import check_flow
from framework.cdc.analysis.target_schema import plan_target
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import UserError
from tests.support.cdc_world import World, flow, name

DDL = "id INT, name STRING, home STRUCT<city: STRING, at: STRUCT<x: INT>>, tags ARRAY<STRING>, ts TIMESTAMP, op STRING"
SPEC = AutoCdcSpec(keys=("id",), sequence_by="ts", columns=ColumnSelection(columns=("op",), excluded=True))
CONDITION = "AUTOCDC_EXPRESSION_NOT_OF_ROW"
PARAMETERS = ("sequence_by", "where", "apply_as_deletes", "apply_as_truncates")
OTHER_ROWS, SEVERAL_ROWS = "reads other rows", "several rows for one"
OTHER_VALUES, MOMENT = "not deterministic", "the time, the session or the user"

# Expressions of an orderable type, and what they depend on besides the row.
NOT_OF_ROW = {
    "row_number() OVER (PARTITION BY id ORDER BY ts)": OTHER_ROWS,
    "max(ts)": OTHER_ROWS,
    "count(1) OVER ()": OTHER_ROWS,
    "(SELECT max(id) FROM range(3))": OTHER_ROWS,
    "explode(tags)": SEVERAL_ROWS,
    "rand()": OTHER_VALUES,
    "rand(42)": OTHER_VALUES,
    "uuid()": OTHER_VALUES,
    "monotonically_increasing_id()": OTHER_VALUES,
    "spark_partition_id()": OTHER_VALUES,
    "input_file_name()": OTHER_VALUES,
    "shuffle(tags)": OTHER_VALUES,
    "struct(ts, rand())": OTHER_VALUES,
    "drawn(name)": OTHER_VALUES,
    "current_timestamp()": MOMENT,
    "current_date()": MOMENT,
    "now() - INTERVAL 1 DAY": MOMENT,
    "unix_timestamp()": MOMENT,
    "localtimestamp()": MOMENT,
    "current_user()": MOMENT,
    "window(ts, '1 hour').start": "adds, drops or reads rows or columns",
    "window(ts, '1 hour', '10 minutes').start": "adds, drops or reads rows or columns",
}
OF_ROW = (
    "ts",
    "struct(ts, id)",
    "struct(ts, home.city AS city)",
    "coalesce(id, 0) + 1",
    "to_timestamp('2026-01-01')",
    "date_trunc('HOUR', ts)",
    "hash(name, home)",
    "element_at(transform(tags, tag -> upper(tag)), 1)",
    "CASE WHEN op = 'D' THEN 2 ELSE 1 END",
    "0",
    "TIMESTAMP_LTZ '2026-01-01 00:00:00 UTC'",
    "doubled(id)",
    "fixed(name)",
)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session with functions of a user's: in Python, deterministic or not, and in SQL."""
    own = spark.newSession()
    own.udf.register("fixed", F.udf(lambda value: value, StringType()))
    own.udf.register("drawn", F.udf(lambda value: value, StringType()).asNondeterministic())
    own.sql("CREATE TEMPORARY FUNCTION doubled(x INT) RETURNS INT RETURN x * 2")
    return own


def faults(session: SparkSession, spec: AutoCdcSpec, ddl: str = DDL) -> list[UserError]:
    """The faults of a flow."""
    return list(check_flow(flow(spec, session.createDataFrame([], ddl))))


def test_an_expression_that_is_not_a_function_of_the_row_is_refused_wherever_it_stands(session: SparkSession) -> None:
    """One fault for each, with parameter, expression and its dependency, because a batch may be delivered twice."""
    wrong = []
    for expression, dependency in NOT_OF_ROW.items():
        # A generator inside a condition can't even be resolved.
        for parameter in PARAMETERS[: 1 if dependency == SEVERAL_ROWS else None]:
            text = expression if parameter == "sequence_by" else f"({expression}) IS NOT NULL"
            arguments: dict[str, Any] = {parameter: text}
            told = faults(session, replace(SPEC, **arguments))
            texts = [
                str(each.fields.get(field)) for each in told for field in ("parameter", "expression", "dependency")
            ]
            is_expected = texts[:2] == [parameter, text] and dependency in texts[-1]
            if [CONDITION] != [each.condition for each in told] or not is_expected:
                wrong.append((parameter, text, told))
    assert [] == wrong


def test_expressions_over_the_row_are_taken(session: SparkSession) -> None:
    """Structs, calls, lambdas, literals, and deterministic functions of a user's."""
    found = {text: faults(session, replace(SPEC, sequence_by=text, where=f"{text} IS NOT NULL")) for text in OF_ROW}
    assert {text: [] for text in OF_ROW} == found


def test_columns_that_only_the_source_has_hidden_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    """A micro-batch has neither metadata columns nor qualified names, so `validate` must not find them."""
    spark.range(1).selectExpr("id", "current_timestamp() AS ts").write.format("parquet").save(str(tmp_path / "rows"))
    source = spark.read.parquet(str(tmp_path / "rows")).alias("rows")
    spec = AutoCdcSpec(keys=("id",), sequence_by="_metadata.file_modification_time", where="rows.id > 0")
    told = list(check_flow(flow(spec, source)))
    assert ["where", "sequence_by"] == [each.fields["parameter"] for each in told]
    assert {"AUTOCDC_EXPRESSION_INVALID"} == {each.condition for each in told}


def test_the_writer_refuses_what_validate_refuses(session: SparkSession, tmp_path: Path) -> None:
    """A program that passes another spec to the writer than it planned with gets the error, and nothing is written."""
    world = World(session, tmp_path, {"changes": (SPEC, DDL, False)})
    before = world.version()
    for text in ("row_number() OVER (ORDER BY ts)", "rand()", "current_timestamp()"):
        world.flows["changes"] = (replace(SPEC, sequence_by=text), DDL, False)
        with pytest.raises(UserError) as raised:
            world.writer("changes").apply(session.createDataFrame([], DDL), 0)
        assert (CONDITION, text) == (raised.value.condition, raised.value.fields["expression"])
    assert before == world.version()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A flow with one fault.

    Args:
        condition: of the fault.
        ddl: of the source.
        spec: the flow.
        told: the fields of the fault.
    """

    condition: str
    told: dict[str, object]
    ddl: str = DDL
    spec: AutoCdcSpec = SPEC


def lists(*columns: str, excluded: bool = False) -> ColumnSelection:
    """A list of columns."""
    return ColumnSelection(columns=columns, excluded=excluded)


HISTORY = replace(SPEC, scd_type=2)
CASES = (
    Case(condition="AUTOCDC_AMBIGUOUS_COLUMNS", ddl=f"{DDL}, NAME STRING", told={"columns": "name, NAME"}),
    Case(
        condition="AUTOCDC_AMBIGUOUS_COLUMNS",
        ddl=f"{DDL}, more ARRAY<MAP<STRING, STRUCT<a: INT, A: INT>>>",
        told={"columns": "more.a, more.A"},
    ),
    Case(condition="AUTOCDC_KEY_TYPE", ddl=DDL.replace("id INT", "id VOID"), told={"key": "id", "type": "void"}),
    Case(
        condition="AUTOCDC_KEY_TYPE",
        ddl=DDL.replace("id INT", "id STRUCT<a: ARRAY<VOID>>"),
        told={"key": "id", "type": "struct<a:array<void>>"},
    ),
    Case(
        condition="AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE",
        spec=replace(SPEC, sequence_by="NULL"),
        told={"type": "void"},
    ),
    Case(
        condition="AUTOCDC_COLUMN_MISPLACED",
        spec=replace(SPEC, ignore_null_updates=lists("op")),
        told={"parameter": "ignore_null_updates_column_list", "columns": "op"},
    ),
    Case(
        condition="AUTOCDC_COLUMN_MISPLACED",
        spec=replace(SPEC, ignore_null_updates=lists("op", excluded=True)),
        told={"parameter": "ignore_null_updates_except_column_list", "columns": "op"},
    ),
    Case(
        condition="AUTOCDC_COLUMN_MISPLACED",
        spec=replace(HISTORY, track_history=lists("name", "op")),
        told={"parameter": "track_history_column_list", "columns": "op"},
    ),
    Case(
        condition="AUTOCDC_COLUMN_MISPLACED",
        spec=replace(HISTORY, track_history=lists("ID", "name")),
        told={"parameter": "track_history_column_list", "columns": "ID"},
    ),
    Case(
        condition="AUTOCDC_COLUMN_MISPLACED",
        spec=replace(HISTORY, track_history=lists("id", excluded=True)),
        told={"parameter": "track_history_except_column_list", "columns": "id"},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{index}-{case.condition}" for index, case in enumerate(CASES)])
def test_a_flow_that_would_fail_or_mean_nothing_is_refused_by_validate(spark: SparkSession, case: Case) -> None:
    """One fault, which names the columns."""
    told = faults(spark, case.spec, case.ddl)
    assert [case.condition] == [each.condition for each in told]
    assert case.told == {name: told[0].fields[name] for name in case.told}


def test_names_in_another_case_may_be_left_out(spark: SparkSession) -> None:
    """Only columns of the target need unique names; a column with a dot in its name is a column."""
    left_out = replace(SPEC, columns=lists("id", "ts", "a.b"), ignore_null_updates=lists("a.b"))
    assert [] == faults(spark, left_out, f"{DDL}, NAME STRING, `a.b` STRING")


def test_identity_columns_and_defaults_of_a_target_are_refused_and_not_null_is_kept(spark: SparkSession) -> None:
    """A MERGE gives no numbers and no defaults; Delta checks NOT NULL."""
    inputs = [flow(SPEC, spark.createDataFrame([], DDL.replace("op STRING", "n INT, op STRING")))]
    strict = DDL.replace("op STRING", "n INT").replace("name STRING", "name STRING NOT NULL")
    schema = spark.createDataFrame([], strict).schema
    kept = plan_target(name("target"), inputs, declared_schema=schema).table_schema
    assert {"name"} == {field.name for field in kept.fields if not field.nullable}
    for key in ("delta.identity.start", "CURRENT_DEFAULT"):
        schema["n"].metadata = {key: "1"}
        with pytest.raises(UserError) as raised:
            plan_target(name("target"), inputs, declared_schema=schema)
        assert ("AUTOCDC_COMPUTED_COLUMN", "n") == (raised.value.condition, raised.value.fields["columns"])
