"""Interrupts an action at a failpoint, as a kill there does, or copies what a kill there would leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from framework.foundation.failpoints import arm, arm_all, disarm


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


def copying(action: Callable[[], object], root: Path, copies: Mapping[str, Path]) -> None:
    """Do an action, and copy a folder at the first pass of some failpoints.

    Args:
        action: passes them; nothing else writes to the folder then.
        root: the folder.
        copies: the folder of the copy, by failpoint.
    """

    def copy(folder: Path) -> None:
        shutil.copytree(root, folder)

    arm_all({(failpoint, 1): partial(copy, folder) for failpoint, folder in copies.items()})
    try:
        action()
    finally:
        disarm()
    assert all(folder.exists() for folder in copies.values())


class StoppedHereError(RuntimeError):
    """Ends a flow, an update or a replay at a failpoint, as a kill does."""


def stop() -> None:
    """Raise at a failpoint."""
    raise StoppedHereError
