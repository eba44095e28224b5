"""Validated values of a pipeline's `configuration`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from framework.foundation.errors import UserError

TRIGGER_INTERVAL = "pipelines.trigger.interval"
PROGRESS_INTERVAL = "pipelines.ingestion.progressIntervalInSeconds"
DEFAULT_PROGRESS_SECONDS = 300
_UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_INTERVAL = re.compile(rf"(\d+)\s*({'|'.join(_UNITS)})s?", re.IGNORECASE)


def whole_number(
    configuration: Mapping[str, str], key: str, *, default: int, least: int, most: int | None = None
) -> int:
    """Return a whole number of the configuration, or the default if it is not set.

    Raises:
        UserError: INVALID_CONFIGURATION if the value is not a whole number, is below `least` or above `most`.
    """
    text = configuration.get(key, str(default)).strip()
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        expected = f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}"
        raise UserError("INVALID_CONFIGURATION", key=key, value=text, expected=expected)
    return int(text)


def progress_seconds(configuration: Mapping[str, str]) -> int:
    """Return the time between two reports about the tables of a gateway, in seconds.

    Raises:
        UserError: INVALID_CONFIGURATION for a value that is not a whole number from 30 to 3600.
    """
    return whole_number(configuration, PROGRESS_INTERVAL, default=DEFAULT_PROGRESS_SECONDS, least=30, most=3600)


def trigger_interval(configuration: Mapping[str, str]) -> float | None:
    """Return `pipelines.trigger.interval`, such as "10 seconds", in seconds; None if it is not set.

    Raises:
        UserError: INVALID_CONFIGURATION for a text other than a whole number and a unit.
    """
    text = configuration.get(TRIGGER_INTERVAL)
    if text is None:
        return None
    match = _INTERVAL.fullmatch(text.strip())
    if match is None:
        expected = 'an integer and a unit from milliseconds to days, such as "10 seconds"'
        raise UserError("INVALID_CONFIGURATION", key=TRIGGER_INTERVAL, value=text, expected=expected)
    return int(match.group(1)) * _UNITS[match.group(2).lower()]
