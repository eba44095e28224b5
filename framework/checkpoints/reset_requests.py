"""Pending resets of flows of a continuous update: one file each, which the running update finds.

The update resets a flow as soon as the flow does not run; all other flows continue. If the update ends before that, the
next update resets the flow before it plans. The new generation begins before its request is deleted. After a crash in
between, and in an older copy of the folder, the flow has a later generation than the one to end: the request is done.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from framework.checkpoints.generations import Generation, GenerationStore, folder_name
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat
from framework.foundation.names import QualifiedName

_FORMAT = StoredFormat(1)
_FRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A request to begin a new generation of a flow.

    Args:
        dataset: the target of the flow.
        flow: the flow's full name.
        start: where its sources start, as the manifest stores it; None for the start in the flow's code.
        ends: the number of the current generation at the time of the request; None if there was none.
    """

    dataset: QualifiedName
    flow: QualifiedName
    start: str | None
    ends: int | None = None


class ResetRequests:
    """The reset requests of one pipeline.

    Args:
        storage: the pipeline's storage.
        clock: sets the times of generations, and when to look for new requests.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._looked_at: float | None = None

    def ask(self, request: ResetRequest) -> None:
        """Store a request, in place of an earlier one for the same flow.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED, if the earlier request can't be read.
        """
        self._read(self._path(request))
        self._storage.write_text(self._path(request), _FORMAT.text(asdict(request)))

    def pending(self) -> tuple[ResetRequest, ...]:
        """Return the pending requests.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN, STORED_FILE_DAMAGED.
        """
        found = map(self._read, self._paths())
        return tuple(request for request in found if request is not None)

    def pending_for(self, datasets: Collection[QualifiedName]) -> tuple[ResetRequest, ...]:
        """Return the pending requests for flows into these datasets."""
        return tuple(request for request in self.pending() if request.dataset in datasets)

    def new(self) -> tuple[ResetRequest, ...]:
        """Return the pending requests that can be read, at most every two seconds; () in between.

        A request of another release must not end a running update. It waits: no later update begins with it.
        """
        now = self._clock.monotonic()
        if self._looked_at is not None and now - self._looked_at < _FRESH_SECONDS:
            return ()
        self._looked_at = now
        found = map(self._read_if_usable, self._paths())
        return tuple(request for request in found if request is not None)

    def begin(self, request: ResetRequest) -> Generation:
        """Reset a flow that does not run, under the lock, unless it was reset already; return its generation."""
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

    def _paths(self) -> list[str]:
        folder = self._storage.path("resets")
        return [f"{folder}/{name}" for name in self._storage.list_names(folder)]

    def _read(self, path: str) -> ResetRequest | None:
        return _FORMAT.read(self._storage, path, _parse)

    def _read_if_usable(self, path: str) -> ResetRequest | None:
        try:
            return self._read(path)
        except OperationError as error:
            if error.condition not in UNUSABLE:
                raise
            return None

    def _path(self, request: ResetRequest) -> str:
        return self._storage.path("resets", f"{folder_name(request.dataset)}~{folder_name(request.flow)}.json")


def _parse(found: dict[str, Any]) -> ResetRequest:
    return ResetRequest(
        dataset=QualifiedName(**found["dataset"]),
        flow=QualifiedName(**found["flow"]),
        start=found["start"],
        ends=found["ends"],
    )
