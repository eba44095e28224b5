"""The stop signal of a running update."""

from __future__ import annotations

import threading


class StopSignal:
    """A signal that is set once, from any thread or signal handler, and never unset."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._has_lost_spark = False

    def set(self) -> None:
        """Request the stop."""
        self._event.set()

    def lose_spark(self) -> None:
        """Request the stop because Spark has ended, unless an earlier stop request has itself ended Spark."""
        if not self._event.is_set():
            self._has_lost_spark = True
            self._event.set()

    @property
    def is_asked(self) -> bool:
        """Whether a stop was requested while Spark was running."""
        return self._event.is_set() and not self._has_lost_spark

    @property
    def is_set(self) -> bool:
        """Whether a stop is requested."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for a stop request, at most `seconds`; return whether a stop is requested."""
        return self._event.wait(seconds)
