"""Expected events of the last update."""

from __future__ import annotations

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.wording import counted
from framework.record.events import Event, EventLevel, EventType
from framework.record.reader import event_filter, read_events
from framework.sandbox.expectations.examined import Examined, last_update

_MOST_SHOWN = 10


def check_events(
    sandbox: Examined, type: str, *, dataset: str | None, level: str | None, message: str | None, count: int | None
) -> None:
    """Check the events of the last update.

    Raises:
        AssertionError: there are fewer or more.
        UserError: TEST_NO_UPDATE, TEST_EVENT_UNKNOWN, DATASET_NOT_FOUND.
    """
    __tracebackhide__ = True
    _check_known("type", type, list(EventType))
    if level is not None:
        _check_known("level", level, list(EventLevel))
    name = None if dataset is None else str(sandbox.dataset(dataset))
    update = last_update(sandbox).update_id
    of_type = read_events(sandbox.pipeline.storage, type=type, update_id=update)
    matches = event_filter(level=level, dataset=name)
    found = [event for event in of_type if matches(event) and (message is None or message in event.message)]
    is_right = bool(found) if count is None else len(found) == count
    if not is_right:
        wanted = "at least one" if count is None else f"{count:,}"
        parts = [
            ("of", dataset),
            ("of the level", level),
            ("with the message", None if message is None else repr(message)),
        ]
        which = " ".join(f"{word} {value}" for word, value in parts if value is not None)
        head = f"The last update has {counted(len(found), 'event')} {type} {which}".rstrip()
        raise AssertionError("\n".join([f"{head}, not {wanted}.", *_shown(found or of_type, type)]))


def _check_known(kind: str, name: str, known: list[EventType] | list[EventLevel]) -> None:
    values = [each.value for each in known]
    if name not in values:
        hint = nearest_hint(name, values)
        raise UserError("TEST_EVENT_UNKNOWN", kind=kind, name=name, known=", ".join(values), hint=hint)


def _shown(events: list[Event], type: str) -> list[str]:
    """Return the first events as lines."""
    if not events:
        return [f"It has no event {type}."]
    lines = [f"  {event.level.value:<7} {event.origin.dataset_name or ''}: {event.message}" for event in events]
    more = len(lines) - _MOST_SHOWN
    return lines[:_MOST_SHOWN] + ([f"  … and {more:,} more"] if more > 0 else [])
