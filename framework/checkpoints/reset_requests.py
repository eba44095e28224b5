"""Resets that wait for a flow of a continuous update: a file for each, which the update that runs finds.

The update resets the flow as soon as it does not run, and all other flows go on. If the update ends before, the next
one resets the flow before it plans. A generation begins before its request is deleted: after a crash in between, and
in an older copy of the folder, the flow has a later generation than the one that was to end, and the request is done.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from framework.checkpoints.generations import Generation, GenerationStore, folder_name
from framework.foundation.clock import Clock
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)
_FRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A flow that is to begin a new generation.

    Args:
        dataset: the target of the flow.
        flow: the flow's full name.
        start: where its sources start, as the manifest stores it; None: as the flow's code says.
        ends: the number of the generation that was current when it was asked for; None if there was none.
    """

    dataset: QualifiedName
    flow: QualifiedName
    start: str | None
    ends: int | None = None


class ResetRequests:
    """The requests of one pipeline.

    Args:
        storage: the pipeline's storage.
        clock: the times of generations, and of the looks for new requests.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._looked_at: float | None = None

    def ask(self, request: ResetRequest) -> None:
        """Keep a request, in place of an earlier one for the same flow.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED, of the earlier one.
        """
        _FORMAT.read(self._storage, self._path(request), _parse)
        self._storage.write_text(self._path(request), _FORMAT.text(asdict(request)))

    def pending(self) -> tuple[ResetRequest, ...]:
        """Return the requests that wait."""
        folder = self._storage.path("resets")
        names = self._storage.list_names(folder)
        found = (_FORMAT.read(self._storage, f"{folder}/{name}", _parse) for name in names)
        return tuple(request for request in found if request is not None)

    def pending_for(self, datasets: Collection[QualifiedName]) -> tuple[ResetRequest, ...]:
        """Return the requests that wait for flows into these datasets."""
        return tuple(request for request in self.pending() if request.dataset in datasets)

    def new(self) -> tuple[ResetRequest, ...]:
        """Return the requests that wait, every two seconds; () in between."""
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _FRESH_SECONDS:
            return ()
        self._looked_at = now
        return self.pending()

    def begin(self, request: ResetRequest) -> Generation:
        """Reset a flow that does not run, under the lock, unless that was done; return its generation."""
        store = GenerationStore(self._storage, self._clock)
        current = store.current(request.dataset, request.flow)
        if request.ends is not None and current is not None and current.number > request.ends:
            self.drop(request)
            return current
        reason = "reset by sluice checkpoints reset"
        generation = store.begin(request.dataset, request.flow, reason=reason, start=request.start)
        failpoint("resets.after_begin")
        self.drop(request)
        return generation

    def drop(self, request: ResetRequest) -> None:
        """Delete a request."""
        self._storage.delete_tree(self._path(request))

    def _path(self, request: ResetRequest) -> str:
        return self._storage.path("resets", f"{folder_name(request.dataset)}~{folder_name(request.flow)}.json")


def _parse(found: dict[str, Any]) -> ResetRequest:
    return ResetRequest(
        dataset=QualifiedName(**found["dataset"]),
        flow=QualifiedName(**found["flow"]),
        start=found["start"],
        ends=found["ends"],
    )
