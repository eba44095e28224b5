"""Databricks' routes of one-time runs, as Airflow and `jobs.submit` call them: each runs one pipeline."""

from __future__ import annotations

import re
from typing import Any

from framework.server.access.roles import Role
from framework.server.databricks import shapes
from framework.server.engines.start_request import StartRequest
from framework.server.pipelines import PipelineEntry
from framework.server.values import UpdateRow
from framework.server.web.faults import invalid, not_found, not_implemented, shortened
from framework.server.web.routes import Call, Route
from framework.server.web.updates import own_key

_LONGEST_TOKEN = 64
_NUMBER = re.compile(r"[0-9]{1,18}")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
"""Values by which clients say nothing."""
_TEXTS = {"true": True, "false": False, "True": True, "False": False}
_WITHOUT_EFFECT = ("include_history", "include_resolved_values")
"""Parameters that are accepted where they ask for nothing."""
_VERSIONS = ("2.0", "2.1", "2.2")
_OF_SUBMIT = ("tasks", "pipeline_task", "run_name", "idempotency_token", "timeout_seconds", "task_key")
_OF_TASK = ("task_key", "pipeline_task", "timeout_seconds", "description")
_OF_PIPELINE = ("pipeline_id", "full_refresh", "refresh_selection", "full_refresh_selection",
                "reset_checkpoint_selection", "parameters")  # fmt: skip


def _submit(call: Call) -> dict[str, Any]:
    task = _task_of(call.body)
    for name in task:
        if name not in _OF_PIPELINE:
            raise invalid(f"The field pipeline_task.{name} is not supported.")
    wanted = task.get("pipeline_id")
    entry = next((each for each in call.pipelines() if each.pipeline_id == wanted), None)
    if entry is None:
        raise not_found(f"The pipeline {shortened(str(wanted))!r} does not exist.")
    key = call.body.get("idempotency_token")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= _LONGEST_TOKEN):
        raise invalid(f"idempotency_token must be a text of 1 to {_LONGEST_TOKEN} characters.")
    body = {name: _plain(value) for name, value in task.items() if name != "pipeline_id" and value is not None}
    own = None if key is None else own_key(call, key, "jobs/runs/submit")
    request = StartRequest(body=body, user=call.caller.user, cause="JOB_TASK", key=own, is_compared=True)
    accepted = call.server.starter.request(entry, request)
    call.server.look_at(entry)
    return {"run_id": shapes.run_id_of(accepted.update_id)}


def _task_of(body: Any) -> dict[str, Any]:
    """Return the pipeline task of a request, which has it in a list of one task, or by itself as Airflow sends it.

    Raises:
        WebFault: 400, 501.
    """
    tasks = body.get("tasks")
    if tasks is not None and (not isinstance(tasks, list) or len(tasks) != 1 or not isinstance(tasks[0], dict)):
        raise not_implemented("A run has one task here: a pipeline_task.")
    task = tasks[0] if tasks else body
    for name, value in body.items():
        if name not in _OF_SUBMIT and value not in _EMPTY:
            raise not_implemented(f"The field {name!r} is not supported: a run has one pipeline_task.")
    for name, value in task.items() if tasks else ():
        if name not in _OF_TASK and value not in _EMPTY:
            raise not_implemented(f"The field tasks[0].{name} is not supported: a run has one pipeline_task.")
    for timeout in (body.get("timeout_seconds"), task.get("timeout_seconds")):
        if timeout not in (None, 0, "0"):
            raise not_implemented("timeout_seconds is not supported: stop the run.")
    found = task.get("pipeline_task")
    if not isinstance(found, dict):
        raise invalid("A run needs a pipeline_task.")
    return found


def _plain(value: Any) -> Any:
    """Return a value as it was meant: Airflow's hook sends numbers and booleans as texts."""
    return _TEXTS.get(value, value) if isinstance(value, str) else value


def _find(call: Call, text: Any) -> tuple[PipelineEntry, UpdateRow]:
    """Return the update of a run.

    Raises:
        WebFault: 400, 404.
    """
    if isinstance(text, bool) or not _NUMBER.fullmatch(str(text or "")):
        raise invalid("run_id must be a number.")
    for entry in call.pipelines():
        for row in call.server.reader(entry).rows:
            if shapes.run_id_of(row.update_id) == int(text):
                return entry, row
    raise not_found(f"The run {text} does not exist.")


def _get(call: Call) -> dict[str, Any]:
    for name in _WITHOUT_EFFECT:
        if call.query.get(name, "false") != "false":
            raise not_implemented(f"{name} is not supported.")
    entry, row = _find(call, call.query.get("run_id"))
    call.server.look_at(entry)
    found = call.server.reader(entry).row(row.update_id) or row
    return shapes.run(entry, found)


def _cancel(call: Call) -> dict[str, Any]:
    entry, row = _find(call, call.body.get("run_id"))
    call.server.starter.stop(entry, update_id=row.update_id, user=call.caller.user)
    call.server.look_at(entry)
    return {}


def _output(call: Call) -> dict[str, Any]:
    entry, row = _find(call, call.query.get("run_id"))
    return {"metadata": shapes.run(entry, row), **({} if row.error is None else {"error": row.error})}


RUN_ROUTES = tuple(
    route
    for version in _VERSIONS
    for root in [f"/api/{version}/jobs/runs"]
    for route in (
        Route(method="POST", path=f"{root}/submit", role=Role.OPERATE, handler=_submit, fields=None,
              summary="Run a pipeline once."),
        Route(method="GET", path=f"{root}/get", role=Role.VIEW, handler=_get, summary="A run.",
              query=("run_id", *_WITHOUT_EFFECT)),
        Route(method="POST", path=f"{root}/cancel", role=Role.OPERATE, handler=_cancel, fields=("run_id",),
              summary="Stop a run."),
        Route(method="GET", path=f"{root}/get-output", role=Role.VIEW, handler=_output, query=("run_id",),
              summary="Why a run failed."),
    )
)  # fmt: skip
"""The routes of runs, in each version of the API that clients call."""
