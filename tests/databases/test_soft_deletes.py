"""`soft_deletes` of a database copy: a row that is deleted at the source stays, with a flag."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from tests.databases.test_ingest_database import pipeline_of, rows_of, shop, table
from tests.support.copied_tables import failures, of_both_flows, resync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]

TABLES: dict[str, dict[str, Any]] = {
    "kept": {},
    "filtered": {"soft_deletes": "gone", "row_filter": "a < 100"},
    "taken": {},
    "switched": {"soft_deletes": False},
    "history": {"scd_type": "SCD_TYPE_2"},
}


def declared(spark: SparkSession, folder: Path, **changed: dict[str, Any]) -> Pipeline:
    """The pipeline; soft deletes are the setting of the call."""
    objects = [table(name, table_configuration=each) for name, each in (TABLES | changed).items()]
    return pipeline_of(spark, folder, shop(*objects, table_configuration={"soft_deletes": True}))


def test_rows_that_are_deleted_at_the_source_stay_with_a_flag(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Deletes, truncates, filtered rows and rows that a resync misses get the flag; switching builds the copy anew."""
    for name in TABLES:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT)")
        run(f"INSERT INTO {name} SELECT i, i * 10 FROM generate_series(1, 4) i")
    run('ALTER TABLE taken ADD COLUMN "__Deleted" BOOLEAN')
    taken = of_both_flows(taken="INGESTION_SOFT_DELETES_COLUMN")
    assert failures(declared(interpreting, folder).run()) == taken
    for name in TABLES:
        run(f"DELETE FROM {name} WHERE id <= 2")
    run("INSERT INTO kept VALUES (2, 22); UPDATE kept SET id = 5 WHERE id = 3")
    run("UPDATE filtered SET a = 100 WHERE id = 3; TRUNCATE filtered; INSERT INTO filtered VALUES (4, 44)")
    pipeline = declared(interpreting, folder)
    assert failures(pipeline.run()) == taken
    assert rows_of(pipeline, "copies.kept", "id", "a", "__deleted") == [
        (1, 10, True), (2, 22, False), (3, 30, True), (4, 40, False), (5, 30, False),
    ]  # fmt: skip
    assert rows_of(pipeline, "copies.filtered", "id", "a", "gone") == [
        (1, 10, True), (2, 20, True), (3, 30, True), (4, 44, False),
    ]  # fmt: skip
    assert rows_of(pipeline, "copies.switched", "*") == [(3, 30), (4, 40)]
    assert {"__deleted", "gone"}.isdisjoint(pipeline.table("copies.history").columns)
    # Deletes that the log does not have, and soft deletes that are switched on.
    run("ALTER PUBLICATION sluice_shop DROP TABLE kept; DELETE FROM kept WHERE id = 4")
    run("DELETE FROM switched WHERE id = 3")
    switched: dict[str, dict[str, Any]] = {"switched": {"soft_deletes": True}}
    pipeline = declared(interpreting, folder, **switched)
    held = of_both_flows(kept="INGESTION_TABLE_UNPUBLISHED", switched="INGESTION_TABLE_REDEFINED")
    assert failures(pipeline.run()) == taken | held
    resync(pipeline, "kept", "switched")
    pipeline = declared(interpreting, folder, **switched)
    assert failures(pipeline.run()) == taken
    run("DELETE FROM switched WHERE id = 4; INSERT INTO kept VALUES (1, 11)")
    assert failures(pipeline.run()) == taken
    assert rows_of(pipeline, "copies.kept", "id", "a", "__deleted") == [
        (1, 11, False), (2, 22, False), (3, 30, True), (4, 40, True), (5, 30, False),
    ]  # fmt: skip
    assert rows_of(pipeline, "copies.switched", "id", "a", "__deleted") == [(4, 40, True)]
    # The source has no deleted row.
    compared = pipeline.reconcile("copies.kept", "postgres:bank/public.kept")
    assert (compared.is_equal, compared.first.rows, compared.findings) == (True, 3, ())
