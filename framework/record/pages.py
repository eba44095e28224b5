"""Pages of the event log, read backwards from its end with an index in the user's cache, without Spark."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.nearest import is_named
from framework.record.event_index import Conditions, Entry, EventIndex, discard_index, is_busy, open_index
from framework.record.events import Event, EventLevel, EventType, parse_event
from framework.record.reader import file_path

EMPTY_LOG = " The log is empty: no update has run yet."
_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """A part of the event log.

    Args:
        events: its events, oldest first.
        before: the `before` of the previous page; None if there are no earlier events.
    """

    events: tuple[Event, ...]
    before: str | None


class EventPages:
    """Reads the event log page by page, in the order of `read_events`.

    A page takes a few milliseconds, whatever the length of the log. The first page makes the index, and each page adds
    newly written events to it. New events do not change the pages of earlier events.

    Args:
        storage: the storage with the log.
        cache: the user's cache, which keeps the index. If the cache can't be written, each page reads all events.
    """

    def __init__(self, storage: Storage, cache: Path) -> None:
        self._storage = storage
        self._cache = cache

    def page(
        self,
        before: str | None = None,
        *,
        limit: int | None = 200,
        type: EventType | str | None = None,
        level: EventLevel | str | None = None,
        dataset: str | None = None,
        update_id: str | None = None,
    ) -> EventPage:
        """Return the last matching events before an event.

        Args:
            before: the id of an event, which itself need not match; None for the end of the log.
            limit: the maximum number of events; None for all.
            type: only this type.
            level: only this level and higher ones.
            dataset: only this dataset, by its full name or its last parts.
            update_id: only this update.

        Raises:
            UserError: EVENT_NOT_FOUND if the log does not have the event `before`, or has deleted it.
        """
        wanted = Conditions(
            type=None if type is None else str(EventType(type)),
            level=None if level is None else EventLevel(level),
            update_id=update_id,
        )
        try:
            with open_index(self._storage, self._cache) as index:
                return self._page(index, before, limit, wanted, dataset)
        except sqlite3.Error as error:
            if not is_busy(error):  # the index is damaged, or was deleted meanwhile
                discard_index(self._storage, self._cache)
        except OSError:  # the cache can't be written
            pass
        with open_index(self._storage, None) as index:
            return self._page(index, before, limit, wanted, dataset)

    def _page(
        self, index: EventIndex, before: str | None, limit: int | None, wanted: Conditions, dataset: str | None
    ) -> EventPage:
        page, changed = self._indexed_page(index, before, limit, wanted, dataset)
        for _ in range(_TRIES):
            if not changed:
                break
            index.forget(changed)  # another event is at that place now, or the file was deleted
            page, changed = self._indexed_page(index, before, limit, wanted, dataset)
        return page

    def _indexed_page(
        self, index: EventIndex, before: str | None, limit: int | None, wanted: Conditions, dataset: str | None
    ) -> tuple[EventPage, frozenset[str]]:
        """Return a page, and the files whose index entries are wrong."""
        index.refresh()
        chosen = wanted if dataset is None else _about(wanted, dataset, index)
        entries = index.before(before, chosen, None if limit is None else limit + 1)
        if entries is None:
            log = "" if index.before(None, Conditions(), 1) else EMPTY_LOG
            raise UserError("EVENT_NOT_FOUND", event=before, log=log)
        shown = entries[:limit]
        events, changed = self._read(shown)
        earlier = shown[-1].id if len(entries) > len(shown) else None
        return EventPage(events=tuple(reversed(events)), before=earlier), changed

    def _read(self, entries: Sequence[Entry]) -> tuple[list[Event], frozenset[str]]:
        """Return the events at these entries, and the files that have something else at an entry's place."""
        first: dict[str, int] = {}
        for entry in entries:
            first[entry.file] = min(first.get(entry.file, entry.start), entry.start)
        contents = {
            name: self._storage.read_after(file_path(self._storage, name), start) for name, start in first.items()
        }
        events, changed = [], set()
        for entry in entries:
            start = entry.start - first[entry.file]
            line = contents[entry.file][start : start + entry.length]
            event = parse_event(line.decode(errors="replace"))
            if event is None or event.id != entry.id:
                changed.add(entry.file)
            else:
                events.append(event)
        return events, frozenset(changed)


def _about(wanted: Conditions, dataset: str, index: EventIndex) -> Conditions:
    names = frozenset(name for name in index.datasets() if is_named(name, dataset))
    return Conditions(type=wanted.type, level=wanted.level, update_id=wanted.update_id, datasets=names)
