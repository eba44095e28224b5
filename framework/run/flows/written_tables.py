"""The identity of the tables that an update's flows write to, which detects tables replaced by other users."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.sources.delta.log import read_tip

if TYPE_CHECKING:
    from framework.foundation.files.storage_port import Storage


class WrittenTables:
    """The Delta ids of tables as an update first found them.

    A retry of a flow must not mistake a table that replaced the original after the first attempt for its own.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def id_of(self, storage: Storage, path: str) -> str | None:
        """Return the first id of the table at a path; None if there is no table or its id is unknown."""
        known = self._ids.get(path) or found_id(storage, path)
        return None if known is None else self._ids.setdefault(path, known)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[None]:
        """Let only one flow at a time read and write the table at a path in the block."""
        with self._locks[path]:
            yield


def found_id(storage: Storage, path: str) -> str | None:
    """Return the present id of the table at a path; None if there is no table or its id is unknown."""
    tip = read_tip(storage, path)
    return None if tip is None else tip.table_id
