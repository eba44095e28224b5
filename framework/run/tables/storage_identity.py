"""The identity of a storage, which decides whether a table outside its folders belongs to it.

A dataset with a `path` has its table outside the storage's own folders. After `cp -r` of the storage, or with a second
storage for the same pipeline, two storages would write to that table. So a property of the table names the storage that
writes to it, and each storage has a file with its identity at its root:

    {"format": 1, "id": "9f…", "root": "/data/shop", "former": [{"id": "1c…", "root": "/mnt/old/shop"}]}

A storage found at another root than the one in its file was moved or copied. Its next update gives it a new id. It
takes over the tables with its former id, unless the storage with that id is still at the former root. In that case this
storage is a copy, and owns only the tables below its own root, which were copied as well. Two copies of a storage that
no longer exists have the same former ids; the first one to be updated owns the tables from then on.

The file and the property of each table are written one after the other. A crash in between is safe: the tables then
have a former id, as before.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.engine.files.storage import open_storage
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.table_address import real_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDENTITY_FILE = "storage.json"
_FORMAT = StoredFormat(1)
_MARK = re.compile(r"(.*)#([0-9a-f]{32})?", re.DOTALL)
_MOST_FORMER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerIdentity:
    """The identity of a storage before it was moved or copied."""

    id: str
    root: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageIdentity:
    """The identity of a storage.

    Args:
        id: a unique text; empty if the next update will assign it.
        root: the folder of the storage, with links resolved.
        former: its identities at other roots, oldest first.
    """

    id: str
    root: str
    former: tuple[FormerIdentity, ...] = ()

    @classmethod
    def of(cls, storage: Storage) -> StorageIdentity:
        """Return the present identity of a storage without writing anything.

        Raises:
            OperationError: STORED_FILE_DAMAGED.
        """
        found = _FORMAT.read(storage, storage.path(IDENTITY_FILE), _parse)
        root = real_path(storage.root)
        if found is None:
            return cls(id="", root=root)
        if found.root == root or _is_same_folder(storage, found.root):
            return found
        former = (*found.former, FormerIdentity(id=found.id, root=found.root))
        return cls(id="", root=root, former=former[-_MOST_FORMER:])

    @classmethod
    def settled(cls, storage: Storage) -> StorageIdentity:
        """Return the identity of a storage, and write it if it is new; the caller holds the update lock.

        Raises:
            OperationError: STORED_FILE_DAMAGED.
        """
        present = cls.of(storage)
        if present.id:
            return present
        settled = replace(present, id=uuid.uuid4().hex)
        storage.write_text(storage.path(IDENTITY_FILE), _FORMAT.text(asdict(settled), indent=1))
        return settled

    @property
    def mark(self) -> str:
        """The value of the table property that names the storage."""
        return f"{self.root}#{self.id}"

    def other_storage(self, path: str, mark: str, spark: SparkSession) -> str:
        """Return the other storage that owns a table, as text for messages; empty if this storage owns it.

        A former storage that can't be read counts as still existing.

        Args:
            path: the folder of the table.
            mark: the value of the table's property.
            spark: the session with the Hadoop configuration for the other storage.
        """
        # A table below the root was moved or copied with the storage.
        return self._other(mark, spark, came_along=real_path(path).startswith(f"{self.root}/"))

    def other_reader(self, mark: str, spark: SparkSession) -> str:
        """Return the other storage whose updates read a log, as text for messages; empty if it is this one.

        Args:
            mark: the recorded storage; empty if none is.
            spark: as in `other_storage`.
        """
        return self._other(mark, spark, came_along=False) if mark else ""

    def _other(self, mark: str, spark: SparkSession, *, came_along: bool) -> str:
        root, id_ = (found[1], found[2]) if (found := _MARK.fullmatch(mark)) else (mark, "")
        if not id_:
            return "" if real_path(root) == self.root else root
        if id_ == self.id:
            return ""
        if any(each.id == id_ for each in self.former) and (came_along or not _is_at(root, id_, spark)):
            return ""
        return root if real_path(root) != self.root else f"an earlier one at {root}, or one of another machine"


def _is_at(root: str, id_: str, spark: SparkSession) -> bool:
    """Whether the storage with this id is, or may be, at a root."""
    storage = open_storage(root, spark)
    try:
        found = _FORMAT.read(storage, storage.path(IDENTITY_FILE), _parse)
    except OperationError:
        return True
    return found is not None and found.id == id_


def _is_same_folder(storage: Storage, root: str) -> bool:
    """Whether a root is another path of the same local folder, such as a second mount."""
    try:
        return Path(storage.root).samefile(root)
    except OSError:  # the folder does not exist or is not local
        return False


def _parse(found: dict[str, Any]) -> StorageIdentity:
    former = tuple(FormerIdentity(id=str(each["id"]), root=str(each["root"])) for each in found["former"])
    return StorageIdentity(id=str(found["id"]), root=str(found["root"]), former=former)


def has_link(path: str, root: str) -> bool:
    """Whether a component of a local path below a root is a link."""
    while path.startswith("/") and len(path) > len(root):
        if os.path.islink(path):  # noqa: PTH114 - called for each table of a plan, and a Path costs ten times as much
            return True
        path = os.path.dirname(path)  # noqa: PTH120 - as above
    return False
