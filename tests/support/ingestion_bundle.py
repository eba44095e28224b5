"""A bundle with a gateway, its ingestion pipeline, a transformation, a job, a schema and a volume, to edit at will."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.deployer import Deployer
from framework.deploy.plan.policy import Policy
from framework.testing.workspace import SourceTable, StandInWorkspace
from framework.testing.workspace.stand_in import TOKEN

GATEWAY = "pipelines.gateway"
GATEWAY_NAME = "sqlserver gateway"
TABLE = "main.ops.deployments"
USER = "ada@example.com"
HOUR = 3600.0

SPECS: dict[str, dict[str, Any]] = {
    "schemas.staging": {
        "name": "Staging",
        "catalog_name": "Main",
        "grants": [{"principal": "r", "privileges": ["SELECT"]}],
    },
    "volumes.landing": {"name": "landing", "catalog_name": "main", "schema_name": "staging", "volume_type": "MANAGED"},
    GATEWAY: {
        "name": GATEWAY_NAME,
        "continuous": True,
        "catalog": "Main",
        "schema": "staging",
        "channel": "preview",
        "edition": "advanced",
        "tags": {"team": "data"},
        "clusters": [{"label": "default", "num_workers": 2, "custom_tags": {"cost": "1"}}],
        "notifications": [{"email_recipients": ["a@example.com"], "alerts": ["on-update-failure"]}],
        "gateway_definition": {
            "connection_name": "sqlserver",
            "gateway_storage_catalog": "main",
            "gateway_storage_schema": "staging",
        },
    },
    "pipelines.ingestion": {
        "name": "sqlserver ingestion",
        "catalog": "main",
        "schema": "sales",
        "ingestion_definition": {
            "ingestion_gateway_id": "${resources.pipelines.gateway.id}",
            "objects": [{"table": {"source_schema": "dbo", "source_table": "orders"}}],
        },
    },
    "pipelines.flights": {"name": "flights", "catalog": "main", "schema": "flights", "configuration": {"a": "1"}},
    "jobs.flights": {
        "name": "flights",
        "tasks": [{"task_key": "update", "pipeline_task": {"pipeline_id": "${resources.pipelines.flights.id}"}}],
        "tags": {"team": "data"},
    },
}
_EDGES = {
    "volumes.landing": ("schemas.staging",),
    GATEWAY: ("schemas.staging",),
}


def specs() -> dict[str, dict[str, Any]]:
    """The resources' settings, to edit."""
    return copy.deepcopy(SPECS)


def _references(spec: dict[str, Any]) -> list[str]:
    return sorted(set(re.findall(r"\$\{resources\.(\w+\.\w+)\.", json.dumps(spec))))


def bundle_of(
    wanted: dict[str, dict[str, Any]], *, root: Path = Path(), sync: tuple[str, ...] = (), mode: str = "production"
) -> Bundle:
    """A bundle of those resources."""
    return Bundle(
        name="sales",
        target="ingestion",
        mode=mode,
        root_path="/Workspace/Shared/.bundle/sales/ingestion",
        state_path="/Workspace/Shared/.bundle/sales/ingestion/state",
        file_path="/Workspace/Shared/.bundle/sales/ingestion/files",
        root=root,
        sync=sync,
        resources=tuple(
            Resource(
                key=key,
                kind=key.partition(".")[0],
                name=spec["name"],
                spec=FrozenSpec.of(spec),
                depends_on=tuple(edge for edge in (*_EDGES.get(key, ()), *_references(spec)) if edge in wanted),
                prevent_destroy=bool(spec.get("lifecycle", {}).get("prevent_destroy")),
            )
            for key, spec in wanted.items()
        ),
    )


def deployer_of(
    served: StandInWorkspace,
    wanted: dict[str, dict[str, Any]] | Bundle,
    *,
    policy: Policy | None = None,
    table: str | None = TABLE,
    token: str = TOKEN,
    force_lock: bool = False,
) -> Deployer:
    """Return a deployer of those resources to a stand-in."""
    workspace = Workspace(served.config(token), clock=served.clock)
    bundle = wanted if isinstance(wanted, Bundle) else bundle_of(wanted)
    return Deployer(workspace, bundle, user=USER, policy=policy, table=table, commit="abc1234", force_lock=force_lock)


def with_snapshot(served: StandInWorkspace, *, hours: float = 24.0, chunks: int = 48) -> StandInWorkspace:
    """Deploy the bundle and let the gateway's snapshot run for some hours; then forget the calls."""
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=chunks))
    deployer_of(served, specs()).deploy()
    served.clock.sleep(hours * HOUR)
    served.forget_requests()
    return served


def gateway_calls(served: StandInWorkspace) -> list[str]:
    """The writes to the gateway itself so far, permissions apart."""
    path = f"/api/2.0/pipelines/{served.pipeline(GATEWAY_NAME).pipeline_id}"
    return [f"{each.method} {each.path}" for each in served.requests if each.path.startswith(path) and each.is_write]
