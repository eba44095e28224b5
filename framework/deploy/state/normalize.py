"""Normalisation of settings, so that the service's own spelling and defaults are not differences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FieldPath = tuple[str, ...]
Leaves = Mapping[FieldPath, str]
"""Fields by path with their values as JSON; items of a keyed list have their key in the path."""

_FILLED_IN: Mapping[str, frozenset[str]] = {
    "pipelines": frozenset(
        {
            "id",
            "pipeline_type",
            "data_sampling",
            "deployment",
            "expected_last_modified",
            "allow_duplicate_names",
            "dry_run",
            "creator_user_name",
            "run_as_user_name",
            "last_modified",
        }
    ),
    "jobs": frozenset({"deployment", "edit_mode"}),
    "schemas": frozenset(
        {
            "full_name",
            "owner",
            "created_at",
            "created_by",
            "updated_at",
            "updated_by",
            "catalog_type",
            "metastore_id",
            "schema_id",
            "effective_predictive_optimization_flag",
            "browse_only",
            "storage_location",
        }
    ),
    "volumes": frozenset(
        {"full_name", "owner", "created_at", "created_by", "updated_at", "updated_by", "metastore_id", "volume_id"}
    ),
}
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "pipelines": {
        "continuous": False,
        "development": False,
        "serverless": False,
        "photon": False,
        "channel": "CURRENT",
        "edition": "ADVANCED",
    },
    "jobs": {"format": "MULTI_TASK", "max_concurrent_runs": 1, "timeout_seconds": 0, "queue": {"enabled": True}},
    "schemas": {},
    "volumes": {"volume_type": "MANAGED"},
}
_TASK_DEFAULTS = {"run_if": "ALL_SUCCESS", "timeout_seconds": 0}
_NOT_COMPARED = frozenset({"permissions", "grants", "lifecycle"})
_UPPER: Mapping[str, frozenset[str]] = {"pipelines": frozenset({"channel", "edition"})}
_LOWER: Mapping[str, frozenset[str]] = {
    "pipelines": frozenset({"catalog"}),
    "schemas": frozenset({"name", "catalog_name"}),
    "volumes": frozenset({"name", "catalog_name", "schema_name"}),
}
_LIST_KEYS: Mapping[str, str] = {
    "tasks": "task_key",
    "job_clusters": "job_cluster_key",
    "parameters": "name",
    "clusters": "label",
    "depends_on": "task_key",
    "environments": "environment_key",
}
_SETS = frozenset(
    {
        # pipelines
        "libraries",
        "objects",
        "notifications",
        "alerts",
        "email_recipients",
        "primary_keys",
        "include_columns",
        "exclude_columns",
        "days_of_week",
        "ssh_public_keys",
        # jobs
        "on_start",
        "on_success",
        "on_failure",
        "on_duration_warning_threshold_exceeded",
        "on_streaming_backlog_exceeded",
        "rules",
        "table_names",
        "subscriptions",
        "refresh_selection",
        "full_refresh_selection",
        # access
        "permissions",
        "grants",
        "privileges",
    }
)
"""Lists whose order is irrelevant, at any depth. All other lists are compared in order."""


def normalise(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Remove fields that the service sets, defaults and empty values, and fold case where the service does.

    The function is idempotent. Unknown fields stay, so that they are differences.

    Examples:
        >>> normalise("pipelines", {"name": "p", "channel": "preview", "id": "1", "continuous": False, "tags": {}})
        {'name': 'p', 'channel': 'PREVIEW'}
    """
    dropped = _FILLED_IN.get(kind, frozenset()) | _NOT_COMPARED
    storage = f"dbfs:/pipelines/{spec.get('id')}" if spec.get("id") else None
    found: dict[str, Any] = {}
    for key, value in spec.items():
        folded = _folded(kind, key, value)
        if key in dropped or _is_empty(folded) or (key == "storage" and value == storage):
            continue
        if key in (defaults := _DEFAULTS.get(kind, {})) and folded == defaults[key]:
            continue
        found[key] = _tasks(folded) if kind == "jobs" and key == "tasks" else folded
    return found


def flatten(spec: Mapping[str, Any]) -> dict[FieldPath, str]:
    """Return the fields of settings by path; the order of keyed and set-like lists has no effect.

    Examples:
        >>> flatten({"tasks": [{"task_key": "b", "n": 1}], "tags": {"team": "a"}})
        {('tasks', 'b', 'n'): '1', ('tasks', 'b', 'task_key'): '"b"', ('tags', 'team'): '"a"'}
    """
    leaves: dict[FieldPath, str] = {}
    for key, value in spec.items():
        _collect((key,), key, value, leaves)
    return leaves


def _collect(path: FieldPath, name: str, value: Any, leaves: dict[FieldPath, str]) -> None:
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            _collect((*path, str(key)), str(key), value[key], leaves)
    elif isinstance(value, list) and value and (keyed := _keyed(name, value)) is not None:
        for key in sorted(keyed):
            _collect((*path, key), "", keyed[key], leaves)
    else:
        leaves[path] = _json(_canonical(name, value))


def _canonical(name: str, value: Any) -> Any:
    """Return a value with keyed and set-like lists sorted at any depth; `name` is the name of its field."""
    if isinstance(value, Mapping):
        return {key: _canonical(str(key), each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    items = [_canonical("", each) for each in value]
    return sorted(items, key=_json) if name in _SETS or _keyed(name, items) is not None else items


def _keyed(name: str, items: list[Any]) -> dict[str, Any] | None:
    """Return the items of a list by key; None if the list has no key, or two items share one."""
    key = _LIST_KEYS.get(name)
    if key is None or not all(isinstance(item, Mapping) for item in items):
        return None
    by_key = {str(item.get(key, "default")): item for item in items}
    return by_key if len(by_key) == len(items) else None


def _folded(kind: str, key: str, value: Any) -> Any:
    if isinstance(value, str) and key in _UPPER.get(kind, frozenset()):
        return value.upper()
    if isinstance(value, str) and key in _LOWER.get(kind, frozenset()):
        return value.lower()
    return _without_empty(value)


def _without_empty(value: Any) -> Any:
    """Return a value without empty fields; empty items of lists stay, because their number is significant."""
    if isinstance(value, Mapping):
        inner = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if not _is_empty(each)}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, [])


def _tasks(tasks: Any) -> Any:
    return [_task(task) for task in tasks] if isinstance(tasks, list) else tasks


def _task(task: Any) -> Any:
    """Return a task without its defaults, also for the nested task of a `for_each_task`."""
    if not isinstance(task, Mapping):
        return task
    found = {key: value for key, value in task.items() if _TASK_DEFAULTS.get(key, ...) != value}
    if isinstance(loop := found.get("for_each_task"), Mapping) and "task" in loop:
        found["for_each_task"] = {**loop, "task": _task(loop["task"])}
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
