"""SQL statements on a warehouse: rows as lists of texts, all chunks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.deploy.workspace import Workspace
from framework.foundation.errors import OperationError

_MOST_CHUNKS = 1000
_MOST_POLLS = 120
_OPEN = frozenset({"PENDING", "RUNNING"})


def run_statement(
    workspace: Workspace, statement: str, values: Mapping[str, str | None] | None = None, *, again: bool = True
) -> list[Sequence[str | None]]:
    """The rows of a statement.

    Args:
        workspace: where it runs.
        statement: its text.
        values: of its named parameters.
        again: whether it may be sent again when its answer is lost.

    Raises:
        AnswerLost: it may have run, and `again` is False.
        OperationError: DEPLOY_STATEMENT_FAILED when there is no warehouse or it fails.
    """
    if not workspace.warehouse_id:
        raise OperationError("DEPLOY_STATEMENT_FAILED", cause="no warehouse is configured (DATABRICKS_WAREHOUSE_ID).")
    parameters = [{"name": name, "value": value} for name, value in (values or {}).items()]
    body = {
        "statement": statement,
        "warehouse_id": workspace.warehouse_id,
        "wait_timeout": "30s",
        **({"parameters": parameters} if parameters else {}),
    }
    send = workspace.repeat if again else workspace.write
    answer = send("POST", "/api/2.0/sql/statements", body)
    path = f"/api/2.0/sql/statements/{answer['statement_id']}"
    for _ in range(_MOST_POLLS):
        if answer["status"]["state"] not in _OPEN:
            break
        workspace.clock.sleep(1)
        answer = workspace.read(path)
    if answer["status"]["state"] != "SUCCEEDED":
        error = answer["status"].get("error") or {}
        raise OperationError("DEPLOY_STATEMENT_FAILED", cause=error.get("message", answer["status"]["state"]))
    chunk = answer.get("result") or {}
    rows: list[Sequence[str | None]] = list(chunk.get("data_array") or [])
    for _ in range(_MOST_CHUNKS):
        following = chunk.get("next_chunk_index")
        if following is None:
            return rows
        chunk = workspace.read(f"{path}/result/chunks/{following}")
        rows += chunk.get("data_array") or []
    raise OperationError("DEPLOY_STATEMENT_FAILED", cause="its result has no end")
