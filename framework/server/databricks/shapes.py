"""Pipelines, updates and runs in Databricks' shapes."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from framework.foundation.clock import milliseconds
from framework.foundation.secrets.secrecy import hide_in_text, is_secret_name
from framework.server.pipelines import PipelineEntry
from framework.server.server import Server
from framework.server.values import Activity, UpdateRow

_LATEST = 5
_STATES = {Activity.WAITING_FOR_RESOURCES: "STARTING"}
_LIFE_CYCLES = {"WAITING_FOR_RESOURCES": "QUEUED", "QUEUED": "QUEUED", "CREATED": "PENDING", "STOPPING": "TERMINATING"}
_RESULTS = {"COMPLETED": "SUCCESS", "CANCELED": "CANCELED"}


def status(server: Server, entry: PipelineEntry) -> dict[str, Any]:
    """Return a pipeline for a list of pipelines."""
    state = server.reader(entry).state
    is_sick = state.last is not None and state.last.state in {"FAILED", "LOST"}
    return {
        "pipeline_id": entry.pipeline_id,
        "name": entry.name,
        # A failed update leaves a triggered pipeline IDLE and UNHEALTHY: clients that wait for IDLE treat FAILED as an
        # error.
        "state": _STATES.get(state.activity, str(state.activity)),
        "health": "UNHEALTHY" if is_sick else "HEALTHY",
        "creator_user_name": server.settings.user,
        "run_as_user_name": server.settings.user,
        "latest_updates": [_brief(each) for each in reversed(server.reader(entry).rows[-_LATEST:])],
    }


def pipeline(server: Server, entry: PipelineEntry) -> dict[str, Any]:
    """Return a pipeline with its spec."""
    spec = entry.spec
    try:
        modified = int(entry.spec_file.stat().st_mtime * 1000)
    except OSError:
        modified = 0
    return {
        **status(server, entry),
        "cause": server.reader(entry).state.attention or "",
        "last_modified": modified,
        "spec": {
            "id": entry.pipeline_id,
            "name": entry.name,
            "storage": spec.storage,
            "catalog": spec.catalog,
            "schema": spec.schema,
            "continuous": spec.continuous,
            "development": spec.development,
            "configuration": {
                name: "[REDACTED]" if is_secret_name(name) else hide_in_text(value)
                for name, value in spec.configuration
            },
            "libraries": [{"glob": {"include": each.pattern}} for each in spec.libraries],
            "channel": "CURRENT",
            "edition": "ADVANCED",
        },
    }


def update(row: UpdateRow) -> dict[str, Any]:
    """Return an update; its creation time is in milliseconds here, and a text in a pipeline's latest updates."""
    options = row.options
    return {
        "pipeline_id": row.pipeline_id,
        "update_id": row.update_id,
        "state": state_of(row),
        "cause": row.cause,
        "creation_time": _milliseconds(row.created_at),
        "full_refresh": options.full_refresh,
        "refresh_selection": list(options.refresh_selection),
        "full_refresh_selection": list(options.full_refresh_selection),
        "validate_only": options.validate_only,
        "mode": "CONTINUOUS" if options.continuous else "DEFAULT",
    }


def state_of(row: UpdateRow) -> str:
    """Return Databricks' state of an update; a lost one has failed."""
    return "FAILED" if row.state == "LOST" else row.state


def run_id_of(update_id: str) -> int:
    """Return the number by which jobs know a run: the first 52 bits of its update's id, exact in every client."""
    try:
        return int(update_id.replace("-", "")[:13], 16)
    except ValueError:  # another program has written the log, with ids of its own
        return int(hashlib.sha256(update_id.encode()).hexdigest()[:13], 16)


def run(entry: PipelineEntry, row: UpdateRow) -> dict[str, Any]:
    """Return an update as the run of a job."""
    number, begun, ended = run_id_of(row.update_id), _milliseconds(row.created_at), _milliseconds(row.ended_at)
    state: dict[str, Any] = {
        "life_cycle_state": "TERMINATED" if row.has_ended else _LIFE_CYCLES.get(row.state, "RUNNING"),
        "state_message": row.error or "",
        "user_cancelled_or_timedout": row.state == "CANCELED",
    }
    if row.has_ended:
        state["result_state"] = _RESULTS.get(row.state, "FAILED")
    task = {
        "run_id": number,
        "task_key": "pipeline",
        "pipeline_task": {"pipeline_id": entry.pipeline_id},
        "state": state,
    }
    return {
        "run_id": number,
        "job_id": number,
        "run_name": entry.name,
        "run_page_url": f"/p/{entry.name}/u/{row.update_id}",
        "run_type": "SUBMIT_RUN",
        "creator_user_name": row.user or "",
        "start_time": begun,
        "end_time": ended or 0,
        "state": state,
        "tasks": [task],
    }


def _brief(row: UpdateRow) -> dict[str, Any]:
    return {"update_id": row.update_id, "state": state_of(row), "creation_time": row.created_at}


def _milliseconds(text: str | None) -> int | None:
    return None if text is None else milliseconds(text)


def utc(text: str) -> datetime:
    """Parse a time in ISO 8601.

    Raises:
        ValueError: it is none, or has no zone.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return found
