"""The flows that must not run: an operator paused, cancelled or skipped them, or their table must be read again."""

from __future__ import annotations

from collections.abc import Mapping

from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import UNUSABLE
from framework.foundation.names import QualifiedName
from framework.ingest.state import GatewayStore, Mode

_FRESH_SECONDS = 2.0
_UNUSABLE = UNUSABLE | {"INGESTION_STATE_DAMAGED"}
_MISSED = "its table was not among those of an earlier update, and its new snapshot could not begin"
_GATEWAY_PAUSED = "its gateway is paused; `sluice ingest resume` continues it"
_REASONS: Mapping[Mode, str] = {
    Mode.PAUSED: "its table is paused; `sluice ingest resume` continues it",
    Mode.CANCELLED: "its snapshot was cancelled; `sluice ingest resume` continues it",
    Mode.SKIPPED: "its snapshot is skipped; `sluice ingest resume` takes it",
}


def held_flows(storage: Storage) -> dict[QualifiedName, str]:
    """Return the flows that must not run, each with the reason.

    Args:
        storage: the pipeline's storage.
    """
    store = GatewayStore(storage)
    held: dict[QualifiedName, str] = {}
    for state in store.read_all():
        gateway = state.gateway
        if store.request(gateway.name).mode is Mode.PAUSED:
            flows = [flow for each in gateway.tables for flow in (each.snapshot_flow, each.cdc_flow)]
            held |= dict.fromkeys([gateway.changes, *flows], _GATEWAY_PAUSED)
            continue
        # A table with an error has no keys: its flows fail with the error.
        missed = [each.table for each in state.tables if each.is_declared and each.is_missed and each.table.keys]
        held |= {flow: _MISSED for table in missed for flow in (table.snapshot_flow, table.cdc_flow)}
        requests = store.table_requests(gateway.name)
        for table in gateway.tables:
            mode = requests[table.key].mode if table.key in requests else Mode.ACTIVE
            if mode is not Mode.ACTIVE:
                held[table.snapshot_flow] = _REASONS[mode]
            if mode is Mode.PAUSED:
                held[table.cdc_flow] = _REASONS[mode]
    return held


class Holds:
    """The held flows of an update that runs, read again every two seconds; for any thread.

    Args:
        storage: the pipeline's storage.
        clock: times the next read.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._read_at: float | None = None
        self._held: frozenset[QualifiedName] = frozenset()

    def __contains__(self, flow: object) -> bool:
        """Whether a flow is held.

        A file that another release writes meanwhile must not end a running update: the flows held before stay held.

        Raises:
            OperationError: the storage can't be read, or has an unusable file at the first look.
        """
        now, is_first = self._clock.monotonic(), self._read_at is None
        if self._read_at is None or now - self._read_at >= _FRESH_SECONDS:
            try:
                self._held = frozenset(held_flows(self._storage))
            except OperationError as error:
                if is_first or error.condition not in _UNUSABLE:
                    raise
            self._read_at = now
        return flow in self._held
