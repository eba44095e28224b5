"""A bundle to deploy: one target with all values resolved except ids that the workspace assigns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.deploy.bundle.documents.artifacts import Artifact
from framework.deploy.bundle.documents.findings import BundleFinding
from framework.foundation.locations import SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenSpec:
    """JSON-like settings as an immutable, comparable and hashable value."""

    text: str

    @classmethod
    def of(cls, value: dict[str, Any]) -> FrozenSpec:
        """Return the settings of a dictionary."""
        return cls(text=json.dumps(value, sort_keys=True, ensure_ascii=False))

    def as_dict(self) -> dict[str, Any]:
        """Return a new dictionary of the settings."""
        value: dict[str, Any] = json.loads(self.text)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource.

    Args:
        key: `pipelines.flights`.
        kind: `pipelines`, `jobs`, `schemas` or `volumes`.
        name: its name in the workspace.
        spec: its settings; references such as `${resources.X.Y.id}` are resolved later, by plan and apply.
        depends_on: keys of the resources that its settings refer to.
        prevent_destroy: whether its deletion is refused.
        secrets: digests of the texts in the bundle that are secret, under any name of a field.
    """

    key: str
    kind: str
    name: str
    spec: FrozenSpec
    location: SourceLocation | None = None
    depends_on: tuple[str, ...] = ()
    prevent_destroy: bool = False
    secrets: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One target of a bundle.

    Args:
        root: folder of `databricks.yml`.
        state_path: workspace folder of state and lock.
        file_path: workspace folder of the synced files.
        artifact_path: workspace folder of the packages.
        sync: files to upload, relative to `root`.
        packages: packages to upload: path in the workspace, path relative to `root`.
        artifacts: packages to build before a deploy.
        locks: whether a deploy takes the target's lock.
        findings: findings of the checks and the lint.
        configuration: all sections, resolved, with the resources as they are deployed.
        secrets: digests of the secret texts.
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
    findings: tuple[BundleFinding, ...] = ()
    configuration: FrozenSpec = FrozenSpec(text="{}")
    secrets: frozenset[str] = frozenset()
