"""A way out of a fault of one flow, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from framework.recovery.doctor.actions import Action, command_of
from framework.recovery.doctor.amounts import FREE, Cost
from framework.recovery.doctor.diagnosis import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """One way out.

    Args:
        way: its kind.
        text: what it does, as a sentence.
        action: what `--apply` does; None if only a person can do it.
        cost: what it does to rows.
    """

    way: Way
    text: str
    action: Action | None = None
    cost: Cost = FREE

    @property
    def command(self) -> str | None:
        """The command that does the same; None if only a person can do it."""
        return None if self.action is None else command_of(self.action)
