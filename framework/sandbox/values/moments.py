"""Dates, points in time, times of the day and intervals of tests in the types of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal

from pyspark.sql.types import DataType, DateType, DayTimeIntervalType, TimestampNTZType, TimestampType, TimeType

from framework.foundation.time_zones import zone_of
from framework.sandbox.values.misfits import MisfitError, wrong_type

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?")
_MOMENT = re.compile(rf"(?P<date>{_DATE.pattern})(?:[T ](?P<time>{_TIME.pattern})(?P<zone>\s*[A-Za-z+-].*)?)?")
_INTERVAL = re.compile(
    r"(?:INTERVAL\s+)?'?(?P<sign>[+-]?)(?:(?P<days>\d+)\s+)?(?P<time>\d+:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)'?"
    r"(?:\s+DAY\s+TO\s+SECOND)?",
    re.IGNORECASE,
)
_ISO_INTERVAL = re.compile(
    r"(?P<sign>-?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,6})?)S)?)?"
)


def _date(value: object, _: tzinfo) -> date:
    if isinstance(value, datetime):
        if value.tzinfo is None and value.time() == time():
            return value.date()
        raise MisfitError(value, "it is a point in time.")
    if isinstance(value, date):
        return value
    if not isinstance(value, str):
        raise wrong_type(value, "a date")
    return _parsed_date(value)


def _parsed_date(text: str) -> date:
    found = _DATE.fullmatch(text)
    if found is None:
        raise MisfitError(text, "write a date as 2026-01-31.")
    try:
        return date(*map(int, found.groups()))
    except ValueError:
        raise MisfitError(text, "the calendar has no such day.") from None


def _timestamp(value: object, zone: tzinfo) -> datetime:
    found = _moment(value)
    try:
        return found.replace(tzinfo=found.tzinfo or zone).astimezone(UTC)
    except (OverflowError, ValueError):
        raise MisfitError(value, "Python has points in time from year 1 to year 9999 only.") from None


def _timestamp_ntz(value: object, _: tzinfo) -> datetime:
    found = _moment(value)
    if found.tzinfo is not None:
        raise MisfitError(value, "it has a time zone.")
    return found


def _moment(value: object) -> datetime:
    """Return a point in time, with a time zone if the value has one."""
    if isinstance(value, datetime):  # also pandas' own, which is a subclass with nanoseconds
        if getattr(value, "nanosecond", 0):
            raise MisfitError(value, "it has nanoseconds, and Spark has microseconds.")
        return datetime.combine(value.date(), value.time(), value.tzinfo)
    if isinstance(value, date):
        return datetime.combine(value, time())
    if not isinstance(value, str):
        raise wrong_type(value, "a point in time")
    found = _MOMENT.fullmatch(value.strip())
    if found is None:
        raise MisfitError(
            value, "write a point in time as 2026-01-31 12:30:00, with a zone such as Z or Europe/Berlin."
        )
    moment = datetime.combine(_parsed_date(found["date"]), _parsed_time(found["time"] or "00:00"))
    return moment if found["zone"] is None else moment.replace(tzinfo=_zone(found["zone"].strip()))


def _zone(name: str) -> tzinfo:
    try:
        return zone_of(name)
    except (ValueError, OSError, LookupError):  # ZoneInfo raises them for unknown names, folders and invalid characters
        raise MisfitError(name, f"{name!r} is no time zone.") from None


def _time(value: object, _: tzinfo) -> time:
    if isinstance(value, time):
        return value
    if not isinstance(value, str):
        raise wrong_type(value, "a time of the day")
    return _parsed_time(value)


def _parsed_time(text: str) -> time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise MisfitError(text, "write a time as 12:30:00.")
    try:
        return time(int(found[1]), int(found[2]), int(found[3] or 0), int((found[4] or "0").ljust(6, "0")))
    except ValueError:
        raise MisfitError(text, "the day has no such time.") from None


def _interval(value: object, _: tzinfo) -> timedelta:
    if isinstance(value, timedelta):
        return timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)
    if not isinstance(value, str):
        raise wrong_type(value, "an interval")
    iso, plain = _ISO_INTERVAL.fullmatch(value), _INTERVAL.fullmatch(value)
    if plain is not None:
        return _interval_of(plain["sign"], plain["days"], *plain["time"].split(":"))
    if iso is not None and not value.endswith(("P", "T")):
        return _interval_of(iso["sign"], iso["days"], iso["hours"], iso["minutes"], iso["seconds"])
    raise MisfitError(value, "write an interval as 1 02:03:04.5 (days, hours, minutes, seconds) or PT1H30M.")


def _interval_of(sign: str, days: str | None, *time_of_day: str | None) -> timedelta:
    parts = zip((3600, 60, 1), time_of_day, strict=False)  # the seconds may be missing
    seconds = sum((factor * Decimal(part or 0) for factor, part in parts), Decimal())
    found = timedelta(days=int(days or 0), microseconds=int(seconds * 1_000_000))
    return -found if sign == "-" else found


MOMENTS: Mapping[type[DataType], Callable[[object, tzinfo], object]] = {
    DateType: _date,
    TimestampType: _timestamp,
    TimestampNTZType: _timestamp_ntz,
    TimeType: _time,
    DayTimeIntervalType: _interval,
}
"""How a value is converted to each type, with the zone of times without one; a misfit is a `MisfitError`."""
