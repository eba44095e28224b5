"""The wish that a running update should stop, seen by everything that waits."""

from __future__ import annotations

import threading


class StopSignal:
    """Set once, from any thread or signal handler; never unset."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask to stop."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether somebody asked to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait that long or until asked to stop; whether it was asked."""
        return self._event.wait(seconds)
