"""What the databases of gateways say about their replication slots: lost positions, and the log that they retain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from framework.foundation.clock import Clock
from framework.foundation.names import QualifiedName
from framework.ingest.gateway_status import GatewayStatus
from framework.ingest.state import GatewayStore
from framework.ingest.status import read_status
from framework.run.tables.table_store import TableStore


def read_gateways(store: TableStore, clock: Clock) -> Mapping[QualifiedName, GatewayStatus]:
    """Return the status of each gateway that an update has run, by the flow that stages its changes.

    Args:
        store: the pipeline's tables.
        clock: the present time.
    """
    changes = {state.gateway.name: state.gateway.changes for state in GatewayStore(store.storage).read_all()}
    if not changes:
        return {}
    return {changes[each.name]: each for each in read_status(store.storage, clock.now())}


def slot_evidence(gateway: GatewayStatus) -> Iterator[str]:
    """Yield what the source says about the slot of a gateway."""
    if gateway.error is not None:
        yield f"source: no answer, {gateway.error}"
        return
    slot = gateway.slot_status
    if slot is None:
        if gateway.keeps_position:
            yield f"slot: {gateway.slot} does not exist"
        return
    parts = [gateway.slot, slot.state, "is read now" if slot.is_active else "is not read"]
    if slot.retained_bytes is not None:
        parts.append(f"{slot.retained_bytes:,} bytes of log retained")
    yield f"slot: {', '.join(part for part in parts if part)}"
