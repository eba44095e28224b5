"""Changes that are staged while a table is declared in another way: they are applied as they were staged, or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.state import GatewayStore
from tests.support.copied_tables import all_copied, at_source, copy_rows, failures, of_both_flows, pipeline_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_TEXTS: dict[str, Any] = {"text_columns": ["at", "ok"]}
_HISTORY: dict[str, Any] = {"scd_type": "SCD_TYPE_2"}
_AS_TEXT = ("held", "twice", "renamed")
_PLAIN = ("moved", "skipped", "divided")


def table(name: str, copy: str = "", **configuration: object) -> dict[str, object]:
    """Return the object of a table; `copy` is another name of its copy."""
    named = {"destination_table": copy} if copy else {}
    fields = {"source_schema": "public", "source_table": name, "destination_schema": "copies", **named}
    return {"table": fields | {"table_configuration": configuration}}


def module(*objects: dict[str, object]) -> str:
    """Return the module with an ingestion."""
    call = f'dp.ingest_database(name="shop", connection="bank", objects={list(objects)!r})'
    return f"from framework import pipelines as dp\n\n{call}\n"


OTHERS = [*(table(name, **_TEXTS) for name in _AS_TEXT), table("history", **_HISTORY), table("skipped")]
FIRST = module(*OTHERS, table("moved", **_HISTORY), table("divided"))
OTHERWISE = module(
    table("held"), table("twice"), table("twice", **_TEXTS), table("renamed", "renamed_2"), table("history"),
    table("moved", "moved_2"), table("divided", "divided_2"), table("divided"),
)  # fmt: skip
BACK = module(*OTHERS, table("moved", "moved_2"), table("moved"), table("divided"))
LAST = module(*OTHERS, table("moved", "moved_2"), table("divided"))


def create_all(run: Run) -> None:
    """Create the tables."""
    for name in _AS_TEXT:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, at TIMESTAMP, ok BOOLEAN)")
        run(f"INSERT INTO {name} SELECT i, '2020-01-01', true FROM generate_series(1, 3) i")
    run(
        "CREATE TABLE history (id INT PRIMARY KEY, n INT, big TEXT); ALTER TABLE history ALTER big SET STORAGE EXTERNAL"
    )
    run("INSERT INTO history VALUES (1, 0, repeat('o', 5000))")
    for name in _PLAIN:
        run(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT){' PARTITION BY RANGE (id)' if name == 'divided' else ''}")
    run("CREATE TABLE low PARTITION OF divided FOR VALUES FROM (0) TO (3)")
    run("CREATE TABLE high PARTITION OF divided FOR VALUES FROM (3) TO (9)")
    for name in _PLAIN:
        run(f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 3) i")


def texts_at_source(run: Run) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the tables with text columns."""
    query = "SELECT id, at::text, left(ok::text, 1) FROM {} ORDER BY id"
    return {name: run(query.format(name)) for name in _AS_TEXT}


def test_changes_are_applied_as_they_were_staged(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """A declaration that is another one for an update, and then as before, leaves no row of the other one.

    A held table stages as before. One whose copy had another name and other options is read again as a whole, and so is
    one that an update missed although its snapshot was skipped. A table that is declared twice for an update keeps what
    is recorded of it: the gap of its partitions stays, and its later changes are applied.
    """
    create_all(run)
    pipeline = pipeline_of(interpreting, folder, FIRST)
    named = GatewayTables(gateways=pipeline.gateways).table("public.skipped")
    Operations(storage=pipeline.storage).skip_snapshot(*named)
    assert failures(pipeline.run()) == {}

    for name in _AS_TEXT:
        run(f"UPDATE {name} SET at = '2024-01-02 03:04:05', ok = false WHERE id = 1")
    run("UPDATE history SET n = 1")
    run("UPDATE history SET big = repeat('n', 5000)")
    run("INSERT INTO skipped VALUES (11, 11)")
    result = (pipeline := pipeline_of(interpreting, folder, OTHERWISE)).run()
    assert failures(result) == of_both_flows(
        held="INGESTION_TABLE_REDEFINED", twice="INGESTION_TABLE_TWICE", history="INGESTION_TABLE_REDEFINED",
        divided="INGESTION_TABLE_TWICE", divided_2="INGESTION_TABLE_TWICE",
    )  # fmt: skip
    errors = {flow.error.what for flow in result.flows if flow.error and flow.flow.table == "twice_cdc_flow"}
    assert errors == {
        "The objects of the ingestion `shop` contain the table public.twice twice, with the copy main.copies.twice."
    }

    assert all_copied(pipeline, "renamed_2", "moved_2") == {
        "renamed_2": at_source(run, "renamed"),
        "moved_2": at_source(run, "moved"),
    }

    run("INSERT INTO skipped VALUES (12, 12); ALTER TABLE divided DETACH PARTITION high")
    pipeline = pipeline_of(interpreting, folder, BACK)
    held = of_both_flows(divided="INGESTION_PARTITIONS_CHANGED") | {"history_cdc_flow": "INGESTION_CHANGE_UNREADABLE"}
    twice = of_both_flows(moved="INGESTION_TABLE_TWICE", moved_2="INGESTION_TABLE_TWICE")
    assert failures(pipeline.run()) == held | twice
    assert all_copied(pipeline, *_AS_TEXT) == texts_at_source(run)
    states = [(row.n, row.big[0], row["__END_AT"] is None) for row in copy_rows(pipeline, "history")]
    assert states == [(0, "o", True)]

    run("UPDATE moved SET n = 9 WHERE id = 1; DELETE FROM moved WHERE id = 2; DELETE FROM skipped WHERE id = 3")
    pipeline = pipeline_of(interpreting, folder, LAST)
    assert failures(pipeline.run()) == held
    assert all_copied(pipeline, "moved_2", "skipped") == {
        "moved_2": at_source(run, "moved"),
        "skipped": at_source(run, "skipped"),
    }
    state = GatewayStore(pipeline.storage).read("shop")
    assert state is not None
    read_again = {each.table.source_table for each in state.tables if each.generations}
    assert read_again == {"renamed", "moved", "skipped"}
