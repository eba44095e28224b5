"""Conditions of storage, checkpoints, the update lock and the event log."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {

}
