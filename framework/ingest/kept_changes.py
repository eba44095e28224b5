"""The changes of an ingestion, which its slot gives only once: they are staged anew only together with all copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.declare.specs import IngestedGateway
from framework.foundation.names import QualifiedName
from framework.foundation.storage_port import Storage
from framework.ingest.state import GatewayStore, Mode


def kept_changes(
    gateways: Iterable[IngestedGateway], storage: Storage, *, refreshes: Callable[[QualifiedName], bool]
) -> frozenset[QualifiedName]:
    """Return the tables of changes that a full refresh must not clear: a copy would miss what it has not applied.

    Args:
        gateways: the gateways.
        storage: the pipeline's storage.
        refreshes: whether the update clears a dataset and recomputes it.
    """
    store = GatewayStore(storage)
    return frozenset(
        gateway.changes
        for gateway in gateways
        for table in gateway.tables
        # A table with a fault has no keys.
        if not refreshes(table.target)
        or not table.keys
        or Mode.PAUSED in (store.request(gateway.name).mode, store.request(gateway.name, table.source).mode)
    )
