"""Schedules in Quartz syntax, as in pipelines and jobs of Databricks: when they fire, in a time zone.

Quartz and cron share their look, but not their meaning: Quartz counts the days of the week from Sunday = 1, has a field
of seconds and one of years, and needs a `?` in one of the two fields of days. Each expression is translated to cron's
fields; cronsim finds the times. What it can't express is refused with a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIRST_YEAR, _LAST_YEAR = 1970, 2099
_MINUTE = timedelta(minutes=1)
_SHIFT = timedelta(hours=3)
"""No clock is set forward or back by more."""
_FIELDS = "seconds, minutes, hours, day of the month, month, day of the week and, if wanted, year"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """One field of an expression: its name, its values, and the names of its values."""

    name: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def values(self) -> frozenset[int]:
        return frozenset(range(self.first, self.last + 1))


_SECONDS = _Field(name="seconds", first=0, last=59)
_MINUTES = _Field(name="minutes", first=0, last=59)
_HOURS = _Field(name="hours", first=0, last=23)
_DAYS = _Field(name="day of the month", first=1, last=31)
_MONTH = _Field(name="month", first=1, last=12, names=_MONTHS)
_WEEKDAY = _Field(name="day of the week", first=1, last=7, names=_WEEKDAYS)
_YEARS = _Field(name="year", first=_FIRST_YEAR, last=_LAST_YEAR)


class QuartzError(ValueError):
    """An expression that is not Quartz, or that Sluice can't honour; the message is one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzSchedule:
    """The times of an expression; `parse_quartz` makes it.

    A time that the clock skips fires once, at the first moment after the skipped hour; a time that the clock repeats
    fires once, the first time. An expression with `*` for the hours or minutes counts real hours and minutes instead.

    Args:
        expression: the expression as written.
        cron: its minutes, hours, days, months and days of the week in cron's syntax.
        seconds: its seconds, sorted.
        years: its years; None for all.
    """

    expression: str
    cron: str
    seconds: tuple[int, ...]
    years: frozenset[int] | None = None

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """Return the first time after a moment, in UTC; None if there is none within 50 years."""
        return next(self.times_after(moment, zone), None)

    def times_after(self, moment: datetime, zone: tzinfo) -> Iterator[datetime]:
        """Yield the times after a moment, in UTC."""
        start = moment.astimezone(UTC)
        last = start
        for minute in self._minutes(start, zone):
            for second in self.seconds:
                found = minute + timedelta(seconds=second)
                if found > last:  # where the clock is set back, cronsim may begin in the first of two hours
                    last = found
                    yield found

    def last_until(self, moment: datetime, zone: tzinfo) -> datetime | None:
        """Return the last time up to and including a moment, in UTC; None if there is none within 50 years."""
        until = moment.astimezone(UTC)
        local = until.astimezone(zone)
        is_shifted = (until - _SHIFT).astimezone(zone).utcoffset() != (until + _SHIFT).astimezone(zone).utcoffset()
        begin = local.replace(second=0, microsecond=0).astimezone(UTC) + (_SHIFT if is_shifted else _MINUTE)
        for minute in self._minutes(begin, zone, reverse=True):
            found = [minute + timedelta(seconds=second) for second in self.seconds]
            passed = [each for each in found if each <= until]
            if passed:
                return passed[-1]
        return None

    def _minutes(self, start: datetime, zone: tzinfo, *, reverse: bool = False) -> Iterator[datetime]:
        """Yield the minutes in UTC, from the minute of `start` on; in reverse, those before it."""
        begin = start.astimezone(zone).replace(second=0, microsecond=0)
        first: datetime | None = begin if reverse else (begin.astimezone(UTC) - _MINUTE).astimezone(zone)
        while first is not None:
            simulated, first = CronSim(self.cron, first, reverse=reverse), None
            for minute in simulated:
                if self.years is not None and minute.year not in self.years:
                    first = self._edge_of_next_year(minute, reverse=reverse)
                    break
                yield minute.astimezone(UTC)

    def _edge_of_next_year(self, minute: datetime, *, reverse: bool) -> datetime | None:
        """Return the moment before the next year of the expression, or after the one before; None if there is none."""
        years = self.years or frozenset()
        if reverse:
            earlier = max((year for year in years if year < minute.year), default=None)
            return None if earlier is None else datetime(earlier + 1, 1, 1, tzinfo=minute.tzinfo)
        later = min((year for year in years if year > minute.year), default=None)
        return None if later is None else datetime(later - 1, 12, 31, 23, 59, tzinfo=minute.tzinfo)


def parse_quartz(expression: str) -> QuartzSchedule:
    """Parse an expression.

    Raises:
        QuartzError: it is invalid or never fires, or has a nearest weekday (`15W`) or a day before the last (`L-3`).

    Examples:
        >>> parse_quartz("0 30 2 ? * MON-FRI").cron
        '30 2 * * 1,2,3,4,5'
        >>> parse_quartz("0 15 10 ? * 6#3").cron
        '15 10 * * 5#3'
    """
    parts = expression.upper().split()
    if len(parts) not in {6, 7}:
        hint = f" Cron's `{expression}` is `0 {_as_quartz(parts)}` in Quartz." if len(parts) == 5 else ""
        msg = f"It has {len(parts)} fields instead of 6 or 7: {_FIELDS}.{hint}"
        raise QuartzError(msg)
    days, weekdays = parts[3], parts[5]
    if (days == "?") == (weekdays == "?"):
        msg = "One of the day of the month and the day of the week must be `?`, and not both."
        raise QuartzError(msg)
    cron = (
        _cron(parts[1], _MINUTES),
        _cron(parts[2], _HOURS),
        "*" if days == "?" else _days(days),
        _cron(parts[4], _MONTH),
        "*" if weekdays == "?" else _weekdays(weekdays),
    )
    years = _values(parts[6], _YEARS) if len(parts) == 7 else _YEARS.values
    found = QuartzSchedule(
        expression=expression,
        cron=" ".join(cron),
        seconds=tuple(sorted(_values(parts[0], _SECONDS))),
        years=None if years == _YEARS.values else years,
    )
    _check_fires(found)
    return found


def _check_fires(found: QuartzSchedule) -> None:
    years = found.years or _YEARS.values
    start = datetime(min(years), 1, 1, tzinfo=UTC)
    try:
        fires = found.next_after(start - timedelta(seconds=1), UTC) is not None
    except CronSimError:
        fires = False
    if not fires:
        msg = "It never fires: no month has such a day."
        raise QuartzError(msg)


def _as_quartz(parts: Sequence[str]) -> str:
    """Return the fields of a cron expression as those of Quartz behind the seconds, if only their `?` is missing."""
    minutes, hours, days, months, weekdays = parts
    if weekdays == "*":
        return f"{minutes} {hours} {days} {months} ?"
    names = ",".join(
        _WEEKDAYS[int(each) % 7] if each.isdecimal() and len(each) == 1 else each for each in weekdays.split(",")
    )
    return f"{minutes} {hours} ? {months} {names}"


def _days(text: str) -> str:
    if text == "LW":
        return text
    if "W" in text or text.startswith("L-"):
        msg = f"`{text}` is not supported: neither the weekday nearest to a day, nor a day counted from the last one."
        raise QuartzError(msg)
    return "L" if text == "L" else _cron(text, _DAYS)


def _weekdays(text: str) -> str:
    if text == "L":  # the last day of the week
        return "6"
    if "#" in text:
        day, _, number = text.partition("#")
        if not number.isdecimal() or not 1 <= int(number) <= 5:
            msg = f"`{text}`: behind `#` is a number from 1 to 5; a list can't have one."
            raise QuartzError(msg)
        return f"{_one(day, _WEEKDAY) - 1}#{int(number)}"
    if text.endswith("L") and "," not in text:
        return f"{_one(text[:-1], _WEEKDAY) - 1}L"
    found = _values(text, _WEEKDAY)
    return "*" if found == _WEEKDAY.values else ",".join(str(day - 1) for day in sorted(found))


def _cron(text: str, field: _Field) -> str:
    found = _values(text, field)
    return "*" if found == field.values else ",".join(map(str, sorted(found)))


def _values(text: str, field: _Field) -> frozenset[int]:
    """Return the values of a field: a list of values, ranges and steps."""
    return frozenset(value for part in text.split(",") for value in _part(part, field))


def _part(text: str, field: _Field) -> Iterator[int]:
    span, slash, step_text = text.partition("/")
    step = _step(step_text, field) if slash else 1
    if span in {"*", ""} and (span or slash):
        first, last = field.first, field.last
    elif "-" in span:
        begin, _, end = span.partition("-")
        first, last = _one(begin, field), _one(end, field)
    else:
        first = _one(span, field)
        last = field.last if slash else first
    if last < first:  # such as FRI-MON, or 22-2 hours
        if field is _YEARS:
            msg = f"`{text}`: the first year of a range is not after its last."
            raise QuartzError(msg)
        last += field.last - field.first + 1
    count = field.last - field.first + 1
    return (field.first + (value - field.first) % count for value in range(first, last + 1, step))


def _step(text: str, field: _Field) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= field.last - field.first + 1:
        msg = f"`/{text}` is not a step of the {field.name}."
        raise QuartzError(msg)
    return int(text)


def _one(text: str, field: _Field) -> int:
    if text in field.names:
        return field.names.index(text) + 1
    if not (text.isascii() and text.isdecimal()) or not field.first <= int(text) <= field.last:
        names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
        msg = f"`{text}` is not a value of the {field.name}: it has {field.first} to {field.last}{names}."
        raise QuartzError(msg)
    return int(text)
