"""Event log of a gateway: one query for the latest event of each table and flow.

A gateway writes one event per table and interval as long as it runs, and the service aborts a result over 25 MiB. The
result of this query is bounded by the number of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.statements import require_warehouse, run_statement
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.plan.gateway_state import GatewayEvent, GatewayState, Phase, gateway_state, progress_seconds
from framework.deploy.state.resource_api import Remote
from framework.foundation.errors import SluiceError

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
# With equal timestamps, the completion of a snapshot takes precedence over its progress.
_NEWEST = (
    "origin.update_id = :update_id DESC",
    "timestamp DESC",
    "details:operation_progress.status = 'COMPLETED' DESC",
    "details:flow_progress.status = 'COMPLETED' DESC",
)


def read_gateway(workspace: Workspace, remote: Remote, tables: IngestedTables) -> GatewayState:
    """Return the state of a gateway from its event log; unknown if the log can't be read.

    Args:
        workspace: the workspace.
        remote: the gateway.
        tables: the tables that the bundle ingests.
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


def _cause(error: SluiceError | DatabricksError) -> str:
    """Return an error's fault and remedy in one line."""
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
    """Return the progress events of snapshots and flows; skip other operations, and events without a table."""
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
            remaining_seconds=None if left is None else float(left) / 1000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedTables:
    """Tables that a bundle ingests, by the last part of their names in lower case.

    Args:
        names: all ingested tables; None if the bundle does not name each, as for a whole schema.
        keyed: the tables that have `primary_keys` in every entry of the bundle.
    """

    names: frozenset[str] | None
    keyed: frozenset[str]


def ingested_tables(bundle: Bundle) -> IngestedTables:
    """Return the tables in the ingestion pipelines of a bundle."""
    found: dict[str, bool] = {}
    is_complete = True
    for resource in bundle.resources:
        definition = resource.spec.as_dict().get("ingestion_definition") if resource.kind == "pipelines" else None
        if not isinstance(definition, Mapping):
            continue
        objects = definition.get("objects") or []
        is_complete = is_complete and all("table" in entry for entry in objects)
        for name, has_keys in _tables(definition):
            found[name] = has_keys and found.get(name, True)
    return IngestedTables(
        names=frozenset(found) if is_complete and found else None,
        keyed=frozenset(name for name, has_keys in found.items() if has_keys),
    )


def _tables(definition: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for entry in definition.get("objects") or []:
        table = entry.get("table") or {}
        keys = (table.get("table_configuration") or {}).get("primary_keys")
        for name in {table.get("source_table"), table.get("destination_table")} - {None}:
            yield str(name).lower(), bool(keys)
