"""New generations of snapshots begin once, whatever ends the update; the source is replaced here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SourceError
from framework.foundation.files import versioned_files
from framework.foundation.files.local_storage import LocalStorage
from framework.ingest.confirmation import is_pending
from framework.ingest.generations import begin_generations
from framework.ingest.holds import held_flows
from framework.ingest.operations import Operations
from framework.ingest.state import GatewayState, GatewayStore, Mode, Request, SnapshotGeneration, TableState
from framework.sources.databases.tables import TableName
from framework.testing.manual_clock import ManualClock
from tests.support.fake_source import FakeSource, continuity
from tests.unit.ingest.test_operations import BANK

ORDERS, CUSTOMERS, _ = BANK.tables


@pytest.fixture
def storage(tmp_path: Path, swap: pytest.MonkeyPatch) -> LocalStorage:
    """A storage in which the first snapshot of one table is complete; the source answers with position 42."""
    storage = LocalStorage(str(tmp_path))
    swap.setattr("framework.ingest.log_positions.open_gateway", FakeSource().open)
    assert begin_generations([BANK], storage, ManualClock()) == ()
    generations = GenerationStore(storage)
    for table in (ORDERS, CUSTOMERS):
        generations.begin(table.target, table.snapshot_flow, reason="first run")
    generations.complete(ORDERS.target, ORDERS.snapshot_flow, 1)
    return storage


def refuse(*_: object) -> int:
    """Answer as a source in which a transaction does not end."""
    raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")


def begun(storage: LocalStorage, table: str, gateway: IngestedGateway = BANK) -> tuple[SnapshotGeneration, ...]:
    """Return the generations of a table after another update has begun; a second update changes nothing."""
    assert begin_generations([gateway], storage, ManualClock()) == ()
    found = GatewayStore(storage).read("bank")
    assert begin_generations([gateway], storage, ManualClock()) == ()
    assert found == GatewayStore(storage).read("bank")
    state = None if found is None else found.table(table)
    return () if state is None else state.generations


def test_a_generation_begins_once_with_its_checkpoint(storage: LocalStorage) -> None:
    """Its position and the number of its checkpoint are durable before the checkpoint begins.

    With a condition it waits while its table has a fault: the fault may be about rows that the condition leaves out.
    """
    Operations(storage=storage).resync(BANK, ORDERS, "id > 1")
    assert begun(storage, "public.orders") == ()
    wanted = (SnapshotGeneration(number=1, log_generation=0, position=42, checkpoint=2, where="id > 1"),)
    assert begun(storage, "public.orders", found(7)) == wanted
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert (current.number, current.completed) == (2, False)


def test_a_checkpoint_that_a_crash_left_out_begins_with_the_next_update(storage: LocalStorage) -> None:
    """The state is written, the process ends, and the next update begins what is missing."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    begun(storage, "public.orders", found(7))
    flow = GenerationStore(storage).path(ORDERS.target, ORDERS.snapshot_flow, 2).rpartition("/")[0]
    storage.delete_tree(flow)
    assert [each.checkpoint for each in begun(storage, "public.orders", found(7))] == [2]
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert current.number == 2


def test_a_snapshot_that_is_not_complete_is_replaced_as_a_whole(storage: LocalStorage) -> None:
    """With the filter, the rows that it leaves out would never be read."""
    Operations(storage=storage).resync(BANK, CUSTOMERS, "id > 1")
    copied = replace(BANK, tables=tuple(replace(each, identity="7") for each in BANK.tables))
    assert [each.where for each in begun(storage, "public.customers", copied)] == [None]


def test_a_source_without_an_answer_leaves_the_request_open(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """The refusal names the copy; the next update tries again."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        (refusal,) = begin_generations([found(7)], storage, ManualClock())
        assert (refusal.target, refusal.error.condition) == (ORDERS.target, "DATABASE_TRANSACTIONS_OPEN")
    assert [each.number for each in begun(storage, "public.orders", found(7))] == [1]


def test_a_request_waits_until_its_table_can_be_copied(storage: LocalStorage) -> None:
    """A table that is held, or has another fault, is not read; the next update that can read it needs no other one."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    assert begun(storage, "public.orders") == ()
    assert is_pending(storage, "bank", ORDERS.source)
    assert [each.number for each in begun(storage, "public.orders", found(7))] == [1]
    assert not is_pending(storage, "bank", ORDERS.source)


def test_a_request_for_a_table_that_the_last_update_did_not_have_is_pending(storage: LocalStorage) -> None:
    """It was not declared, or the copy of another name: the first update that can read it does so."""
    moved = replace(ORDERS, target=CUSTOMERS.target)
    for tables in ((), (moved,)):
        begin_generations([replace(BANK, tables=tables)], storage, ManualClock())
        Operations(storage=storage).resync(BANK, ORDERS, None)
        assert is_pending(storage, "bank", ORDERS.source)


def test_a_new_slot_begins_a_generation_of_every_table(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """The slot is replaced once; the changes get another checkpoint, and positions begin at its first one.

    A table with a fault is read again from the new slot when it can be copied.
    """
    source = FakeSource()
    swap.setattr("framework.ingest.log_positions.open_gateway", source.open)
    Operations(storage=storage).replace_position(BANK)
    wanted = SnapshotGeneration(number=1, log_generation=1, position=0, checkpoint=2)
    assert begin_generations([found(7, 70)], storage, ManualClock()) == ()
    # As the new log has it, not as it was found before.
    assert orders(storage).continuity == continuity("7", 90)
    assert begun(storage, "public.orders", found(7, 90)) == (wanted,)
    assert begun(storage, "public.customers", found(7, 90)) == ()
    assert is_pending(storage, "bank", CUSTOMERS.source)
    copied = replace(BANK, tables=tuple(replace(each, identity="7") for each in BANK.tables))
    assert begun(storage, "public.customers", copied) == (replace(wanted, position=42, skips_earlier=True),)
    assert source.calls == ["drop", "create"]
    current = GenerationStore(storage).current(BANK.changes, BANK.changes)
    assert current is not None
    assert current.number == 1


def found(number: int, member: int = 0) -> IngestedGateway:
    """Return the gateway with the table `orders` as the source has it: its number, and that of its membership."""
    first, *others = BANK.tables
    known = continuity(str(number), member)
    present = replace(first, identity=str(number), continuity=known, is_logged=member > 0)
    return replace(BANK, tables=(present, *others))


def orders(storage: LocalStorage) -> TableState:
    """Return the recorded state of the table."""
    state = GatewayStore(storage).read("bank")
    known = None if state is None else state.table("public.orders")
    assert known is not None
    return known


def test_another_table_of_a_name_is_only_taken_by_another_snapshot(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """What an update found is recorded; a request that failed keeps it, and a new snapshot reads the whole table."""
    assert begin_generations([found(7, 70)], storage, ManualClock()) == ()
    assert (orders(storage).identity, orders(storage).continuity) == ("7", continuity("7", 70))
    assert begin_generations([BANK], storage, ManualClock()) == ()  # it could not be copied
    assert orders(storage).identity == "7"
    Operations(storage=storage).resync(BANK, ORDERS, None)
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        assert len(begin_generations([found(8, 80)], storage, ManualClock())) == 1
    assert (orders(storage).identity, orders(storage).continuity) == ("7", continuity("7", 70))
    assert begin_generations([found(8, 80)], storage, ManualClock()) == ()
    wanted = SnapshotGeneration(number=1, log_generation=0, position=42, checkpoint=2, where=None)
    assert orders(storage).generations == (wanted,)
    assert (orders(storage).identity, orders(storage).continuity) == ("8", continuity("8", 80))


def test_a_table_without_a_snapshot_is_published_once(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """Its snapshot flow would do it, but does not run; a slot that is missing is made by the flow of changes."""
    name = TableName(schema="public", table="orders")
    source = FakeSource(has_log=False, member=90)
    swap.setattr("framework.ingest.log_positions.open_gateway", source.open)
    GatewayStore(storage).ask(Request(mode=Mode.SKIPPED), "bank", "public.orders")
    assert begin_generations([found(7)], storage, ManualClock()) == ()
    assert (source.published, orders(storage).continuity) == ([], continuity("7", 0))
    source.has_log = True
    assert begin_generations([found(7)], storage, ManualClock()) == ()
    assert begin_generations([found(7, 90)], storage, ManualClock()) == ()
    assert (source.published, orders(storage).continuity) == ([name], continuity("7", 90))


def test_another_table_without_a_snapshot_is_not_taken_for_the_one_of_before(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """It is published, since changes of it are asked for; what is recorded stays until a snapshot of it begins."""
    name, source = TableName(schema="public", table="orders"), FakeSource()
    swap.setattr("framework.ingest.log_positions.open_gateway", source.open)
    assert begin_generations([found(7, 70)], storage, ManualClock()) == ()
    Operations(storage=storage).resync(BANK, ORDERS, None)
    GatewayStore(storage).change_request(lambda before: replace(before, mode=Mode.SKIPPED), "bank", "public.orders")
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        during.setattr("tests.support.fake_source.TABLE", "8")
        assert len(begin_generations([found(8)], storage, ManualClock())) == 1
    assert source.published == [name]
    assert (orders(storage).identity, orders(storage).continuity) == ("7", continuity("7", 70))


@pytest.mark.parametrize("is_early", [True, False])
def test_a_request_that_an_update_does_not_see_is_asked_for_again(
    storage: LocalStorage, swap: pytest.MonkeyPatch, *, is_early: bool
) -> None:
    """An update begins the one before it while an operator asks; it is recorded before or after the request."""
    operations, store, here = Operations(storage=storage), GatewayStore(storage), GatewayStore
    operations.resync(BANK, ORDERS, "a = 1")
    change, write, done = here.change_request, here.write, list[str]()

    def changing(self: GatewayStore, follow: Callable[[Request], Request], *place: str) -> Request:
        if is_early and not done:
            done.append("update")
            begin_generations([found(7)], storage, ManualClock())
        return change(self, follow, *place)

    def writing(self: GatewayStore, state: GatewayState) -> None:
        if not is_early and not done:
            done.append("request")
            operations.resync(BANK, ORDERS, "b = 2")
        write(self, state)

    swap.setattr(here, "change_request", changing)
    swap.setattr(here, "write", writing)
    if is_early:
        operations.resync(BANK, ORDERS, "b = 2")
    else:
        begin_generations([found(7)], storage, ManualClock())
    state = store.read("bank")
    assert state is not None
    known = state.table("public.orders")
    assert known is not None
    assert [(each.number, each.where) for each in known.generations] == [(1, "a = 1")]
    request = store.request("bank", "public.orders")
    assert (request.generation, len(done)) == (2, 1)
    assert request.where in ("b = 2", "(a = 1\n) OR (b = 2\n)")


def test_no_request_is_lost_to_one_of_the_same_moment(storage: LocalStorage, swap: pytest.MonkeyPatch) -> None:
    """Another process changes the request between the read and the write of this one: both are in effect."""
    operations, replaced = Operations(storage=storage), versioned_files.replace_version

    def meanwhile(first: Callable[[], object], second: Callable[[], object]) -> Request:
        """Return what is asked for after the second action, in which the first one comes before its write."""
        GatewayStore(storage).ask(Request(), "bank", "public.orders")
        actions = [first]

        def replacing(*arguments: Any) -> bool:
            if actions:
                actions.pop()()
            return replaced(*arguments)

        with swap.context() as during:
            during.setattr("framework.ingest.state.replace_version", replacing)
            second()
        assert not actions
        return GatewayStore(storage).request("bank", "public.orders")

    def resync(where: str | None) -> Callable[[], object]:
        return lambda: operations.resync(BANK, ORDERS, where)

    def pause() -> None:
        operations.pause(BANK, ORDERS)

    swap.setattr("framework.ingest.operations.check_partial_resync", lambda *_: "")
    assert meanwhile(resync("a = 1"), resync("b = 2")) == Request(generation=1, where="(a = 1\n) OR (b = 2\n)")
    assert meanwhile(resync(None), resync("b = 2")) == Request(generation=1)
    for first, second in ((resync(None), pause), (pause, resync(None))):
        assert meanwhile(first, second) == Request(generation=1, mode=Mode.PAUSED)

    def twice() -> None:
        pause()
        operations.resync(BANK, ORDERS, None)

    assert meanwhile(twice, resync("b = 2")) == Request(generation=1, mode=Mode.PAUSED)
    assert len(storage.list_names(storage.path("ingest", "bank", "requests"))) == 13


def test_a_request_for_more_rows_outlives_the_end_of_the_update_that_misses_it(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """The update is killed between its state and the request that it asks for again."""
    swap.setattr("framework.ingest.operations.check_partial_resync", lambda *_: "")
    operations, write = Operations(storage=storage), GatewayStore.write
    operations.resync(BANK, ORDERS, "a = 1")

    def killed(self: GatewayStore, state: GatewayState) -> None:
        operations.resync(BANK, ORDERS, None)
        write(self, state)
        raise KeyboardInterrupt

    with swap.context() as during, suppress(KeyboardInterrupt):
        during.setattr(GatewayStore, "write", killed)
        begin_generations([found(7)], storage, ManualClock())
    assert [each.where for each in orders(storage).generations] == ["a = 1"]
    assert [each.where for each in begun(storage, "public.orders", found(7))] == ["a = 1", None]


def test_a_table_that_an_update_missed_is_read_again_and_its_staged_changes_are_passed_over(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """It was not declared, or a copy of another name, or published before it could be copied; a refusal holds it."""

    def update(*tables: IngestedTable) -> None:
        assert begin_generations([replace(BANK, tables=tables)], storage, ManualClock()) == ()

    def numbers() -> list[tuple[int, bool]]:
        return [(each.number, each.skips_earlier) for each in orders(storage).generations]

    present, other = replace(ORDERS, identity="7", is_logged=True), replace(CUSTOMERS, identity="8")
    update(present, other)
    update(other)
    Operations(storage=storage).resync(BANK, ORDERS, None)
    update(present, other)
    update(present, other)
    assert numbers() == [(1, True)]
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert "an earlier update did not have its table" in current.reason
    assert current.number == orders(storage).generations[0].checkpoint

    update(ORDERS, replace(CUSTOMERS, identity="7"))  # it was renamed, and is the copy of its other name
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        assert len(begin_generations([replace(BANK, tables=(present, other))], storage, ManualClock())) == 1
    assert {*held_flows(storage)} == {ORDERS.snapshot_flow, ORDERS.cdc_flow}
    update(present, other)
    assert (numbers(), held_flows(storage)) == ([(1, True), (2, True)], {})
    assert orders(storage).oldest_kept == 2

    swap.setattr("framework.ingest.generations.has_changes", lambda *_: True)
    new = replace(BANK.tables[2], source_table="new", identity="9")
    update(present, new, replace(new, source_table="published", is_logged=True))
    state = GatewayStore(storage).read("bank")
    assert state is not None
    assert {each.table.source_table: each.oldest_kept for each in state.tables if each.identity == "9"} == {
        "new": 0, "published": 1
    }  # fmt: skip


def test_a_copy_that_has_an_earlier_name_again_reads_the_snapshot_that_it_has_not_read(storage: LocalStorage) -> None:
    """The numbers of its checkpoints are not those of the copy that the generation began with."""
    generations = GenerationStore(storage)
    for _ in range(2):
        generations.begin(ORDERS.target, ORDERS.snapshot_flow, reason="full refresh")
    other = replace(ORDERS, target=CUSTOMERS.target, snapshot_flow=CUSTOMERS.snapshot_flow)
    renamed = replace(BANK, tables=(replace(other, identity="7"),))
    begun(storage, "public.orders", renamed)
    Operations(storage=storage).resync(renamed, other, None)
    assert [each.checkpoint for each in begun(storage, "public.orders", renamed)] == [2]
    begun(storage, "public.orders")
    current = generations.current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert (current.number, current.completed) == (4, False)


def test_a_copy_is_recorded_by_the_ingestion_that_makes_it(storage: LocalStorage) -> None:
    """The one before has no record of it that it could go on with when the table comes back."""
    definition = CopyDefinition(
        gateway="bank", source="public.orders", keys=("id",), scd_type=1, row_filter=None, selection="[[], [], []]",
        columns=(), most_columns=1, storage="1", log_version=1,
    )  # fmt: skip
    table = replace(ORDERS, identity="7", definition=definition)
    there = replace(table, definition=replace(definition, gateway="other"))
    other = replace(BANK, name="other", tables=(CUSTOMERS,))

    def makers(*tables: tuple[IngestedTable, ...]) -> list[str]:
        """Return the ingestions with a record of the copy after an update in which both have other tables."""
        gateways = [replace(each, tables=found) for each, found in zip((BANK, other), tables, strict=True)]
        assert begin_generations(gateways, storage, ManualClock()) == ()
        states = [state for state in GatewayStore(storage).read_all() if state.copy(ORDERS.target) is not None]
        return [state.gateway.name for state in states]

    assert makers((table, CUSTOMERS), ()) == ["bank"]
    assert makers((CUSTOMERS,), (there,)) == ["other"]
    assert makers((CUSTOMERS,), ()) == ["other"]
    assert makers((table, CUSTOMERS), ()) == ["bank"]
