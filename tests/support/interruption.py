"""Interrupts an action at a failpoint, as a kill there does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.foundation.failpoints import arm, disarm


def interrupt(action: Callable[[], object], failpoint: str, nth: int = 1) -> None:
    """Interrupt an action at a failpoint; nothing in it handles the error, so that it is as a kill there."""

    def fail() -> None:
        raise KeyboardInterrupt

    arm(failpoint, nth=nth, action=fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            action()
    finally:
        disarm()


class StoppedHereError(RuntimeError):
    """Ends a flow, an update or a replay at a failpoint, as a kill does."""


def stop() -> None:
    """Raise at a failpoint."""
    raise StoppedHereError
