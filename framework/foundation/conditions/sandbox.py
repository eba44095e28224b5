"""Conditions of sandboxes, in tests and notebooks."""

from __future__ import annotations

from framework.foundation.conditions.entry import Condition

CONDITIONS: dict[str, Condition] = {
    "TEST_TIME_INVALID": Condition(
        "The clock cannot be set to {time!r}.", "Write the time in ISO 8601, such as 2026-01-01T12:00."
    ),
}
