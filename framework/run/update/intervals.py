"""The minimum times between two refreshes of a view in a continuous update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.run.configuration import trigger_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshIntervals:
    """The minimum times between two refreshes of a view, by default as Lakeflow's `pipelines.trigger.interval`.

    Args:
        tables_seconds: for a view or a snapshot flow whose inputs are all Delta tables.
        unknown_seconds: for a view or flow with any other input, whose changes can't be detected.
    """

    tables_seconds: float = 60.0
    unknown_seconds: float = 600.0


DEFAULT_INTERVALS = RefreshIntervals()

ALIVE_SECONDS = 60.0
"""The longest time between two events of a flow in a continuous update."""


def refresh_intervals(configuration: Mapping[str, str]) -> RefreshIntervals:
    """Return the intervals of a pipeline: `pipelines.trigger.interval` for all views, or the defaults.

    Raises:
        UserError: INVALID_CONFIGURATION for an interval that is not a number and a unit.
    """
    seconds = trigger_interval(configuration)
    return DEFAULT_INTERVALS if seconds is None else RefreshIntervals(tables_seconds=seconds, unknown_seconds=seconds)
