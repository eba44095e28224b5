"""Calls the code of those who listen to events, which must never harm the update they listen to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Told = TypeVar("Told")


def failure_of(listener: Callable[[Told], object], told: Told) -> Exception | SystemExit | None:
    """What a listener raised when it was told something; None when it took it."""
    try:
        listener(told)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code: its caller records the failure and goes on
        return error
    return None
