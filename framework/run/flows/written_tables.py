"""The identity of the tables that an update's flows write to: others may put another table in the place of one."""

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
    """Delta's ids of tables, as an update found them first.

    A retry of a flow must not take a table that was put in place after the first try for the flow's own.
    """

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def id_of(self, storage: Storage, path: str) -> str | None:
        """Return the id that the table at a path had first; None if there is no table, or if its id is unknown."""
        known = self._ids.get(path) or found_id(storage, path)
        return None if known is None else self._ids.setdefault(path, known)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[None]:
        """Let the block of one flow at a time read the table at a path and write to it."""
        with self._locks[path]:
            yield


def found_id(storage: Storage, path: str) -> str | None:
    """Return the id of the table that is at a path now; None if there is none, or if its id is unknown."""
    tip = read_tip(storage, path)
    return None if tip is None else tip.table_id
