"""The mark of a rebuild: a full refresh that is filled aside and not yet published, or not yet tidied up."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage
from framework.foundation.stored_json import read_stored_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """One rebuild of a dataset's table.

    Args:
        number: from 1, ascending; its copy lies in a folder of this number.
        published: the table's rows were replaced; what is left is to promote its generations.
        finished: nothing is left to do; kept so that numbers ascend.
    """

    number: int
    published: bool = False
    finished: bool = False

    @property
    def generation_mark(self) -> str:
        """What the fingerprint of a generation says that belongs to this rebuild."""
        return f"rebuild {self.number}"


class RebuildStore:
    """Reads and writes the marks, one small file a dataset, each change one atomic replacement."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, dataset: QualifiedName) -> Rebuild | None:
        """The dataset's last rebuild; None when it never had one."""
        return read_stored_json(self._storage, self._path(dataset), lambda mark: Rebuild(**mark))

    def write(self, dataset: QualifiedName, rebuild: Rebuild) -> None:
        """Replace the mark."""
        self._storage.write_text(self._path(dataset), json.dumps(asdict(rebuild)))

    def _path(self, dataset: QualifiedName) -> str:
        return self._storage.path("rebuilds", str(dataset), "rebuild.json")
