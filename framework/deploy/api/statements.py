"""SQL statements on a warehouse; rows are lists of strings, from all chunks of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from databricks.sdk.errors import NotFound, ResourceConflict

from framework.deploy.api.workspace import Workspace
from framework.foundation.errors import OperationError, UserError
from framework.foundation.secrets.secrecy import hide_in_text

_MAX_CHUNKS = 1000
_MAX_POLLS = 120
_OPEN = frozenset({"PENDING", "RUNNING"})


def require_warehouse(workspace: Workspace, purpose: str) -> None:
    """Check that a SQL warehouse is configured; `purpose` names the use of it in the error.

    Raises:
        UserError: DEPLOY_WAREHOUSE_MISSING.
    """
    if not workspace.warehouse_id:
        raise UserError("DEPLOY_WAREHOUSE_MISSING", purpose=purpose)


def run_statement(
    workspace: Workspace, statement: str, values: Mapping[str, str | None] | None = None, *, idempotent: bool = True
) -> list[Sequence[str | None]]:
    """Run a statement and return its rows.

    Args:
        workspace: workspace of the warehouse.
        statement: text of the statement.
        values: values of its named parameters.
        idempotent: whether the statement is idempotent: it is sent again if the response is lost.

    Raises:
        ResponseLost: the response is lost, the statement may have run, and `idempotent` is False.
        OperationError: DEPLOY_STATEMENT_FAILED.
        UserError: DEPLOY_WAREHOUSE_MISSING.
    """
    require_warehouse(workspace, "a SQL statement needs a warehouse")
    parameters = [{"name": name, "value": value} for name, value in (values or {}).items()]
    body = {
        "statement": statement,
        "warehouse_id": workspace.warehouse_id,
        "wait_timeout": "30s",
        **({"parameters": parameters} if parameters else {}),
    }
    send = workspace.repeat if idempotent else workspace.write
    try:
        response = send("POST", "/api/2.0/sql/statements", body)
    except (NotFound, ResourceConflict) as refusal:
        raise OperationError("DEPLOY_STATEMENT_FAILED", cause=hide_in_text(str(refusal))) from None
    path = f"/api/2.0/sql/statements/{response['statement_id']}"
    for _ in range(_MAX_POLLS):
        if response["status"]["state"] not in _OPEN:
            break
        workspace.clock.sleep(1)
        response = workspace.read(path)
    if response["status"]["state"] != "SUCCEEDED":
        error = response["status"].get("error") or {}
        cause = hide_in_text(str(error.get("message", response["status"]["state"])))
        raise OperationError("DEPLOY_STATEMENT_FAILED", cause=cause)
    chunk = response.get("result") or {}
    rows: list[Sequence[str | None]] = list(chunk.get("data_array") or [])
    for _ in range(_MAX_CHUNKS):
        following = chunk.get("next_chunk_index")
        if following is None:
            return rows
        chunk = workspace.read(f"{path}/result/chunks/{following}")
        rows += chunk.get("data_array") or []
    raise OperationError("DEPLOY_STATEMENT_FAILED", cause="The result has too many chunks.")
