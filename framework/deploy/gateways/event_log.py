"""The event log of a gateway: one query for the newest event of each table and flow, bounded by the number of tables.

A gateway writes an event per table and interval, for as long as it runs; the service aborts a result over 25 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.statements import require_warehouse, run_statement
from framework.deploy.api.workspace import Workspace
from framework.deploy.gateways.ingested_tables import IngestedTables
from framework.deploy.plan.gateway_state import GatewayEvent, GatewayState, Phase, gateway_state, progress_seconds
from framework.deploy.state.resource_api import Remote
from framework.foundation.errors import OperationError, SluiceError

_KIND = "event_type, origin.dataset_name, origin.flow_name, details:operation_progress.type"
_COLUMNS = (
    "timestamp",
    "event_type",
    "origin.update_id",
    "origin.dataset_name",
    "origin.flow_name",
    "details:operation_progress.type",
    "details:operation_progress.status",
    "details:flow_progress.status",
    "details:operation_progress.progress_percent",
    "details:operation_progress.estimated_completion_ms",
    f"MIN(timestamp) OVER (PARTITION BY origin.update_id, {_KIND}) AS began",
)
# At one moment the end of a snapshot comes before its progress.
_NEWEST = (
    "origin.update_id = :update_id DESC",
    "timestamp DESC",
    "details:operation_progress.status = 'COMPLETED' DESC",
    "details:flow_progress.status = 'COMPLETED' DESC",
)


def read_gateway(workspace: Workspace, remote: Remote, tables: IngestedTables) -> GatewayState:
    """Return what a gateway is doing, from its event log; unknown when the log can't be read.

    Args:
        workspace: the workspace.
        remote: the gateway as it was read.
        tables: what the bundle says about the tables that are ingested.
    """
    now = workspace.clock.now()
    if remote.update is None:
        return gateway_state(update=None, events=(), now=now)
    try:
        require_warehouse(workspace, "the event log of the gateway can only be read with a warehouse")
        rows = run_statement(workspace, _query(remote), {"update_id": remote.update[0]})
    except (SluiceError, DatabricksError) as error:
        return GatewayState(phase=Phase.UNKNOWN, reason=f"its event log cannot be read: {_cause(error)}")
    return gateway_state(
        update=remote.update,
        events=tuple(_events(rows)),
        now=now,
        interval_seconds=progress_seconds(remote.spec.as_dict()),
        ingested=tables.names,
        keyed=tables.keyed,
    )


def condition_of(error: Exception) -> str:
    """Return the condition of an error, or the name of its type."""
    return error.condition if isinstance(error, OperationError) else type(error).__name__


def _cause(error: SluiceError | DatabricksError) -> str:
    """What is wrong and what to do, on one line."""
    text = f"{error.what} {error.remedy}" if isinstance(error, SluiceError) else str(error) or type(error).__name__
    return " ".join(text.split()).removesuffix(".")


def _query(remote: Remote) -> str:
    table = remote.spec.as_dict().get("event_log") or {}
    parts = [str(table.get(part, "")) for part in ("catalog", "schema", "name")]
    source = ".".join(f"`{part}`" for part in parts) if all(parts) else f"event_log(`{remote.id}`)"
    return (
        f"SELECT {', '.join(_COLUMNS)} FROM {source} WHERE event_type IN ('operation_progress', 'flow_progress') "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {_KIND} ORDER BY {', '.join(_NEWEST)}) = 1"
    )


def _events(rows: Iterable[Sequence[str | None]]) -> Iterator[GatewayEvent]:
    """The progress of snapshots and flows; other operations, and events without a table, are skipped."""
    for row in rows:
        at, event_type, update, table, flow, operation_type, operation_status, flow_status, percent, left, began = row
        is_operation = event_type == "operation_progress"
        if at is None or not table or (is_operation and operation_type != "CDC_SNAPSHOT"):
            continue
        yield GatewayEvent(
            at=datetime.fromisoformat(at),
            began=None if began is None else datetime.fromisoformat(began),
            update_id=str(update),
            table=table,
            flow=flow or "",
            operation=is_operation,
            status=str(operation_status if is_operation else flow_status),
            percent=None if percent is None else float(percent),
            left_seconds=None if left is None else float(left) / 1000,
        )
