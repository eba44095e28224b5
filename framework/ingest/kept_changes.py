"""Staged changes that a full refresh must keep: the log may deliver them only once, so all copies refresh together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.state import GatewayStore


def kept_changes(
    gateways: Iterable[IngestedGateway], storage: Storage, *, refreshes: Callable[[QualifiedName], bool]
) -> frozenset[QualifiedName]:
    """Return the tables of changes that a full refresh must not clear, because a copy would miss unapplied changes.

    Args:
        gateways: the gateways.
        storage: the pipeline's storage.
        refreshes: whether the update clears a dataset and recomputes it.
    """
    store = GatewayStore(storage)

    def is_left_out(gateway: IngestedGateway, table: IngestedTable) -> bool:
        # A table with an error has no keys.
        return not refreshes(table.target) or not table.keys or store.is_paused(gateway.name, table.key)

    return frozenset(each.changes for each in gateways if any(is_left_out(each, table) for table in each.tables))
