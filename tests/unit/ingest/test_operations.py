"""Requests of operators, the flows that they hold, and the status of tables, without Spark and without a database."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.ingest.confirmation import is_pending, open_confirmations
from framework.ingest.copy_state import new_copy
from framework.ingest.declared import refreshed
from framework.ingest.gateway_status import NEW_SLOT, IngestedState
from framework.ingest.holds import Holds, held_flows
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.state import (
    GatewayState,
    GatewayStore,
    Request,
    SnapshotGeneration,
    TableState,
)
from framework.ingest.status import _Answer, read_status
from framework.ingest.tables.payloads import generation_sql
from framework.record.drafts import flow_progress
from framework.record.events import Origin, summarize_error
from framework.record.log import EventLog
from framework.sources.databases.chunks import Bound, ChunkKind, PlanBasis, SnapshotOffset
from framework.sources.databases.postgres.log.position_check import StoredPosition
from framework.sources.databases.postgres.tables.catalog import SourceIdentity
from framework.testing.manual_clock import ManualClock
from framework.views.ingestion import status_head

NOW = datetime(2026, 1, 1, tzinfo=UTC)
_AHEAD = "DATABASE_POSITION_LOST.SLOT_AHEAD"


def name(table: str, schema: str = "shop") -> QualifiedName:
    """Return a name in the catalog `main`."""
    return QualifiedName(catalog="main", schema=schema, table=table)


def ingested(table: str, schema: str = "shop") -> IngestedTable:
    """Return a table of the schema `public` that is copied to a schema."""
    return IngestedTable(
        source_schema="public",
        source_table=table,
        target=name(table, schema),
        snapshot_flow=name(f"{table}_snapshot_flow", schema),
        cdc_flow=name(f"{table}_cdc_flow", schema),
        keys=("id",),
    )


def gateway(*tables: IngestedTable, called: str = "bank") -> IngestedGateway:
    """Return a gateway whose connection does not exist."""
    return IngestedGateway(
        name=called, connection="none", folder="/none", scheme="postgresql", position_name="s",
        table_list="s", changes=name(f"{called}_changes"),
        tables=tables,
    )  # fmt: skip


BANK = gateway(ingested("orders"), ingested("customers"), ingested("Odd/Name é"))


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A storage in which an update has run the gateway."""
    storage = LocalStorage(str(tmp_path))
    GatewayStore(storage).write(refreshed(None, BANK))
    return storage


def commit_chunks(storage: LocalStorage, table: IngestedTable, *, finished: bool) -> None:
    """Write the checkpoint of a snapshot of which one batch of two chunks is committed."""
    generations = GenerationStore(storage)
    begun = generations.begin(table.target, table.snapshot_flow, reason="test")
    path = generations.path(table.target, table.snapshot_flow, begun.number)
    basis = PlanBasis(kind=ChunkKind.TID, source_identity="s", storage_id="1")
    bounds = (Bound(("(1,1)",)), Bound(("(2,1)",)))
    offset = SnapshotOffset(
        basis=basis, chunks_planned=3 if finished else 2, rows_planned=20, upper_bounds=bounds, finished=finished
    )
    storage.write_text(f"{path}/offsets/0", f"v1\n{{}}\n{offset.to_json()}")
    storage.write_text(f"{path}/commits/0", "v1\n{}")


def position(lsn: int) -> str:
    """Return the offset of a stream of changes."""
    identity = SourceIdentity(system="1", timeline=1, database="d")
    return StoredPosition(slot="s", publication="s", lsn=lsn, identity=identity).to_json()


def test_the_state_of_a_gateway_survives_its_file(storage: LocalStorage) -> None:
    """Generations, tables that are no longer declared, and names of any letters are read as they were written."""
    begun = SnapshotGeneration(number=1, log_generation=2, position=3, checkpoint=4, where="a = 'é'")
    state = GatewayState(
        gateway=gateway(ingested("orders")),
        log_generation=2,
        changes_checkpoint=5,
        tables=(
            TableState(table=ingested("orders"), generations=(begun,)),
            TableState(table=ingested("left"), is_declared=False),
        ),
    )
    store = GatewayStore(storage)
    store.write(state)
    assert store.read("bank") == state
    assert [(each.table.source_table, each.is_declared, each.number) for each in refreshed(state, BANK).tables] == [
        ("orders", True, 1), ("customers", True, 0), ("Odd/Name é", True, 0), ("left", False, 0),
    ]  # fmt: skip
    storage.write_text(storage.path("ingest", "bank", "gateway.json"), '{"format": 1}')
    with pytest.raises(SluiceError) as caught:
        store.read("bank")
    assert caught.value.condition == "INGESTION_STATE_DAMAGED"


def test_the_generation_of_a_change_depends_on_its_slot_and_position_only() -> None:
    """A change at the start of a generation belongs to it, one before does not, and one of a later slot always does."""
    generations = [
        SnapshotGeneration(number=1, log_generation=0, position=40, checkpoint=2),
        SnapshotGeneration(number=3, log_generation=1, position=0, checkpoint=3),
    ]
    assert generation_sql(generations) == (
        "CASE WHEN generation > 1 OR (generation = 1 AND position >= 0) THEN 3L "
        "WHEN generation > 0 OR (generation = 0 AND position >= 40) THEN 1L ELSE 0L END"
    )
    assert generation_sql([]) == "0L"


def test_a_filtered_snapshot_replaces_no_change() -> None:
    """A change that can't be applied may be of a row that the filter leaves out, so only a whole snapshot passes it."""
    whole = SnapshotGeneration(number=1, log_generation=0, position=40, checkpoint=2)
    part = SnapshotGeneration(number=2, log_generation=0, position=50, checkpoint=3, where="id > 1")
    table = ingested("orders")
    assert [
        TableState(table=table, generations=generations).newest_complete
        for generations in ((), (part,), (whole,), (whole, part))
    ] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("given", "named", "found"),
    [
        ("public.orders", None, "orders"),
        ("main.shop.orders", None, "orders"),
        ("Shop.Orders", None, "orders"),
        ("orders", "bank", "orders"),
        ("public.ordres", None, "INGESTION_TABLE_UNKNOWN"),
        ("stock", None, "INGESTION_TABLE_AMBIGUOUS"),
        ("stock", "b", "stock"),
        ("stock", "bnk", "INGESTION_GATEWAY_UNKNOWN"),
    ],
)
def test_a_table_is_found_by_its_names(given: str, named: str | None, found: str) -> None:
    """The name at the source, or that of the copy from its end; an unknown or ambiguous one is an error."""
    known = GatewayTables(
        gateways=(BANK, gateway(ingested("stock", "a"), called="a"), gateway(ingested("stock", "b"), called="b"))
    )
    if not found.startswith("INGESTION"):
        assert known.table(given, named)[1].source_table == found
        return
    with pytest.raises(SluiceError) as caught:
        known.table(given, named)
    assert caught.value.condition == found
    assert ("`public.orders`" in caught.value.what) == (found == "INGESTION_TABLE_UNKNOWN")


def test_requests_hold_flows(storage: LocalStorage) -> None:
    """A paused table holds both flows, a cancelled or skipped snapshot its own, a paused gateway all."""
    orders, customers, odd = BANK.tables
    operations = Operations(storage=storage)
    assert held_flows(storage) == {}
    operations.pause(BANK, orders)
    operations.cancel(BANK, customers)
    operations.skip_snapshot(BANK, odd)
    assert set(held_flows(storage)) == {
        orders.snapshot_flow, orders.cdc_flow, customers.snapshot_flow, odd.snapshot_flow
    }  # fmt: skip
    operations.pause(BANK, None)
    assert set(held_flows(storage)) == {
        BANK.changes, *(flow for each in BANK.tables for flow in (each.snapshot_flow, each.cdc_flow))
    }  # fmt: skip
    operations.resume(BANK, None)
    for each in BANK.tables:
        operations.resume(BANK, each)
    assert held_flows(storage) == {}


def test_a_request_of_another_release_does_not_end_a_running_update(storage: LocalStorage) -> None:
    """The flows held before stay held until the file can be read again; no update begins with such a file."""
    orders, customers, _ = BANK.tables
    Operations(storage=storage).pause(BANK, orders)
    clock = ManualClock()
    holds = Holds(storage, clock)
    flows = (orders.cdc_flow, customers.cdc_flow)
    assert [flow in holds for flow in flows] == [True, False]
    files = [path for path in Path(storage.root).rglob("requests/*") if path.is_file()]
    texts = [path.read_text("utf-8") for path in files]
    assert files
    for unusable in ('{"format": 9}', "{"):
        for path in files:
            path.write_text(unusable, "utf-8")
        clock.sleep(10)
        assert [flow in holds for flow in flows] == [True, False]
        with pytest.raises(OperationError):
            _ = flows[0] in Holds(storage, clock)
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, "utf-8")
    Operations(storage=storage).pause(BANK, customers)
    clock.sleep(10)
    assert [flow in holds for flow in flows] == [True, True]


def test_a_complete_snapshot_is_not_cancelled(storage: LocalStorage) -> None:
    """There is nothing to end, so the command fails."""
    orders = BANK.tables[0]
    GenerationStore(storage).begin(orders.target, orders.snapshot_flow, reason="test")
    GenerationStore(storage).complete(orders.target, orders.snapshot_flow, 1)
    for operation in (Operations(storage=storage).cancel, Operations(storage=storage).skip_snapshot):
        with pytest.raises(SluiceError) as caught:
            operation(BANK, orders)
        assert caught.value.condition == "INGESTION_SNAPSHOT_COMPLETE"


def test_a_snapshot_of_a_rebuild_is_not_cancelled(storage: LocalStorage) -> None:
    """The error says so: the complete snapshot is the one before. So it is before the rebuild has begun."""
    orders, generations = BANK.tables[0], GenerationStore(storage)
    generations.begin(orders.target, orders.snapshot_flow, reason="test")
    generations.complete(orders.target, orders.snapshot_flow, 1)
    definition = CopyDefinition(
        gateway="bank", source="public.orders", keys=("id",), scd_type=1, row_filter=None, selection="[[], [], []]",
        columns=(), most_columns=1, storage="1", log_version=1,
    )  # fmt: skip
    store = GatewayStore(storage)
    state = refreshed(store.read("bank"), BANK)
    store.write(state.with_copy(new_copy(orders.target, definition, rebuild=2)))
    for is_begun in (False, True):
        if is_begun:
            store.write(state)
            generations.begin(orders.target, orders.snapshot_flow, reason="full refresh", staged=True)
        for operation in (Operations(storage=storage).cancel, Operations(storage=storage).skip_snapshot):
            with pytest.raises(SluiceError) as caught:
                operation(BANK, orders)
            assert caught.value.condition == "INGESTION_SNAPSHOT_OF_REBUILD"


def test_another_snapshot_is_pending_until_it_begins(storage: LocalStorage) -> None:
    """A request is the number of the next generation, for a table or for the slot; twice is once."""
    orders, customers, _ = BANK.tables
    operations, store = Operations(storage=storage), GatewayStore(storage)
    for _ in range(2):
        operations.resync(BANK, orders, "id > 5")
    assert (store.request("bank", "public.orders").generation, store.request("bank", "public.orders").where) == (
        1, "id > 5"
    )  # fmt: skip
    assert [is_pending(storage, "bank", each.source) for each in (orders, customers)] == [True, False]
    operations.skip_snapshot(BANK, customers)
    operations.replace_position(BANK)
    assert held_flows(storage) == {}
    assert [is_pending(storage, "bank", each.source) for each in (orders, customers)] == [True, True]
    with pytest.raises(SluiceError) as caught:
        operations.resync(gateway(orders, called="new"), orders, None)
    assert caught.value.condition == "INGESTION_NOT_STARTED"


def test_a_request_that_has_not_begun_keeps_its_rows(storage: LocalStorage) -> None:
    """Conditions are combined, and all rows stay all rows; once a snapshot has begun, the next request is a new one."""
    orders, store = BANK.tables[0], GatewayStore(storage)
    operations = Operations(storage=storage)
    asked = [operations.resync(BANK, orders, where).where for where in ("a > 5 -- x", "a > 5 -- x", "b", None, "c")]
    assert asked == ["a > 5 -- x", "a > 5 -- x", "(a > 5 -- x\n) OR (b\n)", None, None]
    begun = SnapshotGeneration(number=1, log_generation=0, position=3, checkpoint=4)
    store.write(replace(refreshed(None, BANK), tables=(TableState(table=orders, generations=(begun,)),)))
    assert operations.resync(BANK, orders, "c") == store.request("bank", "public.orders") == Request(
        generation=2, where="c"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "state", "way_out"),
    [
        (_AHEAD, IngestedState.GAP, NEW_SLOT),
        (
            "DATABASE_POSITION_LOST.PARTITION_ROOT",
            IngestedState.GAP,
            f'ALTER PUBLICATION "{BANK.table_list}" SET (publish_via_partition_root = true)',
        ),
        ("DATABASE_POSITION_LOST.OTHER_SLOT", IngestedState.GAP, None),
        ("DATABASE_POSITION_LOST.SLOT_REPLACED", IngestedState.GAP, None),
        ("INGESTION_OF_OTHER_STORAGE", IngestedState.FAILED, None),
    ],
)
def test_only_lost_changes_need_a_new_slot(
    storage: LocalStorage, swap: pytest.MonkeyPatch, failure: str, state: IngestedState, way_out: str | None
) -> None:
    """A publication or a slot that was altered loses nothing, and another storage reads its slot rightly."""
    flows = {str(BANK.changes), *(str(flow) for each in BANK.tables for flow in (each.snapshot_flow, each.cdc_flow))}
    is_gap = state is IngestedState.GAP
    swap.setattr("framework.ingest.status._last_failures", lambda *_: dict.fromkeys(flows, failure))
    swap.setattr("framework.ingest.status._ask", lambda *_: _Answer(gap=None if is_gap else _AHEAD))
    (found,) = read_status(storage, NOW)
    assert (found.gap, found.way_out) == ((failure, way_out) if is_gap else (None, None))
    assert {(each.state, each.error, each.way_out) for each in found.tables} == {(state, failure, way_out)}
    assert (NEW_SLOT in status_head(found)) == (way_out == NEW_SLOT)


@pytest.mark.parametrize(
    ("gap", "named"),
    [
        ("INGESTION_TABLE_UNPUBLISHED", None),
        ("INGESTION_TABLE_REPLACED", None),
        ("DATABASE_POSITION_LOST.SLOT_MISSING", None),
        ("INGESTION_PARTITIONS_CHANGED", None),
        ("INGESTION_PARTITIONS_CHANGED", "those of the error"),
        ("DATABASE_PERMISSION", ""),
    ],
)
def test_a_condition_does_not_end_a_gap(
    storage: LocalStorage, swap: pytest.MonkeyPatch, gap: str, named: str | None
) -> None:
    """Nothing is recorded; only the rows of partitions that the error has named can be selected."""
    orders, store = BANK.tables[0], GatewayStore(storage)
    flow = BANK.changes if "." in gap else orders.cdc_flow
    swap.setattr("framework.ingest.status._last_failures", lambda *_: {str(flow): gap})
    operations = Operations(storage=storage)
    if named:
        store.write(refreshed(store.read("bank"), gateway(replace(orders, named_continuity=named))))
    if named is None:
        with pytest.raises(SluiceError) as caught:
            operations.resync(BANK, orders, "id > 5")
        assert caught.value.condition == "INGESTION_RESYNC_NEEDS_ALL_ROWS"
        assert (NEW_SLOT in caught.value.render()) == ("." in gap)
        assert store.request("bank", "public.orders") == Request()
        operations.resync(BANK, orders, None)
        return
    operations.resync(BANK, orders, "id > 5")
    wanted = Request(generation=1, where="id > 5", accepted=named)
    assert store.request("bank", "public.orders") == wanted
    # Another condition: the partitions are still those of the error, also if it is not the last failure any more.
    swap.setattr("framework.ingest.status._last_failures", lambda *_: {})
    assert operations.resync(BANK, orders, "id = 3").accepted == named
    # An update without that error records none; nor does it matter for a request of all rows.
    after = refreshed(store.read("bank"), BANK)
    assert [each.named_continuity for each in after.tables] == ["", "", ""]


def test_a_condition_is_refused_for_a_copy_with_a_row_filter(storage: LocalStorage) -> None:
    """Rows that no longer meet the filter would stay."""
    orders, store = BANK.tables[0], GatewayStore(storage)
    state = store.read("bank")
    assert state is not None
    definition = CopyDefinition(
        gateway="bank", source="public.orders", keys=("id",), scd_type=1, row_filter="region = 'EU'",
        selection="[[], [], []]", columns=(), most_columns=1, storage="1", log_version=1,
    )  # fmt: skip
    store.write(state.with_copy(new_copy(orders.target, definition)))
    with pytest.raises(SluiceError) as caught:
        Operations(storage=storage).resync(BANK, orders, "id > 5")
    assert caught.value.condition == "INGESTION_RESYNC_OF_FILTERED_ROWS"
    assert store.request("bank", "public.orders") == Request()


def test_status_reads_checkpoints_although_the_source_does_not_answer(storage: LocalStorage) -> None:
    """States and chunks are known; percent, lag and slot are not."""
    orders, customers, odd = BANK.tables
    commit_chunks(storage, orders, finished=False)
    commit_chunks(storage, customers, finished=True)
    GenerationStore(storage).complete(customers.target, customers.snapshot_flow, 1)
    Operations(storage=storage).pause(BANK, odd)
    (status,) = read_status(storage, NOW)
    assert status.error == "DATABASE_CONNECTION_UNKNOWN"
    assert (status.log_status, status.position, status.gap) == (None, None, None)
    assert [(each.state.value, each.snapshot.chunks, each.snapshot.percent) for each in status.tables] == [
        ("SNAPSHOT", 2, None), ("FOLLOWING", 3, None), ("PAUSED", 0, None),
    ]  # fmt: skip
    assert {each.lag_bytes for each in status.tables} == {None}


class CountingStorage(LocalStorage):
    """A local storage that lists the event files that are read."""

    events_read: tuple[str, ...] = ()

    def read_text(self, path: str) -> str | None:
        """Return the text of a file."""
        if path.endswith(".jsonl"):
            self.events_read += (Path(path).name,)
        return super().read_text(path)


def test_status_reads_the_events_of_the_last_updates_only(tmp_path: Path) -> None:
    """The last end of each flow decides, and rows after a failure; what is older is not read."""
    storage = CountingStorage(str(tmp_path))
    GatewayStore(storage).write(refreshed(None, BANK))
    error = summarize_error(OperationError("STORAGE_NOT_READABLE", path="/lake", problem="gone"), fatal=True)
    flows = [flow for table in BANK.tables for flow in (table.snapshot_flow, table.cdc_flow)]
    for number in range(3):
        origin = Origin(pipeline_id="p", pipeline_name="p", update_id=f"u{number}", host="h")
        with EventLog(storage, origin, ManualClock()) as log:
            for flow in [BANK.changes, *flows]:
                fails = number == 0 or flow == BANK.tables[0].cdc_flow
                details: Any = {"status": "FAILED", "error": error} if fails else {"status": "IDLE"}
                log.record(flow_progress(flow=str(flow), dataset="d", **details))
            if number == 2:
                healed = str(BANK.tables[1].cdc_flow)
                log.record(flow_progress(flow=healed, dataset="d", status="QUEUED", error=error))
                log.record(flow_progress(flow=healed, dataset="d", status="RUNNING", metrics={"num_output_rows": 3}))
        for file in (tmp_path / "events").iterdir():
            if f"u{number}" in file.name:
                os.utime(file, (number, number))
    (status,) = read_status(storage, NOW)
    assert [(each.state.value, each.error) for each in status.tables] == [
        ("FAILED", "STORAGE_NOT_READABLE"), ("WAITING", None), ("WAITING", None),
    ]  # fmt: skip
    assert ["u2" in name for name in storage.events_read] == [True]


def test_a_snapshot_is_confirmed_after_the_changes_before_it(storage: LocalStorage) -> None:
    """It is read when its last chunk is committed, and staged when the changes have passed its start."""
    orders = BANK.tables[0]
    begun = SnapshotGeneration(number=1, log_generation=0, position=256, checkpoint=1, where="id > 1")
    state = refreshed(None, BANK)
    tables = (TableState(table=orders, generations=(begun,)), *state.tables[1:])
    GatewayStore(storage).write(GatewayState(gateway=BANK, tables=tables))

    def found() -> list[tuple[bool, bool]]:
        return [(each.is_read, each.is_staged) for each in open_confirmations([BANK], storage)]

    assert found() == []
    commit_chunks(storage, orders, finished=True)
    assert found() == [(True, False)]
    generations = GenerationStore(storage)
    generations.begin(BANK.changes, BANK.changes, reason="test")
    path = generations.path(BANK.changes, BANK.changes, 1)
    # An offset that is damaged, and JSON all the same, has passed no position.
    reached = [(position(lsn), lsn == 256) for lsn in (255, 256)]
    damaged = ["5", "null", "[1]", '"lsn"', "-", "{}", position(256).replace("256", '"?"')]
    for batch, (offset, staged) in enumerate([*((text, False) for text in damaged), *reached]):
        storage.write_text(f"{path}/offsets/{batch}", f"v1\n{{}}\n{offset}")
        storage.write_text(f"{path}/commits/{batch}", "v1\n{}")
        assert found() == [(True, staged)]
        assert read_status(storage, NOW)[0].tables[0].state is IngestedState.CONFIRMING
    chunks = generations.path(orders.target, orders.snapshot_flow, 1)
    complete = storage.read_text(f"{chunks}/offsets/0") or ""
    for offset in damaged:
        storage.write_text(f"{chunks}/offsets/0", f"v1\n{{}}\n{offset}")
        assert found() == [(False, True)]
    storage.write_text(f"{chunks}/offsets/0", complete)
    assert [each.where for each in open_confirmations([BANK], storage)] == ["true"]  # the types are unknown
    generations.complete(orders.target, orders.snapshot_flow, 1)
    assert found() == []
    generations.begin(orders.target, orders.snapshot_flow, reason="reset")
    assert [(each.where, each.is_read) for each in open_confirmations([BANK], storage)] == [(None, False)]
