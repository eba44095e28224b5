"""A source database and its copy are compared at a position; a difference is certain only if it can't be on its way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from framework import Pipeline
from framework.foundation.errors import SluiceError
from framework.recovery.comparison import Comparison, Totals
from framework.run.update.results import UpdateState
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.position import ensure_position
from framework.sources.databases.postgres.log.position_check import StoredPosition
from framework.sources.databases.postgres.lsn import parse_lsn
from framework.sources.databases.postgres.session import Session, open_replication
from framework.sources.databases.postgres.table_copy import SourceTableCopy
from framework.sources.databases.tables import TableName
from framework.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

MODULE = '''
from framework import pipelines as dp
from pyspark.sql import functions as F

SCHEMA = """id INT, name STRING, amount DECIMAL(20,6), exact STRING, ratio DOUBLE, at TIMESTAMP, local TIMESTAMP_NTZ,
  day DATE, data BINARY, tags ARRAY<INT>, ident STRING, doc STRING, padded STRING, `Odd name` STRING"""


def bank(source):
    here = spark.readStream.format(source).option("connection", "bank").option("slot", "compared")
    return here.option("connectionsFolder", FOLDER)


@dp.table
def bank_changes():
    return bank("postgres_changes").option("tables", "public.items").load()


dp.create_streaming_table("items", table_properties={"delta.columnMapping.mode": "name"})


@dp.snapshot_flow(
    target="items", name="items_snapshot_flow", keys=["id"], sequence_by="struct(position, ordinal)",
    except_column_list=["position", "ordinal"],
)
def snapshot():
    rows = bank("postgres_snapshot").option("table", "public.items").load()
    return rows.selectExpr("*", "0L AS position", "0L AS ordinal")


@dp.auto_cdc_flow(
    target="items", name="items_cdc_flow", keys=["id"], sequence_by="struct(position, ordinal)",
    apply_as_deletes="operation = 'DELETE'", apply_as_truncates="operation = 'TRUNCATE'",
    except_column_list=["operation", "position", "ordinal"],
)
def changes():
    rows = dp.read_stream("bank_changes").where("source_table = 'public.items'")
    rows = rows.withColumn("row", F.from_json("payload", SCHEMA))
    return rows.select("operation", "position", "ordinal", "row.*")
'''
CREATE = """
CREATE TABLE items (
  id INT PRIMARY KEY, name TEXT, amount NUMERIC(20,6), exact NUMERIC, ratio DOUBLE PRECISION, at TIMESTAMPTZ,
  local TIMESTAMP, day DATE, data BYTEA, tags INT[], ident UUID, doc JSONB, padded CHAR(6), "Odd name" TEXT);
CREATE TABLE others (id INT PRIMARY KEY);
"""
INSERT = """
INSERT INTO items SELECT i, 'name ' || i, i * 1.000001, i / 3::numeric, CASE i % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0'
  ELSE i * 0.1 END, '1850-01-01 00:00:00.123456+02'::timestamptz + i * interval '37 days', '0001-01-01 00:00:00.000001',
  '9999-12-31', decode('00ff', 'hex'), ARRAY[i, NULL], gen_random_uuid(), jsonb_build_object('i', i), 'a', NULL
"""
SOURCE = "postgres:bank/public.items"


@pytest.fixture
def pipeline(spark: SparkSession, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A copy of a table of many types, which has run once."""
    run(f"{CREATE}; {INSERT} FROM generate_series(1, 3000) i")
    (folder / "items.py").write_text(MODULE.replace("FOLDER", repr(str(folder))), "utf-8")
    monkeypatch.chdir(folder)  # connections.yml is there
    return Pipeline(
        name="bank", modules=[folder / "items.py"], storage=str(folder / "storage"), spark=spark.newSession()
    )


def keys(found: Comparison) -> list[tuple[int, str, tuple[str, ...]]]:
    """The differing keys with kind and columns."""
    return [(each.key[0], each.kind.name, each.columns) for each in found.differences]


def test_differences_are_certain_only_if_the_log_has_no_change_between(
    pipeline: Pipeline, spark: SparkSession, folder: Path, run: Run
) -> None:
    """Equal after an update; behind after changes; and rows that are lost or altered here are certain differences."""
    assert pipeline.run().state is UpdateState.COMPLETED
    equal = pipeline.reconcile("items", SOURCE)
    assert (equal.is_equal, equal.keys, equal.findings, len(equal.columns)) == (True, ("id",), (), 13)
    assert (equal.first.rows, equal.second.rows, equal.second.version) == (3000, 3000, None)
    assert equal.second.position is not None

    run("UPDATE items SET ratio = 0.5, at = NULL WHERE id = 8; DELETE FROM items WHERE id = 9")
    run("INSERT INTO items (id, name) VALUES (4000, 'new')")
    unread = pipeline.reconcile(SOURCE, "items")
    assert keys(unread) == [
        (8, "DIFFERENT", ("ratio", "at")), (9, "ONLY_SECOND", ()), (4000, "ONLY_FIRST", ())
    ]  # fmt: skip
    assert "the log has 3 changes of the table between them" in str(unread.uncertain)

    run(f"TRUNCATE items; {INSERT} FROM generate_series(1, 20) i")
    assert pipeline.run().state is UpdateState.COMPLETED
    run("INSERT INTO others SELECT generate_series(1, 100)")  # the log grows, but not by changes of the table
    path = str(folder / "storage/tables/main/default/items")
    stored, is_altered = spark.read.format("delta").load(path), F.col("id") == 17
    values = {"tags": F.array(F.lit(17)), "padded": F.lit("a")}
    values = {name: F.when(is_altered, value).otherwise(F.col(name)) for name, value in values.items()}
    wrong_rows = stored.where("id <> 18").withColumns(values)
    wrong_rows = wrong_rows.union(stored.where("id = 1").withColumn("id", F.lit(5000)))
    wrong_rows.write.format("delta").mode("overwrite").save(path)
    lost = pipeline.reconcile("items", SOURCE)
    wrong = [(17, "DIFFERENT", ("tags", "padded")), (18, "ONLY_SECOND", ()), (5000, "ONLY_FIRST", ())]
    assert (keys(lost), lost.uncertain) == (wrong, None)
    assert lost.totals == Totals(
        only_first=1, only_second=1, different=1, columns=(("tags", 1), ("padded", 1))
    )  # fmt: skip

    run("UPDATE items SET name = 'x' WHERE id = 10; DELETE FROM items WHERE id = 20")
    run("UPDATE items SET name = 'name 10' WHERE id = 10")  # back again: a change, but no difference
    behind = pipeline.reconcile("items", SOURCE)
    assert keys(behind) == [*wrong[:2], (20, "ONLY_FIRST", ()), wrong[2]]
    assert "the log has 3 changes of the table between them" in str(behind.uncertain)
    of_path = pipeline.reconcile(f"delta.`{path}`", SOURCE, keys=["id"])
    assert (keys(of_path), of_path.uncertain) == (
        keys(behind), "The copy is no dataset of this pipeline, so its position is unknown."
    )  # fmt: skip
    with pytest.raises(SluiceError, match="DATABASE_TABLE_MISSING"):
        pipeline.reconcile("postgres:bank/public.nothing", "items")
    with pytest.raises(SluiceError, match="DATABASE_CONNECTION_UNKNOWN"):
        pipeline.reconcile("postgres:shop/public.items", "items")


def test_each_reason_for_doubt_is_named(database: str, folder: Path, run: Run) -> None:
    """Changes in the log, an open transaction, another table, an unknown position, a used slot and a lost one."""
    run("CREATE TABLE items (id INT PRIMARY KEY, name TEXT); CREATE TABLE others (id INT PRIMARY KEY)")
    connection = Connection(name="bank", uri=database)
    with Session(connection, read_only=False) as session:
        start = ensure_position(session, "compared", "compared", [TableName(schema="public", table="items")])
    copy = start.stored()

    def doubt(table: str = "items", position: StoredPosition = copy) -> str | None:
        found = SourceTableCopy.of(connection, TableName(schema="public", table=table))
        source = replace(found, clock=ManualClock())
        read = source.fetch(folder)
        assert pq.read_table(read.path).num_rows == run(f"SELECT count(*) FROM {table}")[0][0]
        return source.doubt(read, position.to_json())

    assert doubt() is None
    run("INSERT INTO others VALUES (1)")
    assert doubt() is None
    assert doubt("others") == "The flow of the copy does not read the changes of public.others."
    with closing(psycopg2.connect(database)) as other, other.cursor() as cursor:
        cursor.execute("INSERT INTO items VALUES (1, 'open')")
        assert "A transaction at the source is open" in str(doubt())
        other.rollback()
    assert doubt() is None  # what was rolled back is no change
    before = start.stored(parse_lsn(run("SELECT pg_current_wal_insert_lsn()::text")[0][0]))
    run("INSERT INTO items SELECT i, 'x' FROM generate_series(1, 100) i; UPDATE items SET name = 'y' WHERE id < 4")
    assert "the log has 103 changes of the table between them" in str(doubt())
    assert "the log has 103 changes" in str(doubt(position=before))
    after = start.stored(parse_lsn(run("SELECT pg_current_wal_insert_lsn()::text")[0][0]))
    assert doubt(position=after) is None
    run("TRUNCATE items")
    assert "the log has 1 changes of the table" in str(doubt(position=after))
    with closing(open_replication(connection)) as reader, reader.cursor() as cursor:
        cursor.start_replication("compared", options={"proto_version": "1", "publication_names": "compared"})
        assert "A running update reads the changes" in str(doubt())
    elsewhere = replace(start.stored(), identity=replace(start.identity, system="1"))
    assert "system identifier" in str(doubt(position=elsewhere))
    run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
    run("SELECT pg_drop_replication_slot('compared')")
    assert "compared" in str(doubt())
