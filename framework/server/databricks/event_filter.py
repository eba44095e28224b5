"""The filter of events in Databricks' words: `level='ERROR' AND timestamp > '2026-11-28T06:00:00Z'`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from framework.record.events import Event, EventLevel, EventType
from framework.server.databricks.shapes import utc
from framework.server.web.faults import invalid

_TERM = re.compile(
    r"\s*(?P<field>\w+)\s*(?:(?P<operator><=|>=|<|>|=)\s*'(?P<value>[^']*)'"
    r"|(?P<in>in)\s*\((?P<values>\s*'[^']*'(?:\s*,\s*'[^']*')*\s*)\))\s*",
    re.IGNORECASE,
)
_AND = re.compile(r"and\b", re.IGNORECASE)
_FIELDS = ("level", "id", "timestamp", "update_id", "event_type")
_Matches = Callable[[Event], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """The conditions of a filter: those that the index of the log has, and all of them as a function."""

    update_id: str | None = None
    type: str | None = None
    matches: _Matches | None = None


def parse_filter(text: str) -> EventFilter:
    """Parse a filter.

    Raises:
        WebFault: 400 with what is supported.
    """
    terms: list[_Matches] = []
    equal: dict[str, str] = {}
    position = 0
    while text.strip():
        found = _TERM.match(text, position)
        if found is None or found["field"].lower() not in _FIELDS:
            raise _unsupported(text[position:])
        terms.append(_term(found, equal))
        position = found.end()
        if position == len(text):
            break
        more = _AND.match(text, position)
        if more is None:
            raise _unsupported(text[position:])
        position = more.end()
    return EventFilter(
        update_id=equal.get("update_id"), type=equal.get("event_type"),
        matches=(lambda event: all(term(event) for term in terms)) if terms else None,
    )  # fmt: skip


def _term(found: re.Match[str], equal: dict[str, str]) -> _Matches:
    field, operator = found["field"].lower(), found["operator"]
    if field == "timestamp":
        if operator is None:
            raise _unsupported(found[0])
        return _time(operator, found["value"])
    values = [found["value"]] if operator else re.findall(r"'([^']*)'", found["values"])
    if operator not in (None, "=") or (operator is None and field != "level"):
        raise _unsupported(found[0])
    if field == "level" and not set(values) <= set(EventLevel):
        raise invalid(f"level is one of {', '.join(EventLevel)}.")
    if field == "event_type" and values[0] not in set(EventType):
        raise invalid(f"event_type is one of {', '.join(EventType)}.")
    if operator:
        equal[field] = values[0]
    return lambda event: _value(event, field) in values


def _time(operator: str, text: str) -> _Matches:
    try:
        wanted = utc(text)
    except ValueError:
        raise invalid(f"The time {text!r} of the filter is not in ISO 8601 with a zone.") from None

    def matches(event: Event) -> bool:
        time = datetime.fromisoformat(event.timestamp)
        by_operator = {"<": time < wanted, "<=": time <= wanted, "=": time == wanted, ">=": time >= wanted}
        return by_operator.get(operator, time > wanted)

    return matches


def _value(event: Event, field: str) -> str:
    values = {"level": event.level.value, "id": event.id, "update_id": event.origin.update_id}
    return values.get(field, event.event_type.value)


def _unsupported(text: str) -> Exception:
    return invalid(
        f"The filter is not supported at {text.strip()!r}. Supported: level='…', level in ('…'), id='…', "
        "update_id='…', event_type='…', and timestamp <, <=, =, >=, > '…', with AND."
    )
