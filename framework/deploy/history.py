"""Deployments table: who deployed what, when and why. A separate table, because a tag would change the gateway."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from framework.deploy.api.statements import require_warehouse, run_statement
from framework.deploy.api.workspace import ResponseLost, Workspace
from framework.deploy.plan.deploy_plan import PlannedChange
from framework.foundation.clock import timestamp_text
from framework.foundation.errors import UserError

COLUMNS = (
    "deployment_id",
    "deployed_at",
    "deployed_by",
    "git_commit",
    "bundle",
    "target",
    "change_class",
    "resources",
)
_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One deploy.

    Args:
        table: three-part name of the deployments table.
        commit: commit of the bundle's repository; empty without a repository.
    """

    table: str
    user: str
    bundle: str
    target: str
    commit: str = ""


def check_table(workspace: Workspace, table: str) -> None:
    """Check, before anything is deployed, that the deployments table has a valid name and a warehouse to write it.

    Raises:
        UserError: DEPLOY_OPTION_INVALID, DEPLOY_WAREHOUSE_MISSING.
    """
    parts = table.split(".")
    if len(parts) != _PARTS or not all(part.strip() for part in parts) or "`" in table:
        raise UserError("DEPLOY_OPTION_INVALID", option="--table", text=table, expected="CATALOG.SCHEMA.TABLE")
    require_warehouse(workspace, f"a warehouse is needed to write the deployments table {table}")


def record_deployment(workspace: Workspace, deployment: Deployment, done: Sequence[PlannedChange]) -> None:
    """Write one row for a deploy; after a lost response the row is looked up by its id before a retry.

    Raises:
        OperationError: DEPLOY_STATEMENT_FAILED.
    """
    table = ".".join(f"`{part}`" for part in deployment.table.split("."))
    reported = [change for change in done if change.acts or change.fields]
    worst = max((change.change_class for change in reported), key=lambda each: each.rank, default=None)
    values = {
        "deployment_id": uuid4().hex,
        "deployed_at": timestamp_text(workspace.clock.now()),
        "deployed_by": deployment.user,
        "git_commit": deployment.commit,
        "bundle": deployment.bundle,
        "target": deployment.target,
        "change_class": "none" if worst is None else worst.value,
        "resources": json.dumps({change.key: _change_row(change) for change in reported}, ensure_ascii=False),
    }
    run_statement(workspace, f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(f'{name} STRING' for name in COLUMNS)})")
    insert = f"INSERT INTO {table} ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
    find = f"SELECT deployment_id FROM {table} WHERE deployment_id = :deployment_id"
    for _ in range(3):
        try:
            run_statement(workspace, insert, values, idempotent=False)
        except ResponseLost:
            if not run_statement(workspace, find, {"deployment_id": values["deployment_id"]}):
                continue
        return


def _change_row(change: PlannedChange) -> dict[str, object]:
    fields = {".".join(field.path): field.wanted for field in change.fields if field.path[0] in ("tags", "clusters")}
    return {
        "class": change.change_class.value,
        "done": change.verdict.value,
        "reason": change.reason,
        "tags": fields,
    }
