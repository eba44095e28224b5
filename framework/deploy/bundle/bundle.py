"""A bundle as it is deployed: one target, everything resolved but the ids that the workspace gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.deploy.bundle.artifacts import Artifact
from framework.deploy.bundle.findings import Finding
from framework.foundation.locations import SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSpec:
    """JSON-like settings as a value: compares, hashes, and can't be changed."""

    text: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> FrozenSpec:
        """The settings of a dictionary."""
        return cls(text=json.dumps(value, sort_keys=True, ensure_ascii=False))

    def as_dict(self) -> dict[str, Any]:
        """A new dictionary of the settings."""
        value: dict[str, Any] = json.loads(self.text)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource.

    Args:
        key: `pipelines.flights`.
        kind: `pipelines`, `jobs`, `schemas` or `volumes`.
        name: its name in the workspace.
        spec: its settings; `${resources.X.Y.id}` stands in them until apply.
        depends_on: keys of the resources whose ids it names.
        prevent_destroy: whether deleting it is refused.
    """

    key: str
    kind: str
    name: str
    spec: FrozenSpec
    location: SourceLocation | None = None
    depends_on: tuple[str, ...] = ()
    prevent_destroy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle's one target.

    Args:
        root: the folder of `databricks.yml`.
        state_path: where state and lock lie in the workspace.
        file_path: where the synced files lie in the workspace.
        artifact_path: where packages lie in the workspace.
        sync: the files to upload, relative to `root`.
        packages: the packages to upload: path in the workspace, path relative to `root`.
        artifacts: what is built before a deploy.
        locks: whether a deploy takes the target's lock.
        findings: what checks and the lint found.
        configuration: all sections, resolved, with the resources as they are deployed.
    """

    name: str
    target: str
    mode: str | None
    root_path: str
    state_path: str
    file_path: str
    root: Path
    resources: tuple[Resource, ...] = ()
    artifact_path: str = ""
    sync: tuple[str, ...] = ()
    packages: tuple[tuple[str, str], ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    locks: bool = True
    findings: tuple[Finding, ...] = ()
    configuration: FrozenSpec = FrozenSpec(text="{}")
