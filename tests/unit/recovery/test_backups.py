"""Backups of tables: which of them count, what is said of them, and that only complete ones are listed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework.checkpoints.backups import Backup, BackupComparison, BackupStore
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.recovery.backups import BackupSelection, compare_backups, drop_backups, list_backups
from framework.recovery.comparison import Comparison
from framework.recovery.request import ComparisonRequest
from framework.run.update.lock import update_lock
from framework.run.update.refresh.kept_history import KeptHistory
from framework.views.backups import backup_text, backups_json, backups_table
from tests.support.fake_pipeline import EQUAL
from tests.support.rewind_world import ADDED, World

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = QualifiedName.parse("größe", catalog="main", schema="shop")
BACKUP = Backup(
    dataset=NAME, number=1, made_at="2026-03-04T10:00:00.123Z", table_id="t", version=7, auxiliary_version=None,
    rows=1200,
)  # fmt: skip
COMPARED = replace(
    BACKUP,
    put_back=30,
    published_version=9,
    comparison=BackupComparison(
        table_version=9, backup_rows=1200, table_rows=1210, missing=2, added=12, changed=0
    ),
)  # fmt: skip


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


def test_a_backup_is_read_as_it_was_written(storage: LocalStorage) -> None:
    """All fields, also the result of a comparison."""
    store = BackupStore(storage)
    store.write(BACKUP)
    assert store.of(NAME) == (BACKUP,)
    store.write(COMPARED)
    assert store.list_all() == (COMPARED,)


def test_the_rest_of_a_killed_backup_is_none_and_is_deleted_by_the_next(storage: LocalStorage) -> None:
    """A folder without its file is not listed, keeps no number, and is removed; complete backups stay."""
    store = BackupStore(storage)
    store.write(BACKUP)
    storage.write_text(f"{store.table(NAME, 2)}/part-0.parquet", "killed")
    assert [each.backup.number for each in list_backups(storage)] == [1]
    assert store.next_number(NAME) == 2
    assert not storage.exists(store.folder(NAME, 2))
    assert store.of(NAME) == (BACKUP,)


class Copying(KeptHistory):
    """Copies tables that have no rows."""

    def _copy(self, source: TableAddress, version: int, path: str) -> int:  # noqa: ARG002 - of the overridden method
        return 0


def test_a_backup_is_not_taken_for_one_of_a_later_commit_with_its_version(tmp_path: Path) -> None:
    """An older copy of the table was put back, and new batches have the versions of the ones that it lacks."""
    world = World(tmp_path, "t")
    (dataset,) = world.graph.datasets
    history = Copying(pipeline="shop", store=world.store, clock=world.clock)
    world.commit("t", ADDED)
    assert [history.back_up(dataset).number for _ in range(2)] == [1, 1]
    world.versions["t"] -= 1
    world.commit("t", ADDED)
    assert [history.back_up(dataset).number for _ in range(2)] == [2, 2]


def test_drop_deletes_the_chosen_backups_unless_a_rebuild_needs_one(storage: LocalStorage) -> None:
    """A backup of an unfinished full refresh stays; an unknown number names those that there are."""
    store = BackupStore(storage)
    for number in (1, 2):
        store.write(replace(BACKUP, number=number))
    RebuildStore(storage).write(NAME, Rebuild(number=4, backup=2, history_keys=("id",)))
    with pytest.raises(UserError, match="BACKUP_IN_USE"):
        drop_backups(storage, "shop", BackupSelection(dataset=NAME))
    with pytest.raises(UserError, match="Its backups: 1, 2"):
        drop_backups(storage, "shop", BackupSelection(dataset=NAME, number=3))
    assert drop_backups(storage, "shop", BackupSelection(dataset=NAME, number=1)) == (BACKUP,)
    assert RebuildStore(storage).read(NAME) == Rebuild(number=4, backup=2, history_keys=("id",))
    RebuildStore(storage).write(NAME, Rebuild(number=4, backup=2, published=True))
    assert [each.number for each in drop_backups(storage, "shop", BackupSelection(dataset=NAME))] == [2]
    assert list_backups(storage) == ()


def test_a_comparison_is_recorded_only_for_the_backup_that_was_compared(tmp_path: Path) -> None:
    """One that was dropped stays so, a new one with its number stays as it is, and a running update fails nothing."""
    world = World(tmp_path, "größe")
    store, published = BackupStore(world.storage), replace(BACKUP, put_back=30, published_version=9)
    result = replace(EQUAL, first=replace(EQUAL.first, version=9))

    def recorded(meanwhile: Callable[[], object]) -> tuple[tuple[Backup, ...], tuple[Backup, ...]]:
        """What a comparison returns, and which backups there are after it."""
        store.write(published)

        def compare(request: ComparisonRequest) -> Comparison:
            assert (request.first, request.limit) == (str(NAME), 0)
            meanwhile()
            return result

        return compare_backups(world.storage, world.graph, compare), store.list_all()

    def dropped() -> None:
        drop_backups(world.storage, "shop", BackupSelection(dataset=NAME))

    def dropped_while_read() -> None:
        dropped()
        raise OperationError("STORAGE_NOT_WRITABLE", path="größe", problem="gone")

    assert recorded(dropped) == ((), ())
    assert recorded(dropped_while_read) == ((), ())
    assert recorded(lambda: store.write(BACKUP)) == ((), (BACKUP,))
    with ExitStack() as stack:
        running = update_lock(world.storage, "running")
        assert recorded(lambda: stack.enter_context(running)) == ((), (published,))
    (compared,), kept = recorded(lambda: None)
    assert kept == (compared,)
    assert compared.comparison is not None
    assert compared.comparison.table_version == 9


def test_a_backup_that_can_not_be_compared_is_an_error(tmp_path: Path) -> None:
    """Unless the backup is gone: the error of a comparison is the user's to know, and the backup is compared again."""
    world = World(tmp_path, "größe")
    published = replace(BACKUP, published_version=9)
    BackupStore(world.storage).write(published)

    def fails(request: ComparisonRequest) -> Comparison:
        raise OperationError("STORAGE_NOT_WRITABLE", path=request.first, problem="full")

    with pytest.raises(OperationError, match="STORAGE_NOT_WRITABLE"):
        compare_backups(world.storage, world.graph, fails)
    assert BackupStore(world.storage).list_all() == (published,)


def test_what_is_said_of_a_backup(storage: LocalStorage) -> None:
    """Rows before and now, those put back, and the difference; an unfinished refresh says so."""
    assert backup_text(BACKUP) == "main.shop.größe: 1,200 rows before; its full refresh is not finished"
    assert backup_text(COMPARED) == "main.shop.größe: 1,200 rows before, 1,210 now, 30 put back; 2 missing, 12 new"
    equal = replace(COMPARED, comparison=replace(COMPARED.comparison, missing=0, added=0))  # type: ignore[type-var]
    assert backup_text(equal).endswith("; no difference")
    BackupStore(storage).write(COMPARED)
    (stored,) = list_backups(storage)
    cells = [cell.text for cell in backups_table([stored]).rows[0]]
    assert cells[1:6] == ["1", "2026-03-04 10:00:00", "1,200", "30", "2 missing, 12 new"]
    assert backups_json([stored])[0]["dataset"] == "main.shop.größe"
