"""The clock of a sandbox."""

from __future__ import annotations

from framework.foundation.clock import SystemClock


class SandboxClock(SystemClock):
    """The time of a sandbox's updates: the machine's own, until it is set."""
