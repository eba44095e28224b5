"""The stored state of backups: table copies made before a full refresh and kept until a user drops them.

The backup's file is written after its tables, so a backup with a file is complete. A folder without the file is left
from an interrupted backup or drop; the next backup of the table deletes it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from framework.checkpoints.generations import folder_name
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)
_ROOT = "backups"
_FILE = "backup.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupComparison:
    """How the refreshed table differs from its backup.

    Args:
        table_version: the version of the table that was compared.
        backup_rows: the number of rows of the backup; `table_rows` of the table.
        missing: keys of the backup that the table lacks; rows in the case of an append table.
        added: keys of the table that the backup lacks.
        changed: keys with other values.
    """

    table_version: int
    backup_rows: int
    table_rows: int
    missing: int
    added: int
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy of a dataset's table, and of its AUTO CDC auxiliary table, at one version.

    Args:
        dataset: the dataset.
        number: from 1, ascending for each dataset.
        made_at: when it was complete, ISO 8601 in UTC.
        table_id: Delta's id of the table; None if it was unknown.
        version: the copied version of the table.
        auxiliary_version: the copied version of the auxiliary table; None if there was none.
        rows: the number of rows in the copy of the table.
        put_back: the number of rows that were put back into the refreshed table; None before that.
        published_version: the version of the table with the refreshed rows; None before its publication.
        comparison: the comparison with the refreshed table; None before it is made.
    """

    dataset: QualifiedName
    number: int
    made_at: str
    table_id: str | None
    version: int
    auxiliary_version: int | None
    rows: int
    put_back: int | None = None
    published_version: int | None = None
    comparison: BackupComparison | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBackup:
    """A backup, and the folder with its copy of the table."""

    backup: Backup
    path: str


class BackupStore:
    """Reads, writes and deletes backups; the state of each is one small file, replaced atomically."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def of(self, dataset: QualifiedName) -> tuple[Backup, ...]:
        """Return the complete backups of a dataset, oldest first."""
        folder = self._storage.path(_ROOT, folder_name(dataset))
        numbers = sorted(int(name) for name in self._storage.list_names(folder) if name.isdecimal())
        found = (self.read(dataset, number) for number in numbers)
        return tuple(backup for backup in found if backup is not None)

    def list_all(self) -> tuple[Backup, ...]:
        """Return the complete backups of all datasets, also undeclared ones, sorted by dataset and number."""
        root = self._storage.path(_ROOT)
        found = []
        for dataset in self._storage.list_names(root):
            for number in self._storage.list_names(f"{root}/{dataset}"):
                backup = _FORMAT.read(self._storage, f"{root}/{dataset}/{number}/{_FILE}", _backup)
                if backup is not None:
                    found.append(backup)
        return tuple(sorted(found, key=lambda backup: (backup.dataset, backup.number)))

    def read(self, dataset: QualifiedName, number: int) -> Backup | None:
        """Return a complete backup; None if there is none with this number.

        Raises:
            OperationError: STORED_FILE_DAMAGED.
        """
        return _FORMAT.read(self._storage, f"{self.folder(dataset, number)}/{_FILE}", _backup)

    def next_number(self, dataset: QualifiedName) -> int:
        """Return a number that no complete backup of a dataset has, and delete the remains of incomplete backups."""
        folder = self._storage.path(_ROOT, folder_name(dataset))
        complete = {backup.number for backup in self.of(dataset)}
        for name in self._storage.list_names(folder):
            if not (name.isdecimal() and int(name) in complete):
                self._storage.delete_tree(f"{folder}/{name}")
        return max(complete, default=0) + 1

    def write(self, backup: Backup) -> None:
        """Write or replace the state of a backup."""
        text = _FORMAT.text(asdict(backup), indent=1)
        self._storage.write_text(f"{self.folder(backup.dataset, backup.number)}/{_FILE}", text + "\n")

    def delete(self, backup: Backup) -> None:
        """Delete a backup, its file first, so that after a crash in between its remains don't count as a backup."""
        folder = self.folder(backup.dataset, backup.number)
        self._storage.delete_tree(f"{folder}/{_FILE}")
        self._storage.delete_tree(folder)

    def folder(self, dataset: QualifiedName, number: int) -> str:
        """Return the folder of a backup."""
        return self._storage.path(_ROOT, folder_name(dataset), str(number))

    def table(self, dataset: QualifiedName, number: int) -> str:
        """Return the folder of the copied table."""
        return f"{self.folder(dataset, number)}/table"

    def auxiliary(self, dataset: QualifiedName, number: int) -> str:
        """Return the folder of the copied auxiliary table."""
        return f"{self.folder(dataset, number)}/companion"


def _backup(found: dict[str, Any]) -> Backup:
    comparison = found.pop("comparison")
    return Backup(
        **{**found, "dataset": QualifiedName(**found["dataset"])},
        comparison=None if comparison is None else BackupComparison(**comparison),
    )
