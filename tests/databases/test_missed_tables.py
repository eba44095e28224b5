"""Tables that an update did not have among the declared ones, while their changes were staged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.checkpoints.generations import GenerationStore
from framework.foundation.names import QualifiedName
from tests.support.copied_tables import (
    all_at_source,
    all_copied,
    at_source,
    copied,
    copy_rows,
    failures,
    of_both_flows,
    pipeline_of,
    resync,
)  # fmt: skip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_TABLES = ("toggled", "renamed", "keyless", "moved")
_MISSED = ("toggled", "renamed", "keyless")


def module(*excluded: str, history: bool, other: str | None = None) -> str:
    """Return a module that copies the schema without some tables, and perhaps the history of `states`.

    Another ingestion may copy one of the tables.
    """
    schema = {"source_schema": "public", "destination_schema": "copies", "exclude": ["states", "next_*", *excluded]}
    states = {
        "source_schema": "public", "source_table": "states", "destination_schema": "copies",
        "table_configuration": {"scd_type": "SCD_TYPE_2"},
    }  # fmt: skip
    objects = [{"schema": schema}, *([{"table": states}] if history else [])]
    calls = {"shop": objects}
    if other is not None:
        table = {"source_schema": "public", "source_table": other, "destination_schema": "copies"}
        calls["other"] = [{"table": table}]
    lines = [
        f'dp.ingest_database(name="{name}", connection="bank", objects={each!r})\n' for name, each in calls.items()
    ]
    return "".join(("from framework import pipelines as dp\n\n", *lines))


def test_a_table_that_an_update_missed_is_read_again_as_a_whole(
    interpreting: SparkSession, folder: Path, run: Run
) -> None:
    """Its copy has each row once, and none of the changes that were staged meanwhile: they have not its name and key.

    A table without a key that is published by hand begins like this, too. A history has no state that never was.
    Columns that changed meanwhile hold none of them. A copy that another ingestion has made meanwhile is held.
    """
    for table in _TABLES:
        key = "" if table == "keyless" else " PRIMARY KEY"
        run(f"CREATE TABLE {table} (id INT NOT NULL{key}, code INT NOT NULL UNIQUE)")
        run(f"INSERT INTO {table} SELECT i, i FROM generate_series(1, 3) i")
    run("INSERT INTO keyless VALUES (1, 4); ALTER TABLE keyless REPLICA IDENTITY FULL")
    run("ALTER TABLE keyless DROP CONSTRAINT keyless_code_key")
    run("CREATE TABLE states (id INT PRIMARY KEY, n INT, big TEXT); ALTER TABLE states ALTER big SET STORAGE EXTERNAL")
    run("INSERT INTO states VALUES (1, 0, repeat('o', 5000))")
    declared = module(history=True)
    assert failures(pipeline_of(interpreting, folder, declared).run()) == of_both_flows(keyless="INGESTION_WITHOUT_KEY")

    run("ALTER PUBLICATION sluice_shop ADD TABLE keyless; DELETE FROM keyless WHERE code = 4")
    run("ALTER TABLE toggled REPLICA IDENTITY USING INDEX toggled_code_key; UPDATE toggled SET id = 50 WHERE id = 3")
    run("ALTER TABLE toggled REPLICA IDENTITY DEFAULT")
    run("ALTER TABLE renamed RENAME TO other; UPDATE other SET code = 9 WHERE id = 1")
    run("ALTER TABLE toggled ALTER code TYPE BIGINT; ALTER TABLE states ADD COLUMN c INT DEFAULT 5")
    run("UPDATE states SET n = 1")
    run("UPDATE states SET big = repeat('n', 5000)")
    pipeline = pipeline_of(interpreting, folder, module("toggled", "moved", history=False, other="moved"))
    others = ["shop_changes", "other_changes", "copies.other", "copies.keyless"]
    assert failures(pipeline.run(refresh=others, full_refresh=["copies.moved"])) == of_both_flows(
        keyless="INGESTION_WITHOUT_KEY"
    )
    run("UPDATE moved SET code = 9 WHERE id = 1")

    run("ALTER TABLE other RENAME TO renamed; ALTER TABLE keyless ADD PRIMARY KEY (id)")
    pipeline = pipeline_of(interpreting, folder, declared)
    assert failures(pipeline.run()) == of_both_flows(moved="INGESTION_TABLE_REDEFINED")
    assert all_copied(pipeline, *_MISSED) == all_at_source(run, *_MISSED)
    assert copied(pipeline, "moved") == [(1, 1), (2, 2), (3, 3)]
    resync(pipeline, "moved")
    pipeline = pipeline_of(interpreting, folder, declared)
    assert failures(pipeline.run(refresh=["shop_changes", "copies.moved"])) == {}
    assert copied(pipeline, "moved") == at_source(run, "moved")
    states = [(row.n, row.big[0], row["__END_AT"] is None) for row in copy_rows(pipeline, "states")]
    assert sorted(states) == [(0, "o", False), (1, "n", True)]
    name = {"catalog": "main", "schema": "copies"}
    begun = GenerationStore(pipeline.storage).current(
        QualifiedName(**name, table="renamed"), QualifiedName(**name, table="renamed_snapshot_flow")
    )
    assert begun is not None
    assert (begun.completed, "an earlier update did not have its table" in begun.reason) == (True, True)
