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
        text: its effect, as a sentence.
        action: the action of `--apply`; None if only a person can do it.
        cost: its effect on rows.
    """

    way: Way
    text: str
    action: Action | None = None
    cost: Cost = FREE

    @property
    def command(self) -> str | None:
        """The equivalent command; None if only a person can do it."""
        return None if self.action is None else command_of(self.action)
