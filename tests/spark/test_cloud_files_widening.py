"""`addNewColumnsWithTypeWidening`: values that need a wider type get it, in all tables that read the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from framework import pipelines as dp
from framework.cdc.analysis.compatibility import can_widen
from framework.foundation.errors import UserErrors
from framework.foundation.failpoints import arm_all, disarm
from framework.plan.steps import CreateTable
from framework.run.update.results import UpdateState
from framework.schema.lattice import TABLE
from tests.support.engine_world import EngineWorld
from tests.support.landing import Landing
from tests.support.plain_tables import stored_schema, write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    fields = stored_schema(landing.world.path(table)).fields
    shown = [each for each in fields if each.name not in {"_rescued_data", "__sluice"}]
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in shown)


def properties(landing: Landing, table: str) -> dict[str, str]:
    """The properties of a table."""
    detail = landing.world.spark.sql(f"DESCRIBE DETAIL delta.`{landing.world.path(table)}`").first()
    assert detail is not None
    return dict(detail["properties"])


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
    assert TABLE.wider(known, found) == wider


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


FILES: dict[str, dict[str, Any]] = {
    "typed": {**WIDENS, "cloudFiles.format": "parquet"},
    "csv": {**TYPED, "cloudFiles.format": "csv", "header": "true", "cloudFiles.schemaHints": "h INT"},
    "json": {**TYPED, "prefersDecimal": "true"},
    "texts": WIDENS,
    "xml": {**TYPED, "cloudFiles.format": "xml", "rowTag": "r"},
    "restored": {**WIDENS, "cloudFiles.format": "parquet"},
    "constrained": {**WIDENS, "cloudFiles.format": "parquet"},
}
OF_TWO = {"of_two": {}, "of_two_kept": {"sluice.quarantine": "true"}}
"""The tables of two flows, and their properties."""


def _tables(landing: Landing) -> Callable[[], None]:
    """A table for each folder of files, and those of two flows."""
    spark = landing.world.spark

    def declared() -> None:
        landing.declare(FILES)()
        for table, given in OF_TWO.items():
            dp.create_streaming_table(table, table_properties=given)
            for folder in ("a", "b"):

                @dp.append_flow(target=table, name=f"{folder}_{table}")
                def rows(folder: str = folder) -> DataFrame:
                    reader = spark.readStream.format("cloudFiles").options(**{"cloudFiles.format": "parquet", **WIDENS})
                    return reader.load(str(landing.root / folder)).drop("_rescued_data")

    return declared


def _land_narrow(landing: Landing) -> None:
    """The first file of each folder."""
    write(
        landing, "parquet", "typed",
        "cast(1 AS TINYINT) AS b, 1 AS i, 1L AS l, 1.5f AS f, cast(1.25 AS DECIMAL(5,2)) AS d, date'2025-01-31' AS t, "
        "1 AS n, named_struct('x', 1, '`x`', 3, 'y', 'y') AS s, array(1) AS a, map('k', 1) AS m, 1 AS text, "
        "2 AS ```q```, 'x' AS q, "
        "0.1f AS sf, 10 AS si, 10L AS sl, 10 AS sn, cast(1.5 AS DECIMAL(3,1)) AS sd, date'2025-01-31' AS st",
    )  # fmt: skip
    landing.text("csv/1.csv", "id,n,h,t\n1,1,1,2025-01-31\n")
    landing.put("json/1.json", {"id": 1, "at": {"n": 1}, "x": 1.5, "d": "a"})
    landing.put("texts/1.json", {"id": 1})
    landing.text("xml/1.xml", "<r><id>1</id></r>")
    write(landing, "parquet", "restored", "1 AS id, named_struct('x', 1, 'a', array(1)) AS s")
    write(landing, "parquet", "constrained", "1 AS id, 10 AS amount")
    write(landing, "parquet", "a", "1 AS id, named_struct('x', 1) AS s")
    write(landing, "parquet", "b", "2 AS id, named_struct('x', 2) AS s")


def _land_wide(landing: Landing) -> None:
    """The second file of each folder."""
    write(
        landing, "parquet", "typed",
        "1000 AS b, 5000000000L AS i, cast(1.5 AS DECIMAL(3,1)) AS l, 0.1d AS f, cast(1.2345 AS DECIMAL(9,4)) AS d, "
        "timestamp_ntz'2025-01-31 12:00:00' AS t, 0.5d AS n, "
        f"named_struct('x', {MOST}, '`x`', {MOST}, 'y', 'y') AS s, array({MOST}) AS a, map('k', {MOST}) AS m, "
        f"'no number' AS text, 7 AS more, {MOST} AS ```q```, 'x' AS q, "
        "0.3d AS sf, 99.5 AS si, 99.5 AS sl, 99.5d AS sn, 9.125 AS sd, timestamp_ntz'2025-02-28 01:00:00' AS st",
    )  # fmt: skip
    landing.text("csv/2.csv", f"id,n,h,t\n{MOST},1.5,{MOST},soon\n")
    landing.put("json/2.json", {"id": 2, "at": {"n": 1.5}, "x": 12.25, "d": 7})
    landing.put("texts/2.json", {"id": 1.5})
    landing.text("xml/2.xml", "<r><id>2</id></r>")
    write(landing, "parquet", "restored", "2 AS id, named_struct('x', 2.25, 'a', array(2.25)) AS s")
    write(landing, "parquet", "constrained", "5000000000L AS id, 10.25 AS amount")
    write(landing, "parquet", "a", "5000000000L AS id, named_struct('x', 5000000000L) AS s")
    write(landing, "parquet", "b", "3 AS id, named_struct('x', 3) AS s")


class Widened(NamedTuple):
    """The tables of `_tables` after updates over narrow files, over wide ones, and over what follows.

    Args:
        landing: has the tables.
        errors: of each update, by table.
        of_two: the columns of the tables of two flows after the second update.
        constrained: the rows of the table with a constraint after the second update.
    """

    landing: Landing
    errors: list[dict[str, str]]
    of_two: dict[str, str]
    constrained: list[dict[str, Any]]


@pytest.fixture(scope="module")
def widened(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Widened:
    """All tables widen in the second update; between the updates, one is restored, and one gets a constraint."""
    root = tmp_path_factory.mktemp("widened")
    landing = Landing(world=EngineWorld(spark.newSession(), root), root=root / "landing")
    world, errors = landing.world, list[dict[str, str]]()

    def update(**request: Any) -> None:
        # One flow after the other: the second one of a folder begins when the first one has recorded wider types.
        alone = {"pipelines.maxParallelFlows": "1"}
        result = world.pipeline(_tables(landing), configuration=alone).run(**request)
        errors.append({flow.flow.table: str(flow.error) for flow in result.flows if flow.error})

    _land_narrow(landing)
    update()
    assert "delta.enableTypeWidening" not in properties(landing, "typed")
    narrow = world.versions("restored") - 1
    table = f"delta.`{world.path('constrained')}`"
    world.spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT Positive CHECK (amount > 0)")
    _land_wide(landing)
    update()
    of_two, constrained = {name: columns(landing, name) for name in OF_TWO}, landing.rows("constrained")
    world.spark.sql(f"RESTORE TABLE delta.`{world.path('restored')}` TO VERSION AS OF {narrow}")
    for statement in _statements(errors[1]["constrained"]):
        world.spark.sql(statement)
    write(landing, "parquet", "restored", "3 AS id, named_struct('x', 10.25, 'a', array(10.25)) AS s")
    write(landing, "parquet", "a", "4L AS id, named_struct('x', 4L) AS s")
    write(landing, "parquet", "b", "5.5 AS id, named_struct('x', 5.5) AS s")
    update()
    write(landing, "parquet", "constrained", "2 AS id, -1 AS amount")
    update(refresh=["constrained"])
    return Widened(landing=landing, errors=errors, of_two=of_two, constrained=constrained)


def _statements(error: str) -> list[str]:
    """The statements that an error advises."""
    return error.partition("the update again: ")[2].rstrip(".").split("; ")


def test_each_table_takes_what_it_can(widened: Widened) -> None:
    """Of all updates, only those of the table with a constraint fail."""
    assert [list(failed) for failed in widened.errors] == [[], ["constrained"], [], ["constrained"]]


def test_columns_of_typed_files_widen_at_every_depth_in_one_update(widened: Widened) -> None:
    """Each supported change of Parquet, a new column beside it, and values that no wider type has are rescued.

    Backticks around a name are a part of it: such a column and such a field widen, and those without them stay.
    """
    landing = widened.landing
    assert properties(landing, "typed")["delta.enableTypeWidening"] == "true"
    assert columns(landing, "typed").partition(", sf ")[0] == (
        "b int, i bigint, l decimal(21,1), f float, d decimal(9,4), t timestamp_ntz, n double, "
        "s struct<x:bigint,`x`:bigint,y:string>, a array<bigint>, m map<string,bigint>, text int, `q` bigint, q string"
    )
    assert columns(landing, "typed").endswith(", more int")
    first = {
        "b": 1, "i": 1, "l": Decimal("1.0"), "f": 1.5, "d": Decimal("1.2500"), "t": DAY, "n": 1.0,
        "s": {"x": 1, "`x`": 3, "y": "y"}, "a": [1], "m": {"k": 1}, "text": 1, "`q`": 2, "q": "x",
    }  # fmt: skip
    second = {
        "b": 1000, "i": MOST, "l": Decimal("1.5"), "d": Decimal("1.2345"), "t": NOON,
        "n": 0.5, "s": {"x": MOST, "`x`": MOST, "y": "y"}, "a": [MOST], "m": {"k": MOST}, "more": 7, "`q`": MOST,
        "q": "x",
    }  # fmt: skip
    skipped = ("sf", "si", "sl", "sn", "sd", "st")
    found = [({k: v for k, v in row.items() if k not in skipped}, rest) for row, rest in landing.shown("typed")]
    assert sorted(found, key=lambda row: row[0]["b"]) == [
        (first, {}),
        (second, {"f": "0.1", "text": "no number", "sf": "0.3"}),
    ]


def test_queries_find_the_rows_from_before_in_files_whose_statistics_have_the_narrow_type(widened: Widened) -> None:
    """Delta skips files by the statistics of their time; a FLOAT stays one, because its texts there are not exact."""
    landing = widened.landing
    frame = landing.world.spark.read.format("delta").load(landing.world.path("typed"))
    kept = landing.world.spark.createDataFrame(frame.collect(), frame.schema)
    day = "timestamp_ntz'2025-01-31 00:00:00'"
    conditions = (
        "sf > 0.1d", "sf = cast(0.1f AS DOUBLE)", "sf < 0.2d", "si < 10.5", "si = 10", "si >= 9.9", "sl < 10.5",
        "sl = 10", "sn < 10.5", "sn = 10", "sd = 1.5", "sd < 1.501", f"st = {day}", f"st <= {day}",
        f"st > {day} - INTERVAL 1 HOUR",
    )  # fmt: skip
    (counts,) = kept.selectExpr(*(f"count_if({condition})" for condition in conditions)).collect()
    # One query with a scan for each condition: each scan skips files by its own.
    found = reduce(DataFrame.unionAll, (frame.where(each).select(F.lit(each).alias("c")) for each in conditions))
    assert Counter(row.c for row in found.collect()) == Counter(dict(zip(conditions, counts, strict=True)))
    assert min(counts) > 0


def test_types_of_text_files_widen_with_what_is_inferred(widened: Widened) -> None:
    """CSV has all numbers, JSON decimals if they are preferred; hints and texts stay, what has no type is rescued."""
    landing = widened.landing
    assert columns(landing, "csv") == "id bigint, n double, h int, t date"
    assert landing.shown("csv") == [
        ({"id": 1, "n": 1.0, "h": 1, "t": date(2025, 1, 31)}, {}),
        ({"id": MOST, "n": 1.5}, {"h": str(MOST), "t": "soon"}),
    ]
    assert columns(landing, "json") == "at struct<n:decimal(21,1)>, d string, id bigint, x decimal(4,2)"
    assert landing.shown("json") == [
        ({"at": {"n": Decimal("1.0")}, "d": "a", "id": 1, "x": Decimal("1.50")}, {}),
        ({"at": {"n": Decimal("1.5")}, "d": "7", "id": 2, "x": Decimal("12.25")}, {}),
    ]
    assert [row["id"] for row in landing.rows("texts")] == ["1", "1.5"]
    assert [row["id"] for row in landing.rows("xml")] == [1, 2]


def test_a_restore_to_narrower_fields_of_a_struct_is_mended_before_a_row_is_written(widened: Widened) -> None:
    """Delta would convert the values to the fields of the table: 10.25 in a whole number is 10."""
    landing = widened.landing
    assert columns(landing, "restored") == "id int, s struct<x:decimal(12,2),a:array<decimal(12,2)>>"
    one, wide = Decimal("1.00"), Decimal("10.25")
    assert landing.rows("restored") == [
        {"id": 1, "s": {"x": one, "a": [one]}},
        {"id": 3, "s": {"x": wide, "a": [wide]}},
    ]


def test_a_column_with_a_constraint_names_the_statements_that_make_it_wider(widened: Widened) -> None:
    """Delta refuses the change. No row is written; after the statements as they stand there, all rows are checked."""
    landing, error = widened.landing, widened.errors[1]["constrained"]
    table = f"delta.`{landing.world.path('constrained')}`"
    assert error.startswith("[CONSTRAINT_KEEPS_TYPE]"), error
    assert "positive (amount > 0)" in error
    assert "`amount` from int to decimal(12,2)" in error
    assert [row["id"] for row in widened.constrained] == [1]
    assert [each.partition(table)[2].split()[0] for each in _statements(error)] == ["DROP", "ALTER", "ADD"]
    assert columns(landing, "constrained") == "id bigint, amount decimal(12,2)"
    # The row that violates the constraint came later, and is not there.
    assert landing.rows("constrained") == [
        {"id": 1, "amount": Decimal("10.00")},
        {"id": MOST, "amount": Decimal("10.25")},
    ]


@pytest.mark.parametrize("table", OF_TWO)
def test_two_flows_of_one_table_have_all_of_their_values_whichever_is_wider(widened: Widened, table: str) -> None:
    """The narrower one is cast to the columns of the table; when it becomes the wider one, the table follows.

    Two tables read the same folders: the flow that records a wider type widens its own table only.
    """
    assert widened.of_two[table] == "id bigint, s struct<x:bigint>"
    assert columns(widened.landing, table) == "id decimal(21,1), s struct<x:decimal(21,1)>"
    found = sorted((row["id"], row["s"]["x"]) for row in widened.landing.rows(table))
    assert found == [(Decimal(number), Decimal(number)) for number in ("1", "2", "3", "4", "5.5", "5000000000")]


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
    write_parquet(landing.root / "t", rows, types)


NARROW = "id INT, amount INT, op STRING, seq INT"
WIDE = "id BIGINT, amount DECIMAL(6,2), op STRING, seq BIGINT"


def begin(landing: Landing) -> None:
    """An update over a narrow file, and then a file with wider types.

    Of the first file the auxiliary tables have a delete; an event of the second one comes after a delete with a later
    sequence.
    """
    put(landing, (1, 10, "u", 1), (2, 20, "u", 2), (3, 30, "d", 9), types=NARROW)
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED
    put(
        landing, (1, Decimal("10.25"), "u", 11), (MOST, Decimal("1.50"), "u", MOST), (2, None, "d", 12),
        (3, Decimal(31), "u", 8), types=WIDE,
    )  # fmt: skip


def check_scd1(landing: Landing) -> None:
    """The target of type 1 has the rows of both files, in the wider types."""
    assert columns(landing, "scd1") == "id bigint, amount decimal(12,2), seq bigint"
    assert landing.world.rows("scd1") == [(1, Decimal("10.25"), 11), (MOST, Decimal("1.50"), MOST)]


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
    check_scd1(landing)
    assert columns(landing, "scd2") == "id bigint, amount decimal(12,2), seq bigint, __START_AT bigint, __END_AT bigint"
    assert landing.world.rows("scd2") == sorted(
        [
            (1, Decimal("10.00"), 1, 1, 11), (1, ten, 11, 11, None), (2, Decimal("20.00"), 2, 2, 12),
            (3, Decimal("31.00"), 8, 8, 9), (MOST, wide, MOST, MOST, None),
        ],
        key=repr,
    )  # fmt: skip


def test_tables_that_read_the_files_widen_too(landing: Landing) -> None:
    """Streams, views, keys and sequences of AUTO CDC have the rows of both types, and then nothing is to be done.

    The types are recorded before a table has them; the next update widens the tables that lack them. The table of the
    files is wider; its stream stops before its own table is, and AUTO CDC of type 2 between a target and the auxiliary
    table. Type 1 needs one update. `tests/crashes` stops before all of its tables, and in `test_continuous.py` nothing
    stops the stream.
    """
    begin(landing)
    # One flow after the other: the stream and the last one reach their last table, and stop there.
    arm_all({("tables.before_wider_types", nth): stop for nth in (2, 6)})
    alone = {"pipelines.maxParallelFlows": "1"}
    result = landing.world.pipeline(_pipeline(landing), configuration=alone).run()
    assert disarm()["tables.before_wider_types"] == 6
    assert {flow.flow.table for flow in result.flows if flow.error} == {"silver", "scd2"}
    assert [" amount int" in columns(landing, table) for table in ("silver", "scd1", "scd2")] == [True, False, False]
    check_scd1(landing)
    assert landing.world.run(_pipeline(landing)).state is UpdateState.COMPLETED
    check(landing)
    versions = landing.world.versions("scd1")
    assert landing.world.run(_pipeline(landing)).is_idle
    assert landing.world.versions("scd1") == versions


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
