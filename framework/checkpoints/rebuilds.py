"""The stored state of rebuilds: full refreshes that are computed in a copy of the table before they are published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import Generation, GenerationState, Manifest
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)

REBUILD_MARK = "rebuild "
"""The prefix of the fingerprint of a rebuild's generations; they keep it after publication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """One rebuild of a dataset's table.

    Args:
        number: from 1, ascending; the name of the folder of its copy.
        frozen: its rows are complete, and no flow writes to its copy any more. The table may have the rows already.
        published: the table's rows are replaced; its generations are still to be promoted.
        finished: nothing is left to do. The state is kept so that numbers ascend.
        backup: the number of the table's backup whose rows are put back into the copy; None to put back none.
        history_keys: the columns that identify a row to put back: the keys of AUTO CDC, or `*` or () for all columns.
        restored: the rows are put back into the copy.
        identifier: names the last publication in the table's transactions; "" if there was none. Each publication gets
            a new one, because a copy of the storage may also publish a rebuild with this number.
    """

    number: int
    frozen: bool = False
    published: bool = False
    finished: bool = False
    backup: int | None = None
    history_keys: tuple[str, ...] = ()
    restored: bool = False
    identifier: str = ""

    @property
    def is_building(self) -> bool:
        """Whether flows still write to its copy, and the table and its current generations are still unchanged."""
        return not (self.frozen or self.published or self.finished)

    @staticmethod
    def application(pipeline: str, dataset: QualifiedName, identifier: str = "") -> str:
        """Return the `txnAppId` of the rebuild's publication."""
        return f"sluice:{pipeline}:rebuild:{dataset}" + (f":{identifier}" if identifier else "")

    @property
    def generation_mark(self) -> str:
        """The fingerprint of the generations of this rebuild."""
        return f"{REBUILD_MARK}{self.number}"


class RebuildStore:
    """Reads and writes the state of rebuilds: one small file per dataset, replaced atomically."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, dataset: QualifiedName) -> Rebuild | None:
        """Return the dataset's last rebuild; None if it never had one.

        A stored rebuild that is building, although a generation of it or of a later rebuild was made current, is an
        outdated copy of the file. It counts as finished; otherwise it would continue in its copy with rows of flows
        that have other checkpoints by now.
        """
        rebuild = _FORMAT.read(self._storage, self._path(dataset), _rebuild)
        if rebuild is None or not rebuild.is_building:
            return rebuild
        is_older = rebuild.number <= _published(GenerationStore(self._storage).list_of(dataset))
        return replace(rebuild, finished=True) if is_older else rebuild

    def write(self, dataset: QualifiedName, rebuild: Rebuild) -> None:
        """Replace the stored rebuild."""
        self._storage.write_text(self._path(dataset), _FORMAT.text(asdict(rebuild)))

    def give_up(self, dataset: QualifiedName) -> int | None:
        """Mark an unfinished rebuild as finished before other rows replace the table, and return its number.

        Otherwise its generations would later continue in a table that has its transaction, but not its rows.
        """
        rebuild = self.read(dataset)
        if rebuild is None or rebuild.finished:
            return None
        self.write(dataset, replace(rebuild, finished=True))
        return rebuild.number

    def check_finished(self, dataset: QualifiedName) -> None:
        """Check that a dataset has no unfinished rebuild, whose publication would undo changes made meanwhile.

        Raises:
            UserError: FULL_REFRESH_UNFINISHED.
        """
        rebuild = self.read(dataset)
        if rebuild is not None and not rebuild.finished:
            raise UserError("FULL_REFRESH_UNFINISHED", dataset=dataset)

    def _path(self, dataset: QualifiedName) -> str:
        return self._storage.path("rebuilds", str(dataset), "rebuild.json")


def _rebuild(mark: dict[str, Any]) -> Rebuild:
    return Rebuild(**{**mark, "history_keys": tuple(mark["history_keys"])})


def last_refresh(manifest: Manifest) -> Generation | None:
    """Return the generation of the last published full refresh, which read everything again; None if there is none.

    A full refresh that a rewind has undone does not count, because its rows have left the table.
    """
    published = [
        each
        for each in manifest.generations
        if each.fingerprint.startswith(REBUILD_MARK)
        and each.state is not GenerationState.BUILDING
        and not manifest.is_undone(each.number)
    ]
    return max(published, key=lambda each: each.number, default=None)


def last_number(rebuild: Rebuild | None, manifests: Iterable[Manifest]) -> int:
    """Return the highest number ever assigned to a rebuild of a dataset; 0 for none.

    Args:
        rebuild: its last rebuild.
        manifests: the manifests of its flows, which have the numbers if the rebuild's file is missing.
    """
    return max(0 if rebuild is None else rebuild.number, _published(manifests))


def _published(manifests: Iterable[Manifest]) -> int:
    """Return the highest number of a rebuild with a generation that was ever made current; 0 for none."""
    numbers = (
        int(each.fingerprint.removeprefix(REBUILD_MARK))
        for manifest in manifests
        for each in manifest.generations
        if each.fingerprint.startswith(REBUILD_MARK) and each.state is not GenerationState.BUILDING
    )
    return max(numbers, default=0)
