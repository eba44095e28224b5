"""The state that Databricks' own command line keeps of a target: which resource of the bundle has which id.

Its Terraform engine writes `terraform.tfstate`, its direct engine `resources.json`, both into the target's state path.
A target that moved from one engine to the other can have both; the one with the higher serial counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.workspace import Workspace
from framework.deploy.gateways.event_log import condition_of
from framework.foundation.errors import OperationError

TERRAFORM_STATE = "terraform.tfstate"
DIRECT_STATE = "resources.json"
_TERRAFORM_VERSION = 4
_DIRECT_VERSIONS = range(4)
_TERRAFORM_KINDS: Mapping[str, str] = {
    "databricks_pipeline": "pipelines",
    "databricks_job": "jobs",
    "databricks_schema": "schemas",
    "databricks_volume": "volumes",
}


class StateUnknown(OperationError):  # noqa: N818 - it tells what is not known, and ends with a code of its own
    """Which gateway a deploy would reach is not known, so that the deploy must not go on."""

    exit_code = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class CliState:
    """One state file: ids by the keys of resources, of the kinds that a deploy of Sluice's knows."""

    path: str
    lineage: str
    serial: int
    ids: Mapping[str, str]


def read_cli_state(workspace: Workspace, folder: str) -> CliState | None:
    """Return the state of the command line in a state path; None when it deployed nothing there.

    Raises:
        StateUnknown: a file can't be read, or two files contradict each other.
    """
    found = [
        state
        for name, ids_in in ((TERRAFORM_STATE, _terraform_ids), (DIRECT_STATE, _direct_ids))
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
        cause = condition_of(error)
    raise StateUnknown("GUARD_STATE_UNKNOWN", cause=f"{path} cannot be read: {cause}")


def _terraform_ids(row: Any) -> dict[str, str] | str:
    """The ids of the managed resources, or why they are not known."""
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
    """The ids of the resources, or why they are not known; permissions and grants have entries below a resource."""
    if row.get("state_version", 0) not in _DIRECT_VERSIONS or row.get("features"):
        return f"version {row.get('state_version')} or one of its features is not supported"
    ids = {}
    for path, entry in (row.get("state") or {}).items():
        root, kind, name = [*path.split(".", 2), "", ""][:3]
        if root == "resources" and kind in _TERRAFORM_KINDS.values() and "." not in name:
            ids[f"{kind}.{name}"] = str(entry["__id__"])
    return ids
