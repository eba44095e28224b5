"""Snapshots through files: the same rows as from the source, and no file that a killed attempt left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework import Pipeline
from framework.demo.postgres_server import PostgresServer
from framework.foundation.failpoints import arm, arm_all, disarm
from framework.run.update.results import UpdateResult, UpdateState
from tests.databases.conftest import new_database
from tests.support.copied_tables import copy_rows
from tests.support.postgres_log import query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
COLUMNS = "id, small, amount, price, seen, local, day, flag, code, blob, tags, label"
TABLES = ("copied", "constrained", "merged")
MODULE = """
from pyspark.sql import functions as F
from framework import pipelines as dp

def orders(chunks=2):
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bank").option("table", "orders")
    reader = reader.option("connectionsFolder", spark.conf.get("bank.folder")).option("chunkBytes", "320k")
    return reader.option("maxChunksPerTrigger", chunks).load()

@dp.table
def copied():
    return orders()

@dp.table(table_properties={"delta.constraints.positive": "id > 0"})
def constrained():
    return orders()

@dp.table(partition_cols=["flag"])
def changed():
    return orders(9).where("id % 2 = 0").selectExpr("*", "id * 2L AS twice", "explode(array(1, 2)) AS part")

@dp.table
@dp.expect("priced", "price > 0")
@dp.expect_or_drop("even", "id % 2 = 0")
def checked():
    return orders(9)

@dp.table
def stamped():
    return orders(9).withColumn("at", F.current_timestamp())

dp.create_streaming_table("merged")

@dp.snapshot_flow(
    target="merged", keys=["id"], sequence_by="position", except_column_list=["position"], name="merged_snapshot_flow"
)
def merged_snapshot():
    return orders().selectExpr("*", "0L AS position")
"""


def create_orders(run: Run) -> list[tuple[Any, ...]]:
    """Create a table of many types, some chunks long, and return its rows."""
    run(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, small SMALLINT, amount NUMERIC(12,2), price DOUBLE PRECISION, "
        "seen TIMESTAMPTZ, local TIMESTAMP, day DATE, flag BOOLEAN, code CHAR(4), blob BYTEA, tags TEXT[], label TEXT)"
    )
    run(
        "INSERT INTO orders SELECT i, i % 100, i * 1.25, CASE WHEN i % 7 = 0 THEN NULL ELSE i / 3.0 END, "
        "timestamptz '1492-10-12 10:00:00.123456+00' + i * interval '30 days', timestamp '0001-01-01' + i * interval "
        "'1 day', date '0001-01-01' + i, i % 3 = 0, 'c' || i % 10, decode(lpad(to_hex(i), 8, '0'), 'hex'), "
        "ARRAY['a' || i, NULL], CASE WHEN i % 5 = 0 THEN NULL ELSE repeat('é', i % 40) END "
        "FROM generate_series(1, 5000) AS i"
    )
    run("ANALYZE orders")
    # Python's drivers disagree on the zone of a point in time.
    columns = COLUMNS.replace("seen", "(extract(epoch FROM seen) * 1000000)::bigint")
    return plain(run(f"SELECT {columns} FROM orders ORDER BY id"))


@pytest.fixture
def orders(run: Run) -> list[tuple[Any, ...]]:
    """The rows of the table."""
    return create_orders(run)


def pipeline_of(spark: SparkSession, folder: Path) -> Pipeline:
    """Return a pipeline of flows that read the table in files, or can't."""
    (folder / "module.py").write_text(MODULE, "utf-8")
    return Pipeline(
        name="staging", modules=[folder / "module.py"], storage=str(folder / "storage [1] a=b"),
        configuration={"bank.folder": str(folder)}, spark=spark,
    )  # fmt: skip


@pytest.fixture
def pipeline(interpreting: SparkSession, folder: Path) -> Pipeline:
    """The pipeline of a test."""
    return pipeline_of(interpreting, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """A pipeline whose flows have all run once, in a folder, and the rows of the source."""

    pipeline: Pipeline
    folder: Path
    result: UpdateResult
    orders: list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def complete(
    spark: SparkSession, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Complete]:
    """All flows in one update."""
    folder = tmp_path_factory.mktemp("staging")
    with new_database(server) as uri:
        (folder / "connections.yml").write_text(f"bank: {uri}\n", "utf-8")
        orders, pipeline = create_orders(partial(query, uri)), pipeline_of(spark.newSession(), folder)
        yield Complete(pipeline=pipeline, folder=folder, result=pipeline.run(), orders=orders)


def test_each_kind_of_flow_has_the_rows_of_the_source(complete: Complete) -> None:
    """Rows and values are exact, files are added as they are where that is possible, and nothing is left over."""
    pipeline, folder, result, orders = complete.pipeline, complete.folder, complete.result, complete.orders
    assert result.state is UpdateState.COMPLETED, result
    for target in ("copied", "constrained", "stamped", "merged"):
        assert rows_of(pipeline, target) == orders, target
    even = [row for row in orders if row[0] % 2 == 0]
    assert rows_of(pipeline, "checked") == even
    assert rows_of(pipeline, "changed") == [row for row in even for _ in range(2)]
    changed = copy_rows(pipeline, "changed", "default")
    assert [row for row in changed if row.twice != row.id * 2 or row.part not in {1, 2}] == []
    assert {target: named_files(folder, target) for target in ("copied", "constrained", "changed", "merged")} == {
        "copied": True, "constrained": False, "changed": False, "merged": False,
    }  # fmt: skip
    assert left_in(folder) == []
    assert_filters_find(pipeline, orders)
    written = {flow.flow.table: flow.rows_written for flow in result.flows}
    assert written == {
        "copied": 5000, "constrained": 5000, "stamped": 5000, "checked": 2500, "changed": 5000,
        "merged_snapshot_flow": 5000,
    }  # fmt: skip
    checked = next(flow for flow in result.flows if flow.flow.table == "checked")
    assert {each.name: each.failed for each in checked.expectations} == {"priced": 714, "even": 2500}
    assert checked.rows_dropped == 2500


def test_attempts_that_die_leave_neither_rows_nor_files(
    pipeline: Pipeline, folder: Path, orders: list[tuple[Any, ...]]
) -> None:
    """The next update has each row once, deletes the files of the attempts, and keeps those of commits."""
    windows = ("staging.after_files", "staging.after_commit")
    arm_all({(window, 2): die for window in windows})
    try:
        assert pipeline.run(refresh=TABLES).state is not UpdateState.COMPLETED
    finally:
        passed = disarm()
    assert min(passed[window] for window in windows) >= 2
    foreign = table_folder(folder, "copied") / "foreign.parquet"
    foreign.write_bytes(b"of another writer")
    assert pipeline.run(refresh=TABLES).state is UpdateState.COMPLETED
    for target in TABLES:
        assert rows_of(pipeline, target) == orders, target
    assert left_in(folder) == []
    assert foreign.exists()


@pytest.mark.parametrize("change", ["ADD CONSTRAINT positive CHECK (id > 0)", "ADD COLUMNS (later STRING)"])
def test_files_of_attempts_are_deleted_also_if_the_table_takes_no_files_any_more(
    pipeline: Pipeline, folder: Path, orders: list[tuple[Any, ...]], interpreting: SparkSession, change: str
) -> None:
    """With a constraint rows are written; with another column Spark's own sink writes them."""
    targets = ("copied", "merged")
    for target in targets:
        arm("staging.after_files", nth=2, action=die)
        try:
            assert pipeline.run(refresh=[target]).state is not UpdateState.COMPLETED
        finally:
            disarm()
        assert len(unnamed_files(folder, target)) > 0
        interpreting.sql(f"ALTER TABLE delta.`{table_folder(folder, target)}` {change}")
    assert pipeline.run(refresh=targets).state is UpdateState.COMPLETED
    for target in targets:
        assert (rows_of(pipeline, target), unnamed_files(folder, target)) == (orders, []), target


@pytest.mark.usefixtures("orders")
def test_a_batch_that_fails_deletes_its_files(pipeline: Pipeline, folder: Path, interpreting: SparkSession) -> None:
    """Each attempt would leave as many again."""
    arm("staging.after_files", nth=1, action=die)
    try:
        assert pipeline.run(refresh=["copied"]).state is not UpdateState.COMPLETED
    finally:
        disarm()
    left = unnamed_files(folder, "copied")
    assert len(left) > 0
    interpreting.sql(f"ALTER TABLE delta.`{table_folder(folder, 'copied')}` ADD CONSTRAINT few CHECK (id < 5)")
    assert pipeline.run(refresh=["copied"]).state is not UpdateState.COMPLETED
    assert unnamed_files(folder, "copied") == left


def test_an_offset_that_is_cut_off_is_named(complete: Complete) -> None:
    """The flow fails with the file, the table keeps its rows, and `doctor` knows the damage."""
    pipeline, folder = complete.pipeline, complete.folder
    (offsets,) = folder.rglob("checkpoints/main.default.copied/main.default.copied/1/offsets")
    last = offsets / str(max(int(path.name) for path in offsets.iterdir() if path.name.isdecimal()))
    (offsets / f".{last.name}.crc").unlink(missing_ok=True)
    for damage in ("", "v1\n{}", 'v1\n{}\n{"version": 1, "ki'):
        last.write_text(damage, "utf-8")
        result = pipeline.run(refresh=["copied"])
        (flow,) = [flow for flow in result.flows if flow.error is not None]
        assert flow.error is not None
        assert (flow.error.condition, str(last) in flow.error.what) == ("CHECKPOINT_FILE_DAMAGED", True), damage
        (finding,) = pipeline.doctor.examine(["copied"]).findings
        assert (finding.diagnosis.name, finding.condition) == ("CHECKPOINT_DAMAGED", "CHECKPOINT_FILE_DAMAGED"), damage
    assert rows_of(pipeline, "copied") == complete.orders


def die() -> None:
    """End an attempt, as far as a test can."""
    raise SystemError


def unnamed_files(folder: Path, target: str) -> list[str]:
    """The files of chunks in the folder of a table that no commit names."""
    known = set(added_files(folder, target))
    return sorted(path.name for path in table_folder(folder, target).glob("snapshot-*") if path.name not in known)


def rows_of(pipeline: Pipeline, target: str) -> list[tuple[Any, ...]]:
    """The rows of a table as the driver of the source returns them."""
    rows = sorted(copy_rows(pipeline, target, "default"), key=lambda row: row.id)
    return plain(
        [[microseconds(row.seen) if name == "seen" else row[name] for name in COLUMNS.split(", ")] for row in rows]
    )


def microseconds(local: datetime) -> int:
    """The microseconds since 1970 of a point in time."""
    return (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def plain(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows with binary values as bytes, in place of the types of the drivers."""
    binary = (bytearray, memoryview)
    return [tuple(bytes(value) if isinstance(value, binary) else value for value in row) for row in rows]


def assert_filters_find(pipeline: Pipeline, orders: list[tuple[Any, ...]]) -> None:
    """Statistics of the added files exclude no row that a filter is true for."""
    copied, expected, counts = pipeline.table("copied"), {}, []
    for index, name in enumerate(COLUMNS.split(", ")):
        value = orders[(1233, 4998)[index % 2]][index]
        if name in {"tags", "blob"}:
            continue
        assert value is not None, name
        expected[name] = sum(row[index] == value for row in orders)
        if isinstance(value, date):  # a year below 1000 is no literal of PySpark
            wanted = F.lit(value.isoformat()).cast("timestamp_ntz" if isinstance(value, datetime) else "date")
        else:
            wanted = F.timestamp_micros(F.lit(value)) if name == "seen" else F.lit(value)
        counts.append(copied.where(F.col(name) == wanted).agg(F.lit(name), F.count("*")))
    assert dict(map(tuple, reduce(DataFrame.union, counts).collect())) == expected


def table_folder(folder: Path, target: str) -> Path:
    """The folder of a table."""
    return folder / "storage [1] a=b" / "tables" / "main" / "default" / target


def added_files(folder: Path, target: str) -> list[str]:
    """The names of all files that were ever added to a table."""
    commits = sorted((table_folder(folder, target) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for commit in commits for line in commit.read_text("utf-8").splitlines()]
    return [action["add"]["path"] for action in actions if "add" in action]


def named_files(folder: Path, target: str) -> bool:
    """Whether the files of a table are those that the readers of chunks wrote."""
    names = added_files(folder, target)
    assert names
    return all(name.startswith("snapshot-") for name in names)


def left_in(folder: Path) -> list[Path]:
    """Files of chunks that no table has."""
    known = set(added_files(folder, "copied"))
    in_table = [path for path in table_folder(folder, "copied").glob("snapshot-*") if path.name not in known]
    return [*in_table, *(folder / "storage [1] a=b" / "staged").rglob("*.parquet")]
