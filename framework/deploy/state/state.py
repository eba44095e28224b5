"""What a target has deployed: ids and settings, kept in the workspace, written after each resource."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.bundle import FrozenSpec
from framework.deploy.state.redaction import hidden_spec
from framework.foundation.errors import OperationError

STATE_FILE = "sluice-state.json"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One resource of the target.

    Args:
        id: None while it is being made: a `create` may or may not have taken effect.
        spec: the bundle's settings, references resolved, as last deployed; kept with its secret values hidden.
        remote: what the service made of them.
        deferred: a digest of the changes that wait for the next wanted one, when they were put on record.
    """

    key: str
    kind: str
    id: str | None
    spec: FrozenSpec
    remote: FrozenSpec | None = None
    depends_on: tuple[str, ...] = ()
    prevent_destroy: bool = False
    deferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployState:
    """All that a target has deployed.

    Args:
        lineage: tells one state from another that was begun anew.
        serial: counts the writes.
        files: hashes of the uploaded files by path.
    """

    lineage: str
    serial: int = 0
    resources: tuple[Deployed, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def get(self, key: str) -> Deployed | None:
        """The resource of that key."""
        return next((each for each in self.resources if each.key == key), None)

    def with_resource(self, resource: Deployed) -> DeployState:
        """The state after a resource was deployed."""
        others = tuple(each for each in self.resources if each.key != resource.key)
        return replace(self, serial=self.serial + 1, resources=(*others, resource))

    def without(self, key: str) -> DeployState:
        """The state after a resource was deleted."""
        others = tuple(each for each in self.resources if each.key != key)
        return replace(self, serial=self.serial + 1, resources=others)

    def with_files(self, files: tuple[tuple[str, str], ...]) -> DeployState:
        """The state after files were uploaded."""
        return replace(self, serial=self.serial + 1, files=files)

    def to_json(self) -> str:
        """The state as text."""
        return json.dumps(
            {
                "version": _VERSION,
                "lineage": self.lineage,
                "serial": self.serial,
                "resources": {each.key: _row(each) for each in sorted(self.resources, key=lambda each: each.key)},
                "files": dict(self.files),
            },
            indent=1,
            ensure_ascii=False,
        )


def new_state() -> DeployState:
    """A state that holds nothing."""
    return DeployState(lineage=uuid4().hex)


def read_state(workspace: Workspace, folder: str) -> DeployState | None:
    """The state of a target; None when it was never deployed.

    Raises:
        OperationError: DEPLOY_STATE_INVALID when the file is there and can't be read: nothing is guessed.
    """
    path = f"{folder}/{STATE_FILE}"
    text = workspace.read_file(path)
    if text is None:
        return None
    try:
        row = json.loads(text)
        if row["version"] != _VERSION:
            raise OperationError("DEPLOY_STATE_INVALID", path=path, cause=f"its version is {row['version']}")
        return DeployState(
            lineage=row["lineage"],
            serial=row["serial"],
            resources=tuple(_parse(key, each) for key, each in row["resources"].items()),
            files=tuple(row["files"].items()),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OperationError("DEPLOY_STATE_INVALID", path=path, cause=type(error).__name__) from None


def write_state(workspace: Workspace, folder: str, state: DeployState) -> None:
    """Keep a state; its folder must be there."""
    workspace.write_file(f"{folder}/{STATE_FILE}", state.to_json().encode("utf-8"))


def _row(resource: Deployed) -> dict[str, Any]:
    return {
        "kind": resource.kind,
        "id": resource.id,
        "spec": hidden_spec(resource.spec).as_dict(),
        "remote": None if resource.remote is None else hidden_spec(resource.remote).as_dict(),
        "depends_on": list(resource.depends_on),
        "prevent_destroy": resource.prevent_destroy,
        "deferred": resource.deferred,
    }


def _parse(key: str, row: dict[str, Any]) -> Deployed:
    return Deployed(
        key=key,
        kind=row["kind"],
        id=row["id"],
        spec=FrozenSpec.of(row["spec"]),
        remote=None if row["remote"] is None else FrozenSpec.of(row["remote"]),
        depends_on=tuple(row["depends_on"]),
        prevent_destroy=row["prevent_destroy"],
        deferred=row["deferred"],
    )
