"""The moment of a rewind: a time with its zone, or the end of an update."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from framework.foundation.clock import Clock
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.nearest import nearest_hint
from framework.record.log import EVENTS_FOLDER
from framework.record.reader import read_events

_END_STATES = ("COMPLETED", "FAILED", "CANCELED")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointInTime:
    """A moment in the past.

    Args:
        request: the text as the user wrote it.
        text: the moment in words.
        time_ms: the moment in epoch milliseconds.
        begun_ms: the start of the update, if the moment is its end; None for a time.
    """

    request: str
    text: str
    time_ms: int
    begun_ms: int | None = None


def parse_point_in_time(text: str, storage: Storage, clock: Clock) -> PointInTime:
    """Parse the moment in a user's text.

    Args:
        text: a time in ISO 8601 with a zone, or the id of an update.
        storage: has the event log.
        clock: the present time.

    Raises:
        UserError: REWIND_TIME_INVALID, REWIND_TIME_WITHOUT_ZONE, REWIND_TIME_IN_FUTURE, REWIND_UPDATE_NOT_FOUND,
            REWIND_UPDATE_NOT_ENDED.
    """
    wanted = text.strip()
    if _is_update(wanted):
        update = wanted.lower()
        begun_ms, end_ms = _times_of(update, storage)
        ended = f"the end of update {update}, {time_text(end_ms)}"
        return PointInTime(request=wanted, text=ended, time_ms=end_ms, begun_ms=begun_ms)
    try:
        found = datetime.fromisoformat(wanted)
    except ValueError:
        raise UserError("REWIND_TIME_INVALID", time=text) from None
    if found.tzinfo is None:
        raise UserError("REWIND_TIME_WITHOUT_ZONE", time=text, example=found.isoformat())
    if found > clock.now():
        raise UserError("REWIND_TIME_IN_FUTURE", time=text)
    time_ms = int(found.timestamp() * 1000)
    return PointInTime(request=wanted, text=time_text(time_ms), time_ms=time_ms)


def time_text(time_ms: int) -> str:
    """Return a time in UTC for texts, in a form that `--to` accepts."""
    return (
        datetime.fromtimestamp(time_ms / 1000, tz=UTC)
        .isoformat(sep=" ", timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _is_update(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _times_of(update_id: str, storage: Storage) -> tuple[int, int]:
    """Return the times of the first and the last event of an update."""
    events = read_events(storage, update_id=update_id)
    if not events:
        names = storage.list_names(storage.path(EVENTS_FOLDER))
        known = {name.partition(".")[0][:36] for name in names if name.endswith(".jsonl")}
        raise UserError("REWIND_UPDATE_NOT_FOUND", update=update_id, hint=nearest_hint(update_id, known))
    states = [event.details.get("update_progress", {}).get("state") for event in events]
    if not any(state in _END_STATES for state in states):
        raise UserError("REWIND_UPDATE_NOT_ENDED", update=update_id)
    first, last = (int(datetime.fromisoformat(events[at].timestamp).timestamp() * 1000) for at in (0, -1))
    return first, last
