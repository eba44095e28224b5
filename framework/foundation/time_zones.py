"""Time zones by the names that Spark's session accepts, which are Java's names."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?")
_HOURS = {"EST": -5, "HST": -10, "MST": -7}
# The ids of `java.time.ZoneId.SHORT_IDS`.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


def zone_of(name: str) -> tzinfo:
    """Return the time zone for a name such as `Europe/Berlin`, `+01:00`, `GMT+1`, `PST` or `Z`.

    Examples:
        >>> [str(zone_of(name)) for name in ("Z", "+1", "GMT-01:30", "PST", "Europe/Berlin")]
        ['UTC', 'UTC+01:00', 'UTC-01:30', 'America/Los_Angeles', 'Europe/Berlin']
    """
    if name in {"Z", "UTC", "GMT", "UT"}:
        return UTC
    if name in _HOURS:
        return timezone(timedelta(hours=_HOURS[name]))
    match = _OFFSET.fullmatch(name)
    if match is None:
        return ZoneInfo(_SHORT.get(name, name))
    hours, minutes, seconds = (int(each or 0) for each in match.groups()[1:])
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if match[1] == "-" else offset)


def known_zone(name: str) -> str:
    """Return a name if it is that of a time zone.

    Raises:
        ValueError: it is not; the message is one sentence.
    """
    try:
        zone_of(name)
    except (ValueError, OSError, LookupError) as error:
        msg = f"`{name}` is not a time zone, such as Europe/Oslo or UTC."
        raise ValueError(msg) from error
    return name
