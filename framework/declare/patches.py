"""Methods of PySpark's classes, replaced for as long as a block of ours is open.

The classes are global, so blocks that overlap in threads share one replacement: the first one in
installs it, the last one out lifts it. What a replacement does is up to the context that calls it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Patch(NamedTuple):
    """An attribute of a class, and what makes its replacement from what stands there now."""

    owner: type
    name: str
    replace: Callable[[Any], Any]


class Patches:
    """Patches that are installed and lifted together.

    Args:
        patches: gives them when they are first needed, so that PySpark need not be imported before.
    """

    def __init__(self, patches: Callable[[], Iterable[Patch]]) -> None:
        self._patches = patches
        self._lock = threading.RLock()
        self._open_blocks = 0
        self._originals: dict[tuple[type, str], Any] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Keep the patches in place inside the block; blocks may nest and overlap in threads."""
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

    def original(self, owner: type, name: str) -> Any:
        """What stood there before; the attribute itself when the patch was lifted in between."""
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
