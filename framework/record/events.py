"""Event values with the field names of the Databricks event log, and their form as JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from framework.record.event_shapes import checked_details

EVENT_SCHEMA = (
    "id STRING, "
    "sequence STRUCT<data_plane_id: STRUCT<instance: STRING, seq_no: BIGINT>>, "
    "origin STRUCT<pipeline_id: STRING, pipeline_name: STRING, update_id: STRING, "
    "dataset_name: STRING, flow_name: STRING, host: STRING>, "
    "timestamp TIMESTAMP, message STRING, level STRING, maturity_level STRING, "
    "error STRUCT<fatal: BOOLEAN, exceptions: ARRAY<STRUCT<class_name: STRING, message: STRING>>>, "
    "details STRING, event_type STRING"
)
"""The event log's columns for `spark.read.schema(...).json(...)`; `details` is a JSON text."""

EVENT_READ_OPTIONS: Mapping[str, str] = {"mode": "DROPMALFORMED", "pathGlobFilter": "*.jsonl"}
"""Reader options for this schema: they drop a line that a kill cut off."""


_MOST_EVENTS = 2**63
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|\+00:00)", re.ASCII)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_HUGE = re.compile(r"\d[eE]\+?\d{3}")


class EventType(StrEnum):
    """The type of an event; `details` has one key of this name."""

    CREATE_UPDATE = "create_update"
    USER_ACTION = "user_action"
    UPDATE_PROGRESS = "update_progress"
    FLOW_PROGRESS = "flow_progress"
    FLOW_DEFINITION = "flow_definition"
    DATASET_DEFINITION = "dataset_definition"
    SINK_DEFINITION = "sink_definition"
    PLANNING_INFORMATION = "planning_information"
    OPERATION_PROGRESS = "operation_progress"
    STREAM_PROGRESS = "stream_progress"
    HOOK_PROGRESS = "hook_progress"


class EventLevel(StrEnum):
    """The severity of an event, in ascending order."""

    METRICS = "METRICS"
    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"

    @property
    def rank(self) -> int:
        """The position of the level; 0 is the lowest."""
        return list(EventLevel).index(self)


class MaturityLevel(StrEnum):
    """The maturity of an event type, which says whether the shape of its details may still change."""

    STABLE = "STABLE"
    EVOLVING = "EVOLVING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of an event; fields that do not apply are None."""

    pipeline_id: str
    pipeline_name: str
    update_id: str
    dataset_name: str | None = None
    flow_name: str | None = None
    host: str | None = None

    @classmethod
    def of(cls, pipeline: str, root: str, update_id: str) -> Origin:
        """Return the origin of a pipeline's events; the storage root distinguishes pipelines of the same name."""
        return cls(pipeline_id=f"{pipeline}@{root}", pipeline_name=pipeline, update_id=update_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionSummary:
    """The class and text of one exception."""

    class_name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventError:
    """An error and its causes, outermost first; a `fatal` error ended the flow or the update."""

    fatal: bool
    exceptions: tuple[ExceptionSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDraft:
    """An event before it is recorded; the log adds the id, time and origin."""

    event_type: EventType
    message: str
    level: EventLevel = EventLevel.INFO
    maturity_level: MaturityLevel = MaturityLevel.STABLE
    dataset: str | None = None
    flow: str | None = None
    error: EventError | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `sequence` counts an update's events from 1; `timestamp` is ISO 8601 in UTC."""

    id: str
    sequence: int
    origin: Origin
    timestamp: str
    message: str
    level: EventLevel
    maturity_level: MaturityLevel
    error: EventError | None
    details: Mapping[str, Any]
    event_type: EventType

    def to_row(self) -> dict[str, Any]:
        """Return the event as a dictionary of plain values, as hooks receive it and the log writes it."""
        return {
            "id": self.id,
            "sequence": {"data_plane_id": {"instance": self.origin.update_id, "seq_no": self.sequence}},
            "origin": {key: value for key, value in asdict(self.origin).items() if value is not None},
            "timestamp": self.timestamp,
            "message": self.message,
            "level": str(self.level),
            "maturity_level": str(self.maturity_level),
            "error": None if self.error is None else _error_row(self.error),
            "details": dict(self.details),
            "event_type": str(self.event_type),
        }

    def to_line(self) -> str:
        """Return the event as one line of JSON with a newline."""
        return json.dumps(self.to_row(), ensure_ascii=False, separators=(",", ":"), default=str) + "\n"


def parse_event(line: str) -> Event | None:
    """Parse a line of `to_line`; None for any other text, such as a truncated line, or one of another program.

    A number that JSON does not have, such as NaN, becomes None, and half of a surrogate pair a question mark: readers
    write the event again, as JSON and as UTF-8.
    """
    try:
        row = _parse_json(line)
        error, event_type = row["error"], EventType(row["event_type"])
        return Event(
            id=_text(row["id"]),
            sequence=_sequence(row["sequence"]["data_plane_id"]["seq_no"]),
            origin=_origin(row["origin"]),
            timestamp=_time(row["timestamp"]),
            message=_text(row["message"]),
            level=EventLevel(row["level"]),
            maturity_level=MaturityLevel(row["maturity_level"]),
            error=None if error is None else _parse_error(error),
            details=checked_details(event_type.value, row["details"]),
            event_type=event_type,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def summarize_error(error: BaseException, *, fatal: bool) -> EventError:
    """Return an exception and its causes in the form of events, ten at most."""
    found: list[ExceptionSummary] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < 10:
        found.append(ExceptionSummary(class_name=type(cause).__name__, message=str(cause)))
        cause = cause.__cause__
    return EventError(fatal=fatal, exceptions=tuple(found))


def _error_row(error: EventError) -> dict[str, Any]:
    return {"fatal": error.fatal, "exceptions": [asdict(each) for each in error.exceptions]}


def _parse_json(line: str) -> Any:
    row = json.loads(line, parse_constant=_no_number)
    if "\\u" in line and _SURROGATE.search(line):
        row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    if _HUGE.search(line):
        row = json.loads(json.dumps(row), parse_constant=_no_number)  # a float that overflows is Infinity
    return row


def _no_number(text: str) -> None:
    del text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _sequence(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST_EVENTS:
        raise TypeError
    return value


def _time(value: object) -> str:
    """Return a time as events have it: of one length and in UTC, so that texts have the order of times."""
    text = _text(value)
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    datetime.fromisoformat(text)
    return text


def _origin(row: Mapping[str, Any]) -> Origin:
    for name, value in row.items():
        if value is None and name in {"dataset_name", "flow_name", "host"}:
            continue
        _text(value)
    return Origin(**row)


def _parse_error(row: Mapping[str, Any]) -> EventError:
    exceptions = tuple(
        ExceptionSummary(class_name=_text(each["class_name"]), message=_text(each["message"]))
        for each in row["exceptions"]
    )
    return EventError(fatal=bool(row["fatal"]), exceptions=exceptions)
