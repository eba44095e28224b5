"""State of a target: ids and settings of its resources, stored in the workspace and written after each resource."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.documents.bundle import FrozenSpec
from framework.foundation.errors import OperationError
from framework.foundation.files.stored_format import StoredFormat
from framework.foundation.secrets.secrecy import digests_in, hide_all, hide_secrets

STATE_FILE = "sluice-state.json"
_FORMAT = StoredFormat(1)
_NAMES = ("name", "catalog_name", "schema_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One resource of the target.

    Args:
        id: id in the workspace; None during creation, when a `create` may or may not have taken effect.
        spec: the bundle's settings at the last deploy, references resolved; stored with secret values hidden.
        remote: the settings in the service right after the last deploy.
        deferred: digest of the recorded deferred changes.
        secrets: digests of the texts that are secret under any name; not stored, but read from hidden texts.
    """

    key: str
    kind: str
    id: str | None
    spec: FrozenSpec
    remote: FrozenSpec | None = None
    depends_on: tuple[str, ...] = ()
    prevent_destroy: bool = False
    deferred: str = ""
    secrets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployState:
    """State of a target.

    Args:
        lineage: unique id of the state's history; a new state has a new one.
        serial: number of changes.
        files: hashes of the uploaded files by path.
    """

    lineage: str
    serial: int = 0
    resources: tuple[Deployed, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def get(self, key: str) -> Deployed | None:
        """Return the resource of a key; None if there is none."""
        return next((each for each in self.resources if each.key == key), None)

    def with_resource(self, resource: Deployed) -> DeployState:
        """Return the state with a resource added or replaced."""
        others = tuple(each for each in self.resources if each.key != resource.key)
        return replace(self, serial=self.serial + 1, resources=(*others, resource))

    def without(self, key: str) -> DeployState:
        """Return the state without a resource."""
        others = tuple(each for each in self.resources if each.key != key)
        return replace(self, serial=self.serial + 1, resources=others)

    def with_files(self, files: tuple[tuple[str, str], ...]) -> DeployState:
        """Return the state with new hashes of files."""
        return replace(self, serial=self.serial + 1, files=files)

    def to_json(self) -> str:
        """Return the state as JSON."""
        return _FORMAT.text(
            {
                "lineage": self.lineage,
                "serial": self.serial,
                "resources": {each.key: _row(each) for each in sorted(self.resources, key=lambda each: each.key)},
                "files": dict(self.files),
            },
            indent=1,
        )


def new_state() -> DeployState:
    """Return an empty state with a new lineage."""
    return DeployState(lineage=uuid4().hex)


def read_state(workspace: Workspace, folder: str) -> DeployState | None:
    """Read the state of a target; None if it was never deployed.

    Raises:
        OperationError: DEPLOY_STATE_INVALID or STORED_FORMAT_UNKNOWN; a state that can't be used is never ignored.
    """
    path = f"{folder}/{STATE_FILE}"
    text = workspace.read_file(path)
    if text is None:
        return None
    try:
        row = _FORMAT.content(text, path)
        return DeployState(
            lineage=row["lineage"],
            serial=row["serial"],
            resources=tuple(_parse(key, each) for key, each in row["resources"].items()),
            files=tuple(row["files"].items()),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OperationError("DEPLOY_STATE_INVALID", path=path, cause=type(error).__name__) from None


def write_state(workspace: Workspace, folder: str, state: DeployState) -> None:
    """Write a state; its folder must exist."""
    workspace.write_file(f"{folder}/{STATE_FILE}", state.to_json().encode("utf-8"))


def _row(resource: Deployed) -> dict[str, Any]:
    spec, remote = hidden_spec(resource.spec, resource.secrets).as_dict(), resource.remote
    return {
        "kind": resource.kind,
        "id": resource.id,
        "spec": spec,
        "remote": None if remote is None else _hidden_like(hidden_spec(remote, resource.secrets).as_dict(), spec),
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
        secrets=digests_in(json.dumps([row["spec"], row["remote"]])),
    )


def _hidden_like(value: Any, like: Any) -> Any:
    """Hide each text whose counterpart is hidden: an accepted value of such a field may be another secret."""
    if isinstance(value, dict) and isinstance(like, dict):
        return {key: _hidden_like(each, like.get(key)) for key, each in value.items()}
    is_secret = isinstance(value, str) and isinstance(like, str) and digests_in(json.dumps(like))
    return hide_all(value) if is_secret else value


def hidden_spec(spec: FrozenSpec, secrets: frozenset[str]) -> FrozenSpec:
    """Return settings with secret values hidden; `secrets` are the digests of texts that are secret under any name.

    The names that identify a resource stay: a deploy after a crash finds the resource by them.
    """
    plain = spec.as_dict()
    names = {field: plain[field] for field in _NAMES if field in plain}
    return FrozenSpec.of(hide_secrets(plain, secrets) | hide_secrets(names))
