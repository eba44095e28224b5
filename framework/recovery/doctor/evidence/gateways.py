"""The state of gateways at their databases: lost positions, and the size of the retained log."""

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


def log_evidence(gateway: GatewayStatus) -> Iterator[str]:
    """Yield the database's information about the position that it keeps for a gateway."""
    if gateway.error is not None:
        yield f"source: no answer, {gateway.error}"
        return
    reach, at = gateway.reach, gateway.lost_at
    if reach is not None and at is not None and gateway.gap is None:
        yield f"log: unread changes are lost from {at:%Y-%m-%d %H:%M} UTC on ({reach.setting})"
    found, noun = gateway.log_status, gateway.position_noun
    if not noun:
        return
    if found is None:
        yield f"{noun}: {gateway.position_name} does not exist"
        return
    parts = [gateway.position_name, found.state, "is read now" if found.is_active else "is not read"]
    if found.retained_bytes is not None:
        parts.append(f"{found.retained_bytes:,} bytes of log retained")
    yield f"{noun}: {', '.join(part for part in parts if part)}"
