"""Backups of tables: which of them count, what is said of them, and that only complete ones are listed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.backups import Backup, BackupComparison, BackupStore
from framework.checkpoints.rebuilds import Rebuild, RebuildStore
from framework.foundation.errors import UserError
from framework.foundation.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.recovery.backups import BackupSelection, drop_backups, list_backups
from framework.run.update.kept_history import KeptHistory
from framework.views.backups import backup_text, backups_json, backups_table
from tests.support.rewind_world import ADDED, World

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
