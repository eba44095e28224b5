"""The stop signal of a running update."""

from __future__ import annotations

import threading


class StopSignal:
    """Set once, from any thread or signal handler; never unset."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Request the stop."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether a stop is requested."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a stop request, at most `seconds`; return whether a stop is requested."""
        return self._event.wait(seconds)
