"""Output of events of the log: as a table, as JSON, and as a continuous stream of lines."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from framework.cli.output import Output
from framework.foundation.clock import Clock
from framework.foundation.errors import UserError
from framework.foundation.storage_port import Storage
from framework.record.events import Event
from framework.record.reader import event_filter, follow_events, read_events

_COLUMNS = ("time", "level", "type", "message")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReading:
    """Filter of events; None means no restriction."""

    type: str | None
    level: str | None
    dataset: str | None
    last: int | None

    def show(self, output: Output, storage: Storage) -> None:
        """Print the current events of the log.

        Raises:
            UserError: EVENT_DATASET_NOT_FOUND if no event of the log is about the dataset.
        """
        events = self._read(storage)
        if not events and self.dataset is not None:
            self._check_dataset(storage, self.dataset)
        if output.as_json:
            output.json([event.to_row() for event in events])
        else:
            output.table(_COLUMNS, [_row(event) for event in events])

    def follow(self, output: Output, storage: Storage, clock: Clock) -> None:
        """Print the latest `last` events of the log, then each new one, until Ctrl-C."""
        matches = event_filter(type=self.type, level=self._level, dataset=self._dataset)
        try:
            for event in self._read(storage) if self.last else ():
                _print(output, event)
            for event in follow_events(storage, matches=matches, clock=clock):
                _print(output, event)
        except KeyboardInterrupt:
            return

    @property
    def _level(self) -> str | None:
        return None if self.level is None else self.level.upper()

    @property
    def _dataset(self) -> str | None:
        return None if self.dataset is None else self.dataset.lower().replace("`", "")

    def _read(self, storage: Storage) -> list[Event]:
        return read_events(storage, type=self.type, level=self._level, dataset=self._dataset, last=self.last)

    def _check_dataset(self, storage: Storage, dataset: str) -> None:
        known = {name for event in read_events(storage) if (name := event.origin.dataset_name)}
        wanted = self._dataset or ""
        if any(name == wanted or name.endswith(f".{wanted}") for name in known):
            return
        short = {name.rpartition(".")[2]: name for name in known}
        near = difflib.get_close_matches(wanted, [*known, *short], n=1)
        hint = f" Did you mean {short.get(near[0], near[0])}?" if near else ""
        raise UserError("EVENT_DATASET_NOT_FOUND", dataset=dataset, hint=hint)


def _row(event: Event) -> dict[str, Any]:
    return {
        "time": _local_time(event),
        "level": event.level.value,
        "type": event.event_type.value,
        "message": event.message,
    }


def _print(output: Output, event: Event) -> None:
    if output.as_json:
        output.json_line(event.to_row())
    else:
        output.line(f"{_local_time(event)}  {event.level.value:<7}  {event.event_type.value:<20}  {event.message}")


def _local_time(event: Event) -> str:
    """Return the event's time in the local time zone, to the second."""
    return f"{datetime.fromisoformat(event.timestamp).astimezone():%Y-%m-%d %H:%M:%S}"
