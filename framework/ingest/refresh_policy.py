"""Whether an update reads a table again by itself after its columns changed: `auto_full_refresh_policy`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from framework.checkpoints.generations import GenerationStore
from framework.declare.copy_definition import CopyDefinition
from framework.declare.specs import AutoFullRefreshPolicy, IngestedGateway
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.ingest.drift import drift_error, is_replaceable
from framework.ingest.names import snapshot_flow_name
from framework.ingest.state import GatewayState, GatewayStore, Mode, Request


def note_of_refresh(
    policy: AutoFullRefreshPolicy,
    storage: Storage,
    before: CopyDefinition,
    now: CopyDefinition,
    target: QualifiedName,
    *,
    key: str = "",
    clock: Clock | None = None,
) -> SluiceError | None:
    """Return the note about a table that this update reads again by its policy; None if it does not read it again.

    It does not if the code changed, if an operator holds the table, or if its history would begin again: an operator
    decides these cases.

    Args:
        policy: the policy of the table.
        storage: the pipeline's storage.
        before: how the rows of the copy were made.
        now: how they are made now.
        target: the copy.
        key: the key of the copy in requests; empty for the name of the source.
        clock: for the least time between two such refreshes.

    Raises:
        UserError: INGESTION_COLUMNS_CHANGED with the time from which an update reads the table again.
    """
    error = drift_error(before, now)
    is_held = GatewayStore(storage).request(now.gateway, key or now.source).mode is not Mode.ACTIVE
    begins_history = now.scd_type != 1 and not is_replaceable(before, now)
    if not policy.enabled or error is None or error.condition != "INGESTION_COLUMNS_CHANGED":
        return None
    if is_held or begins_history:
        return None
    change = str(error.fields["change"])
    generations = GenerationStore(storage).read(target, snapshot_flow_name(target))
    if generations:
        due = datetime.fromisoformat(generations[-1].begun_at) + timedelta(hours=policy.min_interval_hours)
        if (clock or SystemClock()).now() < due:
            waiting = f"{change} (`auto_full_refresh_policy` reads all rows again from {timestamp_text(due)} on)"
            raise UserError("INGESTION_COLUMNS_CHANGED", table=now.source, change=waiting)
    return UserError("INGESTION_COLUMNS_REFRESHED", table=now.source, change=change)


def ask_under_policy(gateway: IngestedGateway, state: GatewayState, store: GatewayStore) -> None:
    """Request snapshots of the tables that their policies read again, as an operator does for all rows.

    After a crash the request is open, and the next update begins the snapshot.

    Args:
        gateway: the gateway, as declared.
        state: its state.
        store: the requests.
    """
    for each in gateway.tables:
        known = state.table(each.key)
        if each.is_refreshed and known is not None:
            number = known.number + 1

            def whole(before: Request, number: int = number) -> Request:
                return replace(before, generation=max(before.generation, number), where=None, accepted="")

            store.change_request(whole, gateway.name, each.key)
