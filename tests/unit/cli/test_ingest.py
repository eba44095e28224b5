"""`sluice ingest`: requests by name, and their errors, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.declare.specs import IngestedGateway, IngestedTable, IngestionSpec
from framework.foundation.names import QualifiedName
from framework.ingest.declared import refreshed
from framework.ingest.generations import begin_generations
from framework.ingest.state import GatewayStore, Mode, Request
from framework.testing.manual_clock import ManualClock
from tests.support.fake_pipeline import FakePipeline
from tests.unit.cli.conftest import Sluice


def recorded(pipeline: FakePipeline) -> GatewayStore:
    """Record a gateway with one table, as an update does."""
    orders, snapshot, cdc, changes = (
        QualifiedName(catalog="main", schema="shop", table=table)
        for table in ("orders", "orders_snapshot_flow", "orders_cdc_flow", "bank_changes")
    )
    table = IngestedTable(
        source_schema="public", source_table="orders", target=orders, snapshot_flow=snapshot, cdc_flow=cdc, keys=("id",)
    )
    gateway = IngestedGateway(
        name="bank",
        connection="none",
        scheme="postgresql",
        folder="/none",
        position_name="s",
        table_list="s",
        changes=changes,
        tables=(table,),
    )
    store = GatewayStore(pipeline.storage)
    store.write(refreshed(None, gateway))
    return store


def test_commands_write_requests(sluice: Sluice, pipeline: FakePipeline, swap: pytest.MonkeyPatch) -> None:
    """Each command changes what is asked for its table, and says when it takes effect."""
    swap.setattr("framework.ingest.operations._check_by_database", lambda *_: None)
    store = recorded(pipeline)
    modes = {}
    for words in (["pause", "orders"], ["resume", "public.orders"], ["cancel", "orders"], ["skip-snapshot", "orders"]):
        result = sluice("ingest", *words)
        assert (result.exit_code, "Takes effect when" in result.stdout) == (0, True)
        modes[words[0]] = store.request("bank", "public.orders").mode.value
    assert modes == {"pause": "paused", "resume": "active", "cancel": "cancelled", "skip-snapshot": "skipped"}
    assert "next update" in sluice("ingest", "resync", "orders", "--where", "id > 1").stdout
    request = store.request("bank", "public.orders")
    assert (request.mode.value, request.generation, request.where) == ("active", 1, "id > 1")
    assert sluice("ingest", "resync", "orders").stdout.startswith("public.orders is read again.")
    answer = sluice("ingest", "resync", "orders", "--where", "id > 1").stdout
    assert (
        answer.startswith("All rows of public.orders are read again."),
        store.request("bank", "public.orders").where,
    ) == (True, None)
    assert sluice("ingest", "pause").stdout.startswith("bank is paused.")
    assert sluice("ingest", "resync", "--all", "--new-slot").stdout.startswith("All 1 tables of bank are read again")
    assert (store.request("bank").mode.value, store.request("bank").generation) == ("paused", 1)


def test_preflight_shows_passwords_that_others_can_read(sluice: Sluice, pipeline: FakePipeline, tmp_path: Path) -> None:
    """Each folder's file is a finding once, whatever the database answers; an invalid one is the connection's error."""
    path = tmp_path / "connections.yml"
    path.write_text("bank: postgresql://joe:hunter2@localhost:1/bank\n", "utf-8")
    path.chmod(0o644)
    options = (("connectionsFolder", str(tmp_path)),)
    pipeline.ingestions = tuple(
        IngestionSpec(name=name, connection="bank", objects=(), options=options) for name in ("bank", "again")
    )
    result = sluice("ingest", "preflight", "-o", "json")
    found = [[each["condition"] for each in gateway["findings"]] for gateway in json.loads(result.stdout)]
    assert (result.exit_code, found) == (
        1, [["DATABASE_UNREACHABLE", "DATABASE_CONNECTIONS_READABLE"], ["DATABASE_UNREACHABLE"]]
    )  # fmt: skip
    assert f"chmod 600 '{path}'" in sluice("ingest", "preflight").stdout.replace("\n", "")
    path.write_text("- nothing\n", "utf-8")
    found = [
        [each["condition"] for each in gateway["findings"]]
        for gateway in json.loads(sluice("ingest", "preflight", "-o", "json").stdout)
    ]
    assert found == [["DATABASE_CONNECTIONS_INVALID"]] * 2


def test_wrong_calls_are_named(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A table that is not copied, options that do not fit, and a pipeline without an ingestion."""
    assert "[INGESTION_NONE]" in sluice("ingest", "preflight").stderr
    assert "[INGESTION_NONE]" in sluice("ingest", "pause").stderr
    assert sluice("ingest", "status").stdout == "No update has run a gateway yet.\n"
    recorded(pipeline)
    unknown = sluice("ingest", "pause", "ordres")
    assert (unknown.exit_code, "Did you mean `main.shop.orders`?" in unknown.stderr) == (2, True)
    for words in (
        [],
        ["orders", "--all"],
        ["orders", "--new-slot"],
        ["--all", "--where", "x"],
        ["--all", "--where", ""],
    ):
        assert "[INGESTION_RESYNC_OPTIONS]" in sluice("ingest", "resync", *words).stderr


def test_an_ingestion_has_the_name_that_the_last_update_had(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The record of the earlier name stays, but it is not listed, and the new one is the only one that can be meant."""
    store = recorded(pipeline)
    before = store.read("bank")
    assert before is not None
    renamed = replace(before.gateway, name="shop")
    assert begin_generations([renamed], pipeline.storage, ManualClock()) == ()
    status = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    assert [gateway["gateway"] for gateway in status] == ["shop"]
    assert sluice("ingest", "pause").stdout.startswith("shop is paused.")
    assert sluice("ingest", "pause", "orders").stdout.startswith("public.orders is paused.")
    assert begin_generations([before.gateway], pipeline.storage, ManualClock()) == ()
    assert store.read("bank") == replace(before, copies=())
    status = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    assert [gateway["gateway"] for gateway in status] == ["bank"]


def test_status_prints_the_tables(sluice: Sluice, pipeline: FakePipeline) -> None:
    """As a table with a line about the gateway, and as JSON; a source without an answer is no failure."""
    recorded(pipeline)
    result = sluice("ingest", "status")
    assert result.exit_code == 0
    head, *table = result.stdout.splitlines()
    assert head == "bank: slot s, the source gave no answer (DATABASE_CONNECTION_UNKNOWN)"
    assert table[-1].split() == ["public.orders", "main.shop.orders", "WAITING", "0"]
    (gateway,) = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    assert gateway["tables"] == [
        {
            "table": "public.orders", "target": "main.shop.orders", "state": "WAITING", "generation": 0, "chunks": 0,
            "percent": None, "remaining_seconds": None, "lag_bytes": None, "lag_seconds": None, "error": None,
            "way_out": None, "not_copied_children": [],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        ("INGESTION_TABLE_REPLACED", "GAP"),
        ("INGESTION_TABLE_UNPUBLISHED", "GAP"),
        ("INGESTION_PARTITIONS_CHANGED", "GAP"),
        ("DATABASE_PERMISSION", "FAILED"),
    ],
)
def test_a_table_whose_log_has_a_gap_names_its_way_out(
    sluice: Sluice, pipeline: FakePipeline, swap: pytest.MonkeyPatch, condition: str, state: str
) -> None:
    """Its state is GAP until another snapshot is asked for; any other failure is FAILED."""
    store = recorded(pipeline)
    failed = {"main.shop.orders_cdc_flow": condition}
    swap.setattr("framework.ingest.status._last_failures", lambda *_: failed)
    (gateway,) = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    (table,) = gateway["tables"]
    way_out = "sluice ingest resync public.orders" if state == "GAP" else None
    assert (table["state"], table["error"], table["way_out"]) == (state, condition, way_out)
    store.ask(Request(generation=1, where="id > 1"), "bank", "public.orders")  # of some rows only
    (gateway,) = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    assert gateway["tables"][0]["state"] == state
    store.ask(Request(generation=1), "bank", "public.orders")
    (gateway,) = json.loads(sluice("ingest", "status", "-o", "json").stdout)
    assert gateway["tables"][0]["state"] == ("RESYNC" if state == "GAP" else state)


class Interrupting(ManualClock):
    """Pauses the gateway while the command sleeps for the first time, and interrupts it at the third."""

    def __init__(self, store: GatewayStore) -> None:
        super().__init__()
        self._store = store
        self._slept = 0

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        super().sleep(seconds)
        self._slept += 1
        if self._slept == 1:
            self._store.ask(Request(mode=Mode.PAUSED), "bank")
        if self._slept == 3:
            raise KeyboardInterrupt


def test_watch_prints_a_line_for_each_table_that_changes(pipeline: FakePipeline) -> None:
    """Outside of a terminal nothing is redrawn, and what has not changed is not repeated."""
    store = recorded(pipeline)
    surroundings = Surroundings(open_pipeline=lambda *_, **__: pipeline, clock=Interrupting(store))
    result = CliRunner().invoke(cli, ["ingest", "status", "--watch", "--spec", "any.yml"], obj=surroundings)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "public.orders PAUSED"
    assert result.stdout.count("public.orders") == 2
