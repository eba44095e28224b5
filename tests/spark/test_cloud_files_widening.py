"""`addNewColumnsWithTypeWidening`: values that need a wider type get it, in all tables that read the files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from framework import pipelines as dp
from framework.cdc.analysis.compatibility import can_widen
from framework.foundation.errors import UserErrors
from framework.foundation.failpoints import arm, disarm
from framework.foundation.wider_types import wider_type
from framework.plan.steps import CreateTable
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WIDENS = {"cloudFiles.schemaEvolutionMode": "addNewColumnsWithTypeWidening"}
TYPED = {**WIDENS, "cloudFiles.inferColumnTypes": "true"}
MOST = 5_000_000_000
DAY, NOON = (datetime.fromisoformat(text) for text in ("2025-01-31T00:00", "2025-01-31T12:00"))


class StoppedHereError(RuntimeError):
    """Ends an update at a failpoint, as a kill does."""


def stop() -> None:
    """Raise at a failpoint."""
    raise StoppedHereError


@pytest.fixture
def landing(interpreting: SparkSession, tmp_path: Path) -> Landing:
    """No folders yet."""
    disarm()
    return Landing(world=EngineWorld(interpreting, tmp_path), root=tmp_path / "landing")


def write(landing: Landing, kind: str, name: str, *queries: str) -> None:
    """Add a file for each query."""
    for query in queries:
        frame = landing.world.spark.sql(f"SELECT {query}").coalesce(1)
        frame.write.mode("append").format(kind).save(str(landing.root / name))


def columns(landing: Landing, table: str) -> str:
    """The columns of a table with their types, without that of rescued data and the hidden one."""
    fields = landing.world.spark.read.format("delta").load(landing.world.path(table)).schema.fields
    shown = [each for each in fields if each.name not in {"_rescued_data", "__sluice"}]
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in shown)


def shown(landing: Landing, table: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of a table, each with its rescued data."""
    rows = landing.rows(table)
    plain = [{name: value for name, value in row.items() if name != "_rescued_data"} for row in rows]
    return list(zip(plain, landing.rescued(table), strict=True))


def properties(landing: Landing, table: str) -> dict[str, str]:
    """The properties of a table."""
    detail = landing.world.spark.sql(f"DESCRIBE DETAIL delta.`{landing.world.path(table)}`").first()
    assert detail is not None
    return dict(detail["properties"])


@pytest.mark.usefixtures("spark")  # it parses DDL
@pytest.mark.parametrize(
    ("known", "found", "wider"),
    [
        ("tinyint", "smallint", "smallint"),
        ("smallint", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("tinyint", "decimal(5,2)", "decimal(12,2)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(5,2)", "decimal(22,2)"),
        ("decimal(5,2)", "int", "decimal(12,2)"),
        ("decimal(10,1)", "decimal(5,3)", "decimal(12,3)"),
        ("decimal(38,0)", "decimal(5,3)", None),
        ("int", "double", "double"),
        ("int", "float", "double"),
        ("float", "double", None),
        ("float", "int", None),
        ("double", "float", "double"),
        ("bigint", "double", None),
        ("double", "bigint", None),
        ("decimal(5,2)", "double", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp_ntz", "date", "timestamp_ntz"),
        ("date", "timestamp", None),
        ("int", "string", None),
        ("boolean", "int", None),
    ],
)
def test_a_type_becomes_wider_where_delta_widens_it_without_loss(known: str, found: str, wider: str | None) -> None:
    """The precision of a decimal begins with that of the whole number; a type without a common one is None."""
    kinds = [DataType.fromDDL(each) for each in (known, found)]
    result = wider_type(*kinds)
    assert (None if result is None else result.simpleString()) == wider


@pytest.mark.usefixtures("spark")  # it parses DDL
@pytest.mark.parametrize(
    ("stored", "found", "is_taken"),
    [
        ("int", "bigint", True),
        ("int", "void", True),
        ("double", "bigint", True),
        ("bigint", "double", False),
        ("float", "double", False),
        ("struct<x: double, y: int>", "struct<x: bigint, y: bigint>", True),
        ("struct<x: double, y: int>", "struct<x: bigint, y: string>", False),
        ("void", "struct<x: int>", False),
        ("array<void>", "array<struct<x: int>>", False),
        ("struct<x: void>", "struct<x: array<int>>", False),
    ],
)
def test_a_target_that_may_widen_takes_all_types_that_any_target_takes(
    stored: str, found: str, *, is_taken: bool
) -> None:
    """Values that AUTO CDC casts to the stored type need no wider one."""
    assert can_widen(DataType.fromDDL(stored), DataType.fromDDL(found)) is is_taken


def test_columns_of_typed_files_widen_at_every_depth_in_one_update(landing: Landing) -> None:
    """Each supported change of Parquet, a new column beside it, and values that no wider type has are rescued."""
    tables = {"t": {"cloudFiles.format": "parquet", **WIDENS}}
    narrow = (
        "cast(1 AS TINYINT) AS b, 1 AS i, 1L AS l, 1.5f AS f, cast(1.25 AS DECIMAL(5,2)) AS d, date'2025-01-31' AS t, "
        "1 AS n, named_struct('x', 1) AS s, array(1) AS a, map('k', 1) AS m, 1 AS text"
    )
    write(landing, "parquet", "t", narrow)
    assert landing.run(tables) == {}
    assert "delta.enableTypeWidening" not in properties(landing, "t")
    wide = (
        "1000 AS b, 5000000000L AS i, cast(1.5 AS DECIMAL(3,1)) AS l, 0.1d AS f, cast(1.2345 AS DECIMAL(9,4)) AS d, "
        "timestamp_ntz'2025-01-31 12:00:00' AS t, 0.5d AS n, named_struct('x', 5000000000L) AS s, "
        "array(5000000000L) AS a, map('k', 5000000000L) AS m, 'no number' AS text, 7 AS more"
    )
    write(landing, "parquet", "t", wide)
    result = landing.world.run(landing.declare(tables))
    assert [flow.error for flow in result.flows if flow.error] == []
    assert properties(landing, "t")["delta.enableTypeWidening"] == "true"
    assert columns(landing, "t") == (
        "b int, i bigint, l decimal(21,1), f float, d decimal(9,4), t timestamp_ntz, n double, s struct<x:bigint>, "
        "a array<bigint>, m map<string,bigint>, text int, more int"
    )
    first = {
        "b": 1, "i": 1, "l": Decimal("1.0"), "f": 1.5, "d": Decimal("1.2500"), "t": DAY, "n": 1.0,
        "s": {"x": 1}, "a": [1], "m": {"k": 1}, "text": 1,
    }  # fmt: skip
    second = {
        "b": 1000, "i": MOST, "l": Decimal("1.5"), "d": Decimal("1.2345"), "t": NOON,
        "n": 0.5, "s": {"x": MOST}, "a": [MOST], "m": {"k": MOST}, "more": 7,
    }  # fmt: skip
    assert sorted(shown(landing, "t"), key=lambda row: row[0]["b"]) == [
        (first, {}),
        (second, {"f": "0.1", "text": "no number"}),
    ]
    assert landing.run(tables) == {}
    assert len(landing.rows("t")) == 2


def test_queries_find_the_rows_from_before_in_files_whose_statistics_have_the_narrow_type(landing: Landing) -> None:
    """Delta skips files by the statistics of their time; a FLOAT stays one, because its texts there are not exact."""
    tables = {"t": {"cloudFiles.format": "parquet", **WIDENS}}
    write(
        landing, "parquet", "t",
        "0.1f AS f, 10 AS i, 10L AS l, 10 AS n, cast(1.5 AS DECIMAL(3,1)) AS d, date'2025-01-31' AS t",
    )  # fmt: skip
    assert landing.run(tables) == {}
    write(
        landing, "parquet", "t",
        "0.3d AS f, 99.5 AS i, 99.5 AS l, 99.5d AS n, 9.125 AS d, timestamp_ntz'2025-02-28 01:00:00' AS t",
    )  # fmt: skip
    assert landing.run(tables) == {}
    frame = landing.world.spark.read.format("delta").load(landing.world.path("t"))
    kept = landing.world.spark.createDataFrame(frame.collect(), frame.schema)
    assert kept.count() == 2
    day = "timestamp_ntz'2025-01-31 00:00:00'"
    for condition in (
        "f > 0.1d", "f = cast(0.1f AS DOUBLE)", "f < 0.2d", "i < 10.5", "i = 10", "i >= 9.9", "l < 10.5", "l = 10",
        "n < 10.5", "n = 10", "d = 1.5", "d < 1.501", f"t = {day}", f"t <= {day}", f"t > {day} - INTERVAL 1 HOUR",
    ):  # fmt: skip
        assert frame.where(condition).count() == kept.where(condition).count() > 0, condition


def test_types_of_text_files_widen_with_what_is_inferred(landing: Landing) -> None:
    """CSV has all numbers, JSON decimals if they are preferred; hints and texts stay, what has no type is rescued."""
    tables: dict[str, dict[str, Any]] = {
        "csv": {**TYPED, "cloudFiles.format": "csv", "header": "true", "cloudFiles.schemaHints": "h INT"},
        "json": {**TYPED, "prefersDecimal": "true"},
        "texts": WIDENS,
        "xml": {**TYPED, "cloudFiles.format": "xml", "rowTag": "r"},
    }
    landing.text("csv/1.csv", "id,n,h,t\n1,1,1,2025-01-31\n")
    landing.put("json/1.json", {"id": 1, "at": {"n": 1}, "x": 1.5, "d": "a"})
    landing.put("texts/1.json", {"id": 1})
    landing.text("xml/1.xml", "<r><id>1</id></r>")
    assert landing.run(tables) == {}
    landing.text("csv/2.csv", f"id,n,h,t\n{MOST},1.5,{MOST},soon\n")
    landing.put("json/2.json", {"id": 2, "at": {"n": 1.5}, "x": 12.25, "d": 7})
    landing.put("texts/2.json", {"id": 1.5})
    landing.text("xml/2.xml", "<r><id>2</id></r>")
    assert landing.run(tables) == {}
    assert columns(landing, "csv") == "id bigint, n double, h int, t date"
    assert shown(landing, "csv") == [
        ({"id": 1, "n": 1.0, "h": 1, "t": date(2025, 1, 31)}, {}),
        ({"id": MOST, "n": 1.5}, {"h": str(MOST), "t": "soon"}),
    ]
    assert columns(landing, "json") == "at struct<n:decimal(21,1)>, d string, id bigint, x decimal(4,2)"
    assert shown(landing, "json") == [
        ({"at": {"n": Decimal("1.0")}, "d": "a", "id": 1, "x": Decimal("1.50")}, {}),
        ({"at": {"n": Decimal("1.5")}, "d": "7", "id": 2, "x": Decimal("12.25")}, {}),
    ]
    assert [row["id"] for row in landing.rows("texts")] == ["1", "1.5"]
    assert [row["id"] for row in landing.rows("xml")] == [1, 2]


def _pipeline(landing: Landing) -> Callable[[], None]:
    """A table of files, one that streams from it, a view, and AUTO CDC targets of both types."""
    spark = landing.world.spark

    def declared() -> None:
        @dp.table
        def bronze() -> DataFrame:
            reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "parquet", **WIDENS})
            return reader.load(str(landing.root / "t")).drop("_rescued_data")

        @dp.table
        def silver() -> DataFrame:
            return spark.readStream.table("bronze").selectExpr("id", "amount", "op")

        @dp.materialized_view
        def gold() -> DataFrame:
            return spark.read.table("silver").groupBy("op").agg(F.sum("amount").alias("total"))

        for scd_type in (1, 2):
            dp.create_streaming_table(f"scd{scd_type}")
            dp.create_auto_cdc_flow(
                target=f"scd{scd_type}", source="bronze", keys=["id"], sequence_by="seq",
                apply_as_deletes="op = 'd'", except_column_list=["op"], stored_as_scd_type=scd_type,
            )  # fmt: skip

    return declared


def put(landing: Landing, *rows: tuple[Any, ...], types: str) -> None:
    """Add a Parquet file with id, amount, op and seq."""
    frame = landing.world.spark.createDataFrame(list(rows), types).coalesce(1)
    frame.write.mode("append").parquet(str(landing.root / "t"))


NARROW = "id INT, amount INT, op STRING, seq INT"
WIDE = "id BIGINT, amount DECIMAL(6,2), op STRING, seq BIGINT"


def begin(landing: Landing) -> None:
    """The first update, with a delete that the auxiliary tables record."""
    put(landing, (1, 10, "u", 1), (2, 20, "u", 2), (3, 30, "d", 9), types=NARROW)
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED


def extend(landing: Landing) -> None:
    """Events with wider keys, values and sequences; one comes after a delete with a later sequence."""
    put(
        landing, (1, Decimal("10.25"), "u", 11), (MOST, Decimal("1.50"), "u", MOST), (2, None, "d", 12),
        (3, Decimal(31), "u", 8), types=WIDE,
    )  # fmt: skip


def check(landing: Landing) -> None:
    """All tables have the rows of both files, in the wider types."""
    ten, wide = Decimal("10.25"), Decimal("1.50")
    assert columns(landing, "bronze") == "id bigint, amount decimal(12,2), op string, seq bigint"
    assert landing.world.rows("silver") == sorted(
        [
            (1, Decimal("10.00"), "u"), (2, Decimal("20.00"), "u"), (3, Decimal("30.00"), "d"), (1, ten, "u"),
            (MOST, wide, "u"), (2, None, "d"), (3, Decimal("31.00"), "u"),
        ],
        key=repr,
    )  # fmt: skip
    assert landing.world.rows("gold") == [("d", Decimal("30.00")), ("u", Decimal("72.75"))]
    assert columns(landing, "scd1") == "id bigint, amount decimal(12,2), seq bigint"
    assert landing.world.rows("scd1") == [(1, ten, 11), (MOST, wide, MOST)]
    assert columns(landing, "scd2") == "id bigint, amount decimal(12,2), seq bigint, __START_AT bigint, __END_AT bigint"
    assert landing.world.rows("scd2") == sorted(
        [
            (1, Decimal("10.00"), 1, 1, 11), (1, ten, 11, 11, None), (2, Decimal("20.00"), 2, 2, 12),
            (3, Decimal("31.00"), 8, 8, 9), (MOST, wide, MOST, MOST, None),
        ],
        key=repr,
    )  # fmt: skip


def test_tables_that_read_the_files_widen_too(landing: Landing) -> None:
    """Streams, views, keys and sequences of AUTO CDC: one update, the rows of both types, and then nothing to do."""
    begin(landing)
    extend(landing)
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED
    check(landing)
    versions = landing.world.versions("scd1")
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED
    assert landing.world.versions("scd1") == versions
    check(landing)


@pytest.mark.parametrize(
    ("point", "nth"), [("cloud_files.after_columns", 1), *(("tables.before_wider_types", nth) for nth in (1, 2, 4))]
)
def test_an_update_that_ends_between_record_and_tables_is_continued(landing: Landing, point: str, nth: int) -> None:
    """The types are recorded before a table has them; the next update widens the tables that lack them."""
    begin(landing)
    extend(landing)
    arm(point, nth=nth, action=stop)
    with suppress(StoppedHereError):
        assert landing.world.run(_pipeline(landing)).state is UpdateState.FAILED
    disarm()
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED
    check(landing)


def test_a_table_that_must_not_change_refuses_the_type_before_a_row_is_written(landing: Landing) -> None:
    """Its property says no; with the property of the query's own table, other types of a query widen too."""
    spark, given = landing.world.spark, {"delta.enableTypeWidening": "false"}
    kind = ["INT"]

    def declared() -> None:
        @dp.table(table_properties=given)
        def t() -> DataFrame:
            return spark.readStream.format("delta").load(landing.world.source()).selectExpr(f"cast(id AS {kind[0]}) id")

    landing.world.feed([(1,)], "id BIGINT")
    assert landing.world.run(declared).state is UpdateState.COMPLETED
    kind[0] = "BIGINT"
    landing.world.feed([(MOST,)], "id BIGINT")
    with pytest.raises(UserErrors, match="SCHEMA_CANNOT_EVOLVE"):
        landing.world.run(declared)
    given["delta.enableTypeWidening"] = "true"
    assert landing.world.run(declared).state is UpdateState.COMPLETED
    assert landing.world.rows("t") == [(1,), (MOST,)]
    kind[0] = "INT"
    landing.world.feed([(2,)], "id BIGINT")
    assert landing.world.run(declared).state is UpdateState.COMPLETED
    assert (columns(landing, "t"), landing.world.rows("t")) == ("id bigint", [(1,), (2,), (MOST,)])


def test_a_rewind_to_before_the_auxiliary_table_had_wider_rows_is_mended(landing: Landing) -> None:
    """The target goes back to a version with wider types, its auxiliary table to one without, and is widened."""
    spark = landing.world.spark

    def declared() -> None:
        @dp.temporary_view
        def events() -> DataFrame:
            reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "parquet", **WIDENS})
            return reader.load(str(landing.root / "t"))

        dp.create_streaming_table("scd1")
        dp.create_auto_cdc_flow(
            target="scd1", source="events", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'd'",
            column_list=["id", "amount"],
        )  # fmt: skip

    put(landing, (1, 10, "u", 1), (3, 30, "d", 9), types=NARROW)
    assert landing.world.run(declared).state is UpdateState.COMPLETED
    put(landing, (1, Decimal("10.25"), "u", 2), types=WIDE)
    moment = landing.world.run(declared)
    assert moment.state is UpdateState.COMPLETED
    put(landing, (MOST, None, "d", MOST), (2, Decimal("2.50"), "u", 3), types=WIDE)
    assert landing.world.run(declared).state is UpdateState.COMPLETED
    rewinds = landing.world.pipeline(declared).rewinds
    rewinds.rewind(rewinds.plan(moment.update_id))
    assert landing.world.rows("scd1") == [(1, Decimal("10.25"))]
    put(landing, (MOST, Decimal("1.00"), "u", 4), types=WIDE)
    result = landing.world.run(declared)
    assert [str(flow.error) for flow in result.flows if flow.error] == []
    assert landing.world.rows("scd1") == [(1, Decimal("10.25")), (2, Decimal("2.50"))]
    assert [step for step in landing.world.pipeline(declared).plan().steps if isinstance(step, CreateTable)] == []


def test_a_restore_to_narrower_fields_of_a_struct_is_mended_before_a_row_is_written(landing: Landing) -> None:
    """Delta would convert the values to the fields of the table: 10.25 in a whole number is 10."""
    tables = {"t": {"cloudFiles.format": "parquet", **WIDENS}}
    write(landing, "parquet", "t", "1 AS id, named_struct('x', 1, 'a', array(1)) AS s")
    assert landing.run(tables) == {}
    narrow = landing.world.versions("t") - 1
    write(landing, "parquet", "t", "2 AS id, named_struct('x', 2.25, 'a', array(2.25)) AS s")
    assert landing.run(tables) == {}
    landing.world.spark.sql(f"RESTORE TABLE delta.`{landing.world.path('t')}` TO VERSION AS OF {narrow}")
    write(landing, "parquet", "t", "3 AS id, named_struct('x', 10.25, 'a', array(10.25)) AS s")
    assert landing.run(tables) == {}
    assert columns(landing, "t") == "id int, s struct<x:decimal(12,2),a:array<decimal(12,2)>>"
    one, wide = Decimal("1.00"), Decimal("10.25")
    assert landing.rows("t") == [{"id": 1, "s": {"x": one, "a": [one]}}, {"id": 3, "s": {"x": wide, "a": [wide]}}]


def test_the_table_of_a_sink_that_would_lose_a_part_of_wider_values_is_not_written(landing: Landing) -> None:
    """The user's table stays as it is; when its columns are wider, the flow goes on where it was."""
    spark, table = landing.world.spark, str(landing.root / "out")
    spark.createDataFrame([], "a INT, s STRUCT<x: INT>, n STRING").write.format("delta").save(table)

    def declared() -> None:
        dp.create_sink("out", "delta", {"path": table})

        @dp.append_flow(target="out")
        def rows() -> DataFrame:
            reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "parquet", **WIDENS})
            return reader.load(str(landing.root / "t")).drop("_rescued_data")

    def stopped() -> list[str]:
        return [str(flow.error) for flow in landing.world.run(declared).flows if flow.error]

    write(landing, "parquet", "t", "1 AS a, named_struct('x', 1) AS s, 1 AS n")
    assert stopped() == []
    write(landing, "parquet", "t", "10.25 AS a, named_struct('x', 5000000000L) AS s, 1.5 AS n")
    for column, change in (("a", "a TYPE DECIMAL(12,2)"), ("s.x", "s.x TYPE BIGINT")):
        (error,) = stopped()
        assert error.startswith("[SINK_TYPE_TOO_NARROW]"), error
        assert f"Column {column} of the table at {table}" in error, error
        assert spark.read.format("delta").load(table).count() == 1
        spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        spark.sql(f"ALTER TABLE delta.`{table}` ALTER COLUMN {change}")
    assert stopped() == []
    rows = [(row.a, row.s.x, row.n) for row in spark.read.format("delta").load(table).orderBy("a").collect()]
    assert rows == [(Decimal("1.00"), 1, "1"), (Decimal("10.25"), MOST, "1.5")]


def test_a_column_with_a_constraint_names_the_statements_that_make_it_wider(landing: Landing) -> None:
    """Delta refuses the change. No row is written; after the statements as they stand there, all rows are checked."""
    spark, tables = landing.world.spark, {"t": {"cloudFiles.format": "parquet", **WIDENS}}
    write(landing, "parquet", "t", "1 AS id, 10 AS amount")
    assert landing.run(tables) == {}
    table = f"delta.`{landing.world.path('t')}`"
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT Positive CHECK (amount > 0)")
    write(landing, "parquet", "t", "5000000000L AS id, 10.25 AS amount")
    (error,) = (str(flow.error) for flow in landing.world.run(landing.declare(tables)).flows if flow.error)
    assert error.startswith("[CONSTRAINT_KEEPS_TYPE]"), error
    assert "positive (amount > 0)" in error
    assert "`amount` from int to decimal(12,2)" in error
    assert [row["id"] for row in landing.rows("t")] == [1]
    statements = error.partition("the update again: ")[2].rstrip(".").split("; ")
    assert [each.partition(table)[2].split()[0] for each in statements] == ["DROP", "ALTER", "ADD"]
    for statement in statements:
        spark.sql(statement)
    assert landing.run(tables) == {}
    assert columns(landing, "t") == "id bigint, amount decimal(12,2)"
    assert landing.rows("t") == [{"id": 1, "amount": Decimal("10.00")}, {"id": MOST, "amount": Decimal("10.25")}]
    write(landing, "parquet", "t", "2 AS id, -1 AS amount")
    assert list(landing.run(tables)) == ["t"]
    assert len(landing.rows("t")) == 2


def test_a_column_that_others_are_generated_from_keeps_its_type(spark: SparkSession, tmp_path: Path) -> None:
    """Delta refuses the change, and has no statement for it. The error names both, and no row is written."""
    world = EngineWorld(spark, tmp_path)

    def declared(kind: str) -> Callable[[], None]:
        def declare() -> None:
            generated = {"delta.generationExpression": "CAST(id AS INT) * 2"}
            id_type, whole = DataType.fromDDL(kind), DataType.fromDDL("INT")
            schema = StructType().add("id", id_type).add("twice", whole, metadata=generated)

            @dp.table(schema=schema, table_properties={"delta.enableTypeWidening": "true"})
            def t() -> DataFrame:
                return spark.readStream.format("delta").load(world.source()).selectExpr(f"CAST(id AS {kind}) AS id")

        return declare

    world.feed([(1,)], "id BIGINT")
    assert world.run(declared("INT")).state is UpdateState.COMPLETED
    world.feed([(2,)], "id BIGINT")
    (error,) = (str(flow.error) for flow in world.run(declared("BIGINT")).flows if flow.error)
    assert error.startswith("[GENERATED_COLUMN_KEEPS_TYPE]"), error
    assert "generated columns twice" in error
    assert "`id` from int to bigint" in error
    assert world.rows("t") == [(1, 2)]
    assert world.run(declared("INT")).state is UpdateState.COMPLETED
    assert world.rows("t") == [(1, 2), (2, 4)]


def test_backticks_around_a_name_are_a_part_of_it(landing: Landing) -> None:
    """A column and a field with such a name widen, and those that have the name without them stay."""
    tables = {"t": {"cloudFiles.format": "parquet", **WIDENS}}
    write(landing, "parquet", "t", "1 AS id, 2 AS ```a```, 'x' AS a, named_struct('`f`', 3, 'f', 'y') AS s")
    assert landing.run(tables) == {}
    write(landing, "parquet", "t", f"2 AS id, {MOST} AS ```a```, 'x' AS a, named_struct('`f`', {MOST}, 'f', 'y') AS s")
    assert landing.run(tables) == {}
    assert columns(landing, "t") == "id int, `a` bigint, a string, s struct<`f`:bigint,f:string>"
    assert landing.rows("t") == [
        {"id": 1, "`a`": 2, "a": "x", "s": {"`f`": 3, "f": "y"}},
        {"id": 2, "`a`": MOST, "a": "x", "s": {"`f`": MOST, "f": "y"}},
    ]


@pytest.mark.parametrize("quarantine", [False, True])
def test_two_flows_of_one_table_have_all_of_their_values_whichever_is_wider(
    landing: Landing, *, quarantine: bool
) -> None:
    """The narrower one is cast to the columns of the table; when it becomes the wider one, the table follows."""
    spark, given = landing.world.spark, {"sluice.quarantine": "true"} if quarantine else {}

    def declared() -> None:
        dp.create_streaming_table("t", table_properties=given)
        for name in ("a", "b"):

            @dp.append_flow(target="t", name=name)
            def rows(name: str = name) -> DataFrame:
                reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "parquet", **WIDENS})
                return reader.load(str(landing.root / name)).drop("_rescued_data")

    def failed() -> list[str]:
        return [str(flow.error) for flow in landing.world.run(declared).flows if flow.error]

    write(landing, "parquet", "a", "1 AS id, named_struct('x', 1) AS s")
    write(landing, "parquet", "b", "2 AS id, named_struct('x', 2) AS s")
    assert failed() == []
    write(landing, "parquet", "a", "5000000000L AS id, named_struct('x', 5000000000L) AS s")
    write(landing, "parquet", "b", "3 AS id, named_struct('x', 3) AS s")
    assert failed() == []
    assert columns(landing, "t") == "id bigint, s struct<x:bigint>"
    write(landing, "parquet", "a", "4L AS id, named_struct('x', 4L) AS s")
    write(landing, "parquet", "b", "5.5 AS id, named_struct('x', 5.5) AS s")
    assert failed() == []
    assert columns(landing, "t") == "id decimal(21,1), s struct<x:decimal(21,1)>"
    found = sorted((row["id"], row["s"]["x"]) for row in landing.rows("t"))
    assert found == [(Decimal(number), Decimal(number)) for number in ("1", "2", "3", "4", "5.5", "5000000000")]
