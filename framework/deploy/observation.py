"""What a plan is made from, read from the workspace: one read a resource, event logs only where they decide."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.bundle import Bundle
from framework.deploy.ingested_tables import keyed_tables
from framework.deploy.planner import Observed, gateways_at_stake
from framework.deploy.remotes import Remote, RemoteKind
from framework.deploy.snapshots import GatewayState, Phase, gateway_state, parse_events, progress_seconds
from framework.deploy.state import DeployState
from framework.deploy.statements import require_warehouse, run_statement
from framework.deploy.workspace import Workspace
from framework.foundation.errors import SluiceError

_COLUMNS = ("timestamp", "event_type", "origin.update_id", "origin.dataset_name", "origin.flow_name", "details")


def observe(workspace: Workspace, kinds: Mapping[str, RemoteKind], bundle: Bundle, state: DeployState) -> Observed:
    """Read each resource that the state knows, and the gateways that a change could restart."""
    remotes: dict[str, Remote | None] = {}
    for deployed in state.resources:
        if deployed.id is not None:
            remotes[deployed.key] = kinds[deployed.kind].read(deployed.id)
    gateways = {}
    for key in gateways_at_stake(bundle, state, remotes):
        remote = remotes[key]
        if remote is not None:
            gateways[key] = read_gateway(workspace, remote, keyed=keyed_tables(bundle))
    return Observed(remotes=remotes, gateways=gateways)


def read_gateway(workspace: Workspace, remote: Remote, *, keyed: Collection[str]) -> GatewayState:
    """What a gateway is doing, from its event log; unknown when that can't be read.

    Args:
        workspace: the workspace.
        remote: the gateway as it was read.
        keyed: last parts of the names of tables that are known to have a key.
    """
    if remote.update is None:
        return gateway_state(update=None, events=(), now=workspace.clock.now())
    try:
        require_warehouse(workspace, "the gateway's event log can only be read with one")
        rows = run_statement(workspace, _query(remote))
    except (SluiceError, DatabricksError) as error:
        return GatewayState(phase=Phase.UNKNOWN, reason=f"its event log could not be read: {_cause(error)}")
    events = parse_events(_event(row) for row in rows)
    interval = progress_seconds(remote.spec.as_dict())
    now = workspace.clock.now()
    return gateway_state(update=remote.update, events=events, now=now, interval_seconds=interval, keyed=keyed)


def _cause(error: SluiceError | DatabricksError) -> str:
    """What is wrong and what to do, on one line."""
    text = f"{error.what} {error.remedy}" if isinstance(error, SluiceError) else str(error) or type(error).__name__
    return " ".join(text.split()).removesuffix(".")


def _query(remote: Remote) -> str:
    table = remote.spec.as_dict().get("event_log") or {}
    parts = [str(table.get(part, "")) for part in ("catalog", "schema", "name")]
    source = ".".join(f"`{part}`" for part in parts) if all(parts) else f"event_log(`{remote.id}`)"
    return (
        f"SELECT {', '.join(_COLUMNS)} FROM {source} "
        "WHERE event_type IN ('operation_progress', 'flow_progress') ORDER BY timestamp"
    )


def _event(row: Sequence[str | None]) -> dict[str, Any]:
    timestamp, event_type, update, dataset, flow, details = row
    origin = {"update_id": update, "dataset_name": dataset, "flow_name": flow}
    try:
        told = json.loads(details or "{}")
    except ValueError:
        told = {}
    return {"timestamp": timestamp, "event_type": event_type, "origin": origin, "details": told}
