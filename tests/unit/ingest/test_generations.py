"""New generations of snapshots begin once, whatever ends the update; the source is replaced here."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.errors import SourceError
from framework.foundation.local_storage import LocalStorage
from framework.ingest.generations import begin_generations
from framework.ingest.operations import Operations
from framework.ingest.state import GatewayStore, SnapshotGeneration
from framework.sources.databases.postgres import position, session
from framework.testing.manual_clock import ManualClock
from tests.unit.ingest.test_operations import BANK

ORDERS, CUSTOMERS, _ = BANK.tables


@pytest.fixture
def storage(tmp_path: Path, swap: pytest.MonkeyPatch) -> LocalStorage:
    """A storage in which the first snapshot of one table is complete; the source answers with position 42."""
    storage = LocalStorage(str(tmp_path))
    swap.setattr(session, "Session", lambda *_, **__: nullcontext())
    swap.setattr(position, "settled_position", lambda *_: 42)
    swap.setattr("framework.ingest.generations.gateway_connection", lambda _: None)
    assert begin_generations([BANK], storage, ManualClock()) == ()
    generations = GenerationStore(storage)
    for table in (ORDERS, CUSTOMERS):
        generations.begin(table.target, table.snapshot_flow, reason="first run")
    generations.complete(ORDERS.target, ORDERS.snapshot_flow, 1)
    return storage


def begun(storage: LocalStorage, table: str) -> tuple[SnapshotGeneration, ...]:
    """Return the generations of a table after another update has begun; a second update changes nothing."""
    assert begin_generations([BANK], storage, ManualClock()) == ()
    found = GatewayStore(storage).read("bank")
    assert begin_generations([BANK], storage, ManualClock()) == ()
    assert found == GatewayStore(storage).read("bank")
    state = None if found is None else found.table(table)
    return () if state is None else state.generations


def test_a_generation_begins_once_with_its_checkpoint(storage: LocalStorage) -> None:
    """Its position and the number of its checkpoint are durable before the checkpoint begins."""
    Operations(storage=storage).resync(BANK, ORDERS, "id > 1")
    wanted = (SnapshotGeneration(number=1, slot_generation=0, lsn=42, checkpoint=2, where="id > 1"),)
    assert begun(storage, "public.orders") == wanted
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert (current.number, current.completed) == (2, False)


def test_a_checkpoint_that_a_crash_left_out_begins_with_the_next_update(storage: LocalStorage) -> None:
    """The state is written, the process ends, and the next update begins what is missing."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    begun(storage, "public.orders")
    flow = GenerationStore(storage).path(ORDERS.target, ORDERS.snapshot_flow, 2).rpartition("/")[0]
    storage.delete_tree(flow)
    assert [each.checkpoint for each in begun(storage, "public.orders")] == [2]
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert current.number == 2


def test_a_snapshot_that_is_not_complete_is_replaced_as_a_whole(storage: LocalStorage) -> None:
    """With the filter, the rows that it leaves out would never be read."""
    Operations(storage=storage).resync(BANK, CUSTOMERS, "id > 1")
    assert [each.where for each in begun(storage, "public.customers")] == [None]


def test_a_source_without_an_answer_leaves_the_request_open(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """The refusal names the copy; the next update tries again."""

    def refuse(*_: object) -> int:
        raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")

    Operations(storage=storage).resync(BANK, ORDERS, None)
    with swap.context() as during:
        during.setattr(position, "settled_position", refuse)
        (refusal,) = begin_generations([BANK], storage, ManualClock())
        assert (refusal.target, refusal.error.condition) == (ORDERS.target, "DATABASE_TRANSACTIONS_OPEN")
    assert [each.number for each in begun(storage, "public.orders")] == [1]


def test_a_new_slot_begins_a_generation_of_every_table(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """The slot is replaced once; the changes get another checkpoint, and positions begin at its first one."""
    calls: list[str] = []
    swap.setattr(position, "drop_position", lambda *_: calls.append("drop"))
    swap.setattr(position, "ensure_position", lambda *_: calls.append("create"))
    Operations(storage=storage).replace_slot(BANK)
    wanted = (SnapshotGeneration(number=1, slot_generation=1, lsn=0, checkpoint=2),)
    assert begun(storage, "public.orders") == begun(storage, "public.customers") == wanted
    assert calls == ["drop", "create"]
    current = GenerationStore(storage).current(BANK.changes, BANK.changes)
    assert current is not None
    assert current.number == 1
