"""What is recorded of tables when the modules declare them in another way, without a source."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.declare.specs import IngestedTable
from framework.foundation.files.local_storage import LocalStorage
from framework.ingest.copy_state import new_copy
from framework.ingest.declared import reads_altered, refreshed
from framework.ingest.generations import begin_generations
from framework.ingest.holds import held_flows
from framework.ingest.operations import Operations
from framework.ingest.state import GatewayState, GatewayStore, Mode, SnapshotGeneration, TableState
from framework.ingest.tables.relations import log_relations
from framework.testing.manual_clock import ManualClock
from tests.support.fake_source import FakeSource
from tests.unit.ingest.test_operations import gateway, ingested

PLAIN = CopyDefinition(
    gateway="bank", source="public.orders", keys=("id",), scd_type=1, row_filter=None, selection="[[], [], ['at']]",
    columns=(), most_columns=1, storage="1", log_version=1,
)  # fmt: skip
OTHER_FORMS = {
    "text_columns": replace(PLAIN, selection="[[], [], []]"),
    "scd_type": replace(PLAIN, scd_type=2),
    "keys": replace(PLAIN, keys=("code",)),
}
SAME_FORM = replace(PLAIN, row_filter="id > 1", selection="[['at'], [], ['at']]")
GENERATION = SnapshotGeneration(number=3, log_generation=0, position=42, checkpoint=2)


def orders(copy: str, definition: CopyDefinition | None) -> IngestedTable:
    """Return the table `orders` with a copy; without a definition it can't be copied now."""
    found = replace(ingested("orders"), target=ingested(copy).target, definition=definition)
    return found if definition is None else replace(found, identity="7")


def recorded(*copies: tuple[str, CopyDefinition]) -> GatewayState:
    """Return the state after an update that had the first of some copies, with a snapshot that nobody asked for."""
    table = orders(*copies[0])
    known = TableState(
        table=replace(table, definition=None),
        generations=(GENERATION,),
        staged=copies[0][1].staged,
        identity="7",
    )
    copy_states = tuple(new_copy(ingested(name).target, definition) for name, definition in copies)
    return GatewayState(gateway=gateway(table), tables=(known,), copies=copy_states)


def after(state: GatewayState, *tables: IngestedTable) -> TableState:
    """Return what is recorded of the table when it is declared in another way."""
    (found,) = refreshed(state, gateway(*tables)).tables
    return found


@pytest.mark.parametrize("option", OTHER_FORMS)
def test_a_table_is_missed_if_another_copy_stages_its_changes_in_another_form(option: str) -> None:
    """So is the copy that has the name again; a copy whose rows are only selected otherwise is not."""
    other = OTHER_FORMS[option]
    there = after(recorded(("orders", PLAIN)), orders("new", other))
    assert (there.is_missed, there.staged) == (True, other.staged)
    back = after(recorded(("new", other), ("orders", PLAIN)), orders("orders", PLAIN))
    assert (back.is_missed, back.staged) == (True, PLAIN.staged)
    same = after(recorded(("orders", PLAIN)), orders("new", SAME_FORM))
    assert (same.is_missed, same.staged) == (False, PLAIN.staged)


@pytest.mark.parametrize("copy", ["orders", "new"])
def test_a_table_that_can_not_be_copied_stages_as_before(copy: str) -> None:
    """Whatever is wrong with it: a changed option, a mistake in one, or the name of another copy."""
    state = refreshed(recorded(("orders", PLAIN)), gateway(orders(copy, None)))
    (known,) = state.tables
    assert (known.is_missed, known.staged) == (False, PLAIN.staged)
    options = log_relations(state, [])
    assert [options[name] for name in ("keys", "textColumns", "historyTables")] == [
        '"public"."orders"."id"', '"public"."orders"."at"', "",
    ]  # fmt: skip
    assert not after(state, orders("orders", PLAIN)).is_missed


@pytest.mark.parametrize("copies", [("orders", "new"), ("new", "orders")])
def test_a_table_that_is_declared_twice_keeps_what_is_recorded(copies: tuple[str, str]) -> None:
    """Its generations and its source table: it has the copy that it had."""
    state = recorded(("orders", PLAIN))
    found = after(state, *(orders(copy, None) for copy in copies))
    assert replace(found, table=replace(found.table, identity="7")) == state.tables[0]


def test_a_missed_table_without_a_snapshot_gets_one(tmp_path: Path, swap: pytest.MonkeyPatch) -> None:
    """Also if the update is killed before it records the new generation; a paused table stays paused."""
    storage = LocalStorage(str(tmp_path))
    store, operations = GatewayStore(storage), Operations(storage=storage)
    swap.setattr("framework.ingest.log_positions.open_gateway", FakeSource(member=0).open)
    tables = [
        replace(ingested(name), identity=str(number)) for number, name in enumerate(("skipped", "ended", "paused"), 1)
    ]
    whole, none = gateway(*tables), gateway()
    operations.skip_snapshot(whole, tables[0])
    operations.cancel(whole, tables[1])
    operations.pause(whole, tables[2])
    for declared in (whole, none):
        assert begin_generations([declared], storage, ManualClock()) == ()
    with swap.context() as during, suppress(KeyboardInterrupt):

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        during.setattr(GatewayStore, "write", killed)
        begin_generations([whole], storage, ManualClock())
    assert begin_generations([whole], storage, ManualClock()) == ()
    modes = [store.request("bank", each.source).mode for each in tables]
    assert modes == [Mode.ACTIVE, Mode.ACTIVE, Mode.PAUSED]
    assert set(held_flows(storage)) == {tables[2].snapshot_flow, tables[2].cdc_flow}
    state = store.read("bank")
    assert state is not None
    assert [(each.number, each.oldest_kept) for each in state.tables] == [(1, 1)] * 3


def test_columns_of_a_missed_table_hold_it_only_if_a_history_would_begin_again() -> None:
    """All its rows are read anyway. What the code changed is left to an operator, as it is for any other table."""
    missed = replace(after(recorded(("orders", PLAIN)), orders("orders", PLAIN)), is_missed=True)
    column = CopiedColumn(name="a", type="INT", source_type="integer", number=1, stamp="1", type_id=23)
    before = replace(PLAIN, columns=(column,))
    filled = replace(before, columns=(column, replace(column, name="b", number=2, is_filled=True)), most_columns=2)
    retyped = replace(before, columns=(replace(column, type="BIGINT"),))
    assert [reads_altered(missed, before, now) for now in (before, filled, retyped)] == [True, True, True]
    histories = [replace(each, scd_type=2) for each in (before, before, filled, retyped)]
    assert [reads_altered(missed, histories[0], now) for now in histories[1:]] == [True, True, False]
    assert not reads_altered(replace(missed, is_missed=False), before, filled)
    assert not reads_altered(missed, before, replace(filled, row_filter="a > 1"))
