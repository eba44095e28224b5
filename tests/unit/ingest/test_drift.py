"""Definitions of copies: which differences mix rows, and what begins when a copy with one is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.declare.specs import IngestedGateway
from framework.foundation.errors import SourceError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.ingest.confirmation import awaits_rebuild, has_rows
from framework.ingest.copy_state import CopyState
from framework.ingest.drift import drift_error, is_replaceable
from framework.ingest.generations import begin_generations
from framework.ingest.holds import held_flows
from framework.ingest.operations import Operations
from framework.ingest.state import GatewayStore, Request, SnapshotGeneration
from framework.testing.manual_clock import ManualClock
from tests.support.fake_source import FakeSource
from tests.unit.ingest.test_operations import BANK

ORDERS = BANK.tables[0]
A = CopiedColumn(name="a", type="INT", number=1, stamp="7", labels=("1:x",), fields=("9.1:23",))
BEFORE = CopyDefinition(
    gateway="bank", source="public.orders", keys=("a",), scd_type=1, row_filter=None, selection="[[], [], []]",
    columns=(A,), most_columns=1, storage="f1", log_version=5,
)  # fmt: skip
B = CopiedColumn(name="b", type="INT", number=2, stamp="8")
WITH_B = replace(BEFORE, columns=(A, B), most_columns=2, log_version=6)
FILTERED = replace(BEFORE, row_filter="a > 1")


def _changed(**fields: object) -> CopyDefinition:
    return replace(BEFORE, columns=(replace(A, **fields),))  # type: ignore[arg-type]


DROPPED = replace(BEFORE, gone=(2,), most_columns=2)
WITH_C = replace(WITH_B, columns=(A, replace(B, number=3)), most_columns=3)
FOLLOWED = (
    BEFORE, WITH_B, replace(BEFORE, storage="f2"), _changed(stamp="8"), _changed(labels=("1:x", "2:y")),
    replace(BEFORE, selection="[['a'], [], []]"), DROPPED,
)  # fmt: skip
ALTERED = (
    replace(BEFORE, columns=()), replace(BEFORE, keys=("b",)), _changed(number=2), _changed(type="BIGINT"),
    _changed(name="z"), _changed(labels=("1:y",)), _changed(fields=()), replace(_changed(stamp="8"), storage="f2"),
    replace(WITH_B, columns=(A, replace(B, is_filled=True))), replace(WITH_B, storage="f2"),
    replace(WITH_B, columns=(A, replace(B, number=1))), replace(WITH_C, gone=(2,)),
)  # fmt: skip
REDEFINED = (
    FILTERED, replace(BEFORE, scd_type=2), replace(BEFORE, source="public.lines"), replace(BEFORE, gateway="other"),
    replace(BEFORE, selection="[['b'], [], []]", columns=()), replace(BEFORE, soft_deletes="__deleted"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("now", "condition"),
    [
        *((now, None) for now in FOLLOWED),
        *((now, "INGESTION_COLUMNS_CHANGED") for now in ALTERED),
        *((now, "INGESTION_TABLE_REDEFINED") for now in REDEFINED),
    ],
)
def test_a_difference_that_mixes_rows_has_a_condition(now: CopyDefinition, condition: str | None) -> None:
    """It says whether the source or the code has to do with it."""
    error = drift_error(BEFORE, now)
    assert condition == (error and error.condition)


@pytest.mark.parametrize(
    ("columns", "change"),
    [
        ((replace(A, name="b"), replace(B, name="a")), "`a` is now `b`"),
        ((replace(A, name="A"), B), "`a` is now `A`"),
        ((B,), "`a` is gone"),
        ((replace(A, number=3), B), "`a` is another column of the same name"),
        ((replace(A, type="BIGINT"), B), "`a` was INT, and is BIGINT"),
    ],
)
def test_the_first_difference_of_columns_is_named(columns: tuple[CopiedColumn, ...], change: str) -> None:
    """A column is known by its number: one with another name is renamed, also if there was one of that name."""
    error = drift_error(WITH_B, replace(WITH_B, columns=columns))
    assert error is not None
    assert error.fields["change"] == change


def test_a_copy_begins_empty_where_its_rows_could_not_be_replaced() -> None:
    """A history stays if columns are only added, and if another condition or another enum selects its values."""
    replaced = [now for now in (*FOLLOWED, *ALTERED, *REDEFINED) if is_replaceable(BEFORE, now)]
    assert replaced == [
        *FOLLOWED, ALTERED[2], *ALTERED[5:], FILTERED,
    ]  # fmt: skip


def _bank(definition: CopyDefinition) -> IngestedGateway:
    return replace(BANK, tables=(replace(ORDERS, definition=definition, identity="7"), *BANK.tables[1:]))


@pytest.fixture
def storage(tmp_path: Path, swap: pytest.MonkeyPatch) -> LocalStorage:
    """A storage in which the first snapshot of one table is complete; the source answers with position 42."""
    storage = LocalStorage(str(tmp_path))
    swap.setattr("framework.ingest.log_positions.open_gateway", FakeSource().open)
    assert begin_generations([_bank(BEFORE)], storage, ManualClock()) == ()
    generations = GenerationStore(storage)
    generations.begin(ORDERS.target, ORDERS.snapshot_flow, reason="first run")
    offsets = f"{generations.path(ORDERS.target, ORDERS.snapshot_flow, 1)}/offsets"
    storage.write_text(f"{offsets}/0", 'v1\n{"batchWatermarkMs":0}\n{"finished":true}')
    generations.complete(ORDERS.target, ORDERS.snapshot_flow, 1)
    return storage


def _copy(storage: LocalStorage) -> tuple[CopyState | None, tuple[SnapshotGeneration, ...]]:
    state = GatewayStore(storage).read("bank")
    table = None if state is None else state.table("public.orders")
    copy = None if state is None else state.copy(ORDERS.target)
    return copy, () if table is None else table.generations


def test_a_copy_that_follows_applies_the_changes_of_both_versions(storage: LocalStorage) -> None:
    """The later definition is the one that the next comparison begins with."""
    begin_generations([_bank(WITH_B)], storage, ManualClock())
    assert _copy(storage) == (CopyState(target=ORDERS.target, definition=WITH_B, log_versions=(5, 6)), ())


def test_changes_of_a_dropped_column_wait_until_all_rows_are_read_again(storage: LocalStorage) -> None:
    """A later column may have its name; after a snapshot of all rows no change of it decides a row."""
    begin_generations([_bank(DROPPED)], storage, ManualClock())
    copy = _copy(storage)[0]
    assert copy is not None
    later = replace(WITH_C, gone=(2,))
    assert copy.followed_by(later) is None
    Operations(storage=storage).resync(BANK, ORDERS, "a > 1")
    begin_generations([_bank(DROPPED)], storage, ManualClock())
    assert _copy(storage)[0] == copy
    Operations(storage=storage).resync(BANK, ORDERS, None)
    begin_generations([_bank(DROPPED)], storage, ManualClock())
    copy = _copy(storage)[0]
    assert copy is not None
    assert copy.followed_by(later) is not None


def test_another_definition_becomes_durable_with_its_snapshot_only(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """Neither without a request nor when the source refuses it; a filter of the request would leave old rows."""
    before = (CopyState(target=ORDERS.target, definition=BEFORE, log_versions=(5,)), ())
    begin_generations([_bank(FILTERED)], storage, ManualClock())
    assert _copy(storage) == before

    def refuse(*_: object) -> int:
        raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")

    Operations(storage=storage).resync(BANK, ORDERS, "id > 1")
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        assert len(begin_generations([_bank(FILTERED)], storage, ManualClock())) == 1
    assert _copy(storage) == before
    begin_generations([_bank(FILTERED)], storage, ManualClock())
    copy = CopyState(target=ORDERS.target, definition=FILTERED, log_versions=(5,))
    begun = SnapshotGeneration(number=1, log_generation=0, position=42, checkpoint=2)
    assert _copy(storage) == (copy, (begun,))


def test_a_full_refresh_of_a_held_copy_applies_no_change_of_before(storage: LocalStorage) -> None:
    """A column that was made again has the same version in the log; the refresh is continued by the next update."""
    made_again = _changed(number=7)
    assert made_again.log_version == BEFORE.log_version
    for refreshed in ({ORDERS.target}, set()):
        begin_generations([_bank(made_again)], storage, ManualClock(), is_refreshed=refreshed.__contains__)
        copy = CopyState(target=ORDERS.target, definition=made_again, log_versions=(5,), rebuild=2)
        begun = SnapshotGeneration(number=1, log_generation=0, position=42, checkpoint=2, is_rebuild=True)
        assert _copy(storage) == (copy, (begun,))
        assert _is_awaited(storage)


def test_a_full_refresh_of_a_held_copy_begins_no_generation_if_it_is_refused(
    storage: LocalStorage, swap: pytest.MonkeyPatch
) -> None:
    """By its database, for each copy that asks, or because the copy or its gateway is paused; the copy is as before."""

    def refuse(*_: object) -> int:
        asked.append("position")
        raise SourceError("DATABASE_TRANSACTIONS_OPEN", slot="s", seconds=1, pids="7")

    def begin() -> list[QualifiedName]:
        gateway = _bank(_changed(number=7))
        found = begin_generations([gateway], storage, ManualClock(), is_refreshed=lambda _: True)
        return [each.target for each in found]

    asked: list[str] = []
    before = _copy(storage)
    with swap.context() as during:
        during.setattr(FakeSource, "settled_position", refuse)
        Operations(storage=storage).resync(BANK, ORDERS, None)
        assert begin() == [ORDERS.target] * 2
    assert asked == ["position"]
    GatewayStore(storage).ask(Request(), "bank", "public.orders")
    for table in (ORDERS, None):
        Operations(storage=storage).pause(BANK, table)
        assert begin() == []
        Operations(storage=storage).resume(BANK, table)
    assert _copy(storage) == before
    assert begin() == []
    assert len(_copy(storage)[1]) == 1


def _is_awaited(storage: LocalStorage) -> bool:
    copy = _copy(storage)[0]
    assert copy is not None
    return awaits_rebuild(storage, copy)


def test_a_rebuild_is_awaited_until_its_checkpoint_begins(storage: LocalStorage) -> None:
    """An update that ends between the state and the rebuild leaves it to the next one."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    for _ in range(2):
        begin_generations([_bank(_changed(type="BIGINT"))], storage, ManualClock())
        assert _is_awaited(storage)
        assert _copy(storage)[1][0].is_rebuild
    GenerationStore(storage).begin(ORDERS.target, ORDERS.snapshot_flow, reason="rebuild", staged=True)
    assert not _is_awaited(storage)


def test_rows_of_an_earlier_snapshot_are_in_the_copy_before_the_next_one_has_a_batch(storage: LocalStorage) -> None:
    """Another type or key that comes meanwhile holds the table; the snapshot after it begins with an empty copy."""
    Operations(storage=storage).resync(BANK, ORDERS, None)
    begin_generations([_bank(BEFORE)], storage, ManualClock())
    current = GenerationStore(storage).current(ORDERS.target, ORDERS.snapshot_flow)
    assert current is not None
    assert (current.number, has_rows(storage, ORDERS.target)) == (2, True)
    changed = _bank(_changed(type="BIGINT"))
    begin_generations([changed], storage, ManualClock())
    copy = _copy(storage)[0]
    assert copy is not None
    assert copy.definition == BEFORE
    Operations(storage=storage).resync(BANK, ORDERS, None)
    begin_generations([changed], storage, ManualClock())
    assert [each.is_rebuild for each in _copy(storage)[1]] == [False, True]


def test_a_copy_without_rows_applies_no_change_that_was_staged_by_another_definition(
    tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Its snapshot has all rows, also if it was cancelled; the history of a change would have values of both."""
    swap.setattr("framework.ingest.log_positions.open_gateway", FakeSource().open)
    storage = LocalStorage(str(tmp_path))
    begin_generations([_bank(BEFORE)], storage, ManualClock())
    swap.setattr("framework.ingest.generations.has_changes", lambda *_: True)
    Operations(storage=storage).cancel(BANK, ORDERS)
    for _ in range(2):
        begin_generations([_bank(_changed(number=7))], storage, ManualClock())
        assert [(each.number, each.skips_earlier) for each in _copy(storage)[1]] == [(1, True)]
    assert held_flows(storage) == {}
