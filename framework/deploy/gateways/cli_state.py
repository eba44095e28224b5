"""Deployment state of the Databricks CLI: the ids of a target's resources.

Its Terraform engine writes `terraform.tfstate`, its direct engine `resources.json`, both into the target's state path.
A target that was migrated from one engine to the other can have both; the file with the higher serial is current.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.workspace import Workspace, error_name
from framework.foundation.errors import OperationError

_TERRAFORM_STATE = "terraform.tfstate"
_DIRECT_STATE = "resources.json"
_TERRAFORM_VERSION = 4
_DIRECT_VERSIONS = range(4)
_TERRAFORM_KINDS: Mapping[str, str] = {
    "databricks_pipeline": "pipelines",
    "databricks_job": "jobs",
    "databricks_schema": "schemas",
    "databricks_volume": "volumes",
}


class StateUnknown(OperationError):  # noqa: N818 - named after the unknown value; it has its own exit code
    """The gateways that a deploy would change are unknown, so the deploy must not run."""

    exit_code = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class CliState:
    """One state file: ids by resource key, for the kinds of resources that Sluice deploys."""

    path: str
    lineage: str
    serial: int
    ids: Mapping[str, str]


def read_cli_state(workspace: Workspace, folder: str) -> CliState | None:
    """Return the state of the Databricks CLI in a state path; None if there is no state file.

    Raises:
        StateUnknown: a file can't be read, or two files conflict.
    """
    found = [
        state
        for name, ids_in in ((_TERRAFORM_STATE, _terraform_ids), (_DIRECT_STATE, _direct_ids))
        if (state := _read(workspace, f"{folder}/{name}", ids_in)) is not None
    ]
    if len(found) == 2:
        one, other = found
        if one.lineage != other.lineage or one.serial == other.serial:
            cause = f"{one.path} and {other.path} belong to different deployments, or have the same serial number"
            raise StateUnknown("GUARD_STATE_UNKNOWN", cause=cause)
    return max(found, key=lambda state: state.serial, default=None)


def _read(workspace: Workspace, path: str, ids_in: Callable[[Any], dict[str, str] | str]) -> CliState | None:
    try:
        text = workspace.read_file(path)
        if text is None:
            return None
        row = json.loads(text)
        found = ids_in(row)
        if not isinstance(found, str):
            return CliState(path=path, lineage=str(row["lineage"]), serial=int(row["serial"]), ids=found)
        cause = found
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        cause = type(error).__name__
    except (OperationError, DatabricksError) as error:
        cause = error_name(error)
    raise StateUnknown("GUARD_STATE_UNKNOWN", cause=f"{path} cannot be read: {cause}")


def _terraform_ids(row: Any) -> dict[str, str] | str:
    """Return the ids of the managed resources, or the reason why they are unknown."""
    if row["version"] != _TERRAFORM_VERSION:
        return f"version {row['version']} is not supported"
    ids = {}
    for resource in row["resources"]:
        kind = _TERRAFORM_KINDS.get(resource["type"]) if resource["mode"] == "managed" else None
        for instance in resource["instances"] if kind is not None else ():
            if "deposed" in instance or instance.get("status") == "tainted":
                return f"{kind}.{resource['name']} is being replaced"
            ids[f"{kind}.{resource['name']}"] = str(instance["attributes"]["id"])
    return ids


def _direct_ids(row: Any) -> dict[str, str] | str:
    """Return the ids of the resources, or the reason why they are unknown.

    Permissions and grants have entries of their own below a resource, which are skipped.
    """
    if row.get("state_version", 0) not in _DIRECT_VERSIONS or row.get("features"):
        return f"version {row.get('state_version')} or one of its features is not supported"
    ids = {}
    for path, entry in (row.get("state") or {}).items():
        root, kind, name = [*path.split(".", 2), "", ""][:3]
        if root == "resources" and kind in _TERRAFORM_KINDS.values() and "." not in name:
            ids[f"{kind}.{name}"] = str(entry["__id__"])
    return ids
