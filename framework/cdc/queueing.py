"""Writers of one table wait for each other within a process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from framework.foundation.addresses import TableAddress

_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
_registry = threading.Lock()


@contextmanager
def queued(table: TableAddress) -> Iterator[None]:
    """Hold the table for the length of the block; another thread's block for it waits.

    Two merges into one table at a time would only make Delta throw one of them away.
    """
    with _registry:
        lock = _locks[table.sql]
    with lock:
        yield
