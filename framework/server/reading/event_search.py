"""Events of one pipeline, by conditions that the index has and by others, page by page backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.record.events import Event
from framework.record.pages import EventPage, EventPages
from framework.server.pipelines import PipelineEntry

_MOST_READ = 20_000
"""An answer reads at most so many events; a rare text is then found on a later page."""
_CHUNK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    """Conditions on events.

    Args:
        type, level, dataset, update_id: as `EventPages.page` has them.
        matches: a further condition.
    """

    type: str | None = None
    level: str | None = None
    dataset: str | None = None
    update_id: str | None = None
    matches: Callable[[Event], bool] | None = None

    def page(self, entry: PipelineEntry, cache: Path, *, before: str | None, limit: int) -> EventPage:
        """Return the last matching events of a pipeline before an event.

        Raises:
            UserError: EVENT_NOT_FOUND.
        """
        pages, found, read = EventPages(entry.storage, cache), list[Event](), 0
        plain = self.matches is None
        while True:
            chunk = limit + 1 - len(found) if plain else _CHUNK
            page = pages.page(
                before, limit=chunk, type=self.type, level=self.level, dataset=self.dataset, update_id=self.update_id
            )
            read += len(page.events)
            found += [event for event in reversed(page.events) if self._is_wanted(entry, event)]
            if len(found) > limit:
                return EventPage(events=tuple(reversed(found[:limit])), before=found[limit - 1].id)
            before = page.before
            if before is None or read >= _MOST_READ:
                return EventPage(events=tuple(reversed(found)), before=before)

    def _is_wanted(self, entry: PipelineEntry, event: Event) -> bool:
        is_own = event.origin.pipeline_name == entry.name  # several pipelines may share a storage
        return is_own and (self.matches is None or self.matches(event))
