"""Temporary patches of methods of PySpark's classes, and of functions of Python's modules.

Classes and modules are global, so blocks that overlap in threads share one replacement. The first block installs it,
and the last one to end removes it. In each call, a replacement decides by the calling context whether it applies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple


class Patch(NamedTuple):
    """An attribute of a class or module, and a function that returns the replacement for its original value."""

    owner: type | ModuleType
    name: str
    replace: Callable[[Any], Any]


class Patches:
    """Patches that are installed and removed together.

    Args:
        patches: returns the patches; called at installation, so that PySpark is not imported earlier.
    """

    def __init__(self, patches: Callable[[], Iterable[Patch]]) -> None:
        self._patches = patches
        self._lock = threading.RLock()
        self._open_blocks = 0
        self._originals: dict[tuple[type | ModuleType, str], Any] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Keep the patches installed inside the block; blocks may nest and overlap in threads."""
        with self._lock:
            if self._open_blocks == 0:
                self._install()
            self._open_blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._open_blocks -= 1
                if self._open_blocks == 0:
                    self._lift()

    def original(self, owner: type | ModuleType, name: str) -> Any:
        """The original attribute, even if another thread has removed the patch."""
        return self._originals.get((owner, name)) or getattr(owner, name)

    def _install(self) -> None:
        for patch in self._patches():
            original = patch.owner.__dict__[patch.name]
            self._originals[patch.owner, patch.name] = original
            setattr(patch.owner, patch.name, patch.replace(original))

    def _lift(self) -> None:
        for (owner, name), original in self._originals.items():
            setattr(owner, name, original)
        self._originals.clear()
