"""Databricks' own command line for tests of the guard: its state files, and a deploy that writes differences."""

from __future__ import annotations

import json
from typing import Any

from framework.deploy.bundle.checks.references import resolve
from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.state.resource_api import Remote, remote_kinds
from framework.testing.workspace.stand_in import StandIn
from tests.support.direct_workspace import DirectWorkspace

TERRAFORM = "terraform.tfstate"
DIRECT = "resources.json"
_TYPES = {"pipelines": "pipeline", "jobs": "job", "schemas": "schema", "volumes": "volume"}


class ForeignCli:
    """Deploys a bundle to a stand-in, and stores its state in the format of one of the two engines."""

    def __init__(self, served: StandIn, *, engine: str = DIRECT) -> None:
        self._served = served
        self._engine = engine
        self._ids: dict[str, str] = {}
        self._specs: dict[str, dict[str, Any]] = {}
        self._serial = 0

    def deploy(self, bundle: Bundle) -> dict[str, str]:
        """Create missing resources and write those that differ from the last deploy; returns the ids by key."""
        kinds = remote_kinds(DirectWorkspace(self._served))
        owner = f"{bundle.state_path}/metadata.json"
        specs = {each.key: each.spec for each in bundle.resources}
        for resource in bundle.resources:
            spec = resolve(resource.spec.as_dict(), self._ids, specs)
            if resource.key not in self._ids:
                self._ids[resource.key] = kinds[resource.kind].create(spec, owner)
            elif spec != self._specs[resource.key]:
                remote = Remote(id=self._ids[resource.key], spec=resource.spec)
                kinds[resource.kind].replace(remote, spec, owner)
            self._specs[resource.key] = spec
        self._serial += 1
        write_state(self._served, bundle, self._ids, engine=self._engine, serial=self._serial)
        return dict(self._ids)


def write_state(
    served: StandIn, bundle: Bundle, ids: dict[str, str], *, engine: str, serial: int = 1, lineage: str = "one"
) -> None:
    """Write the state file of an engine into the target's state path."""
    make = _terraform if engine == TERRAFORM else _direct
    text = json.dumps({**make(ids), "serial": serial, "lineage": lineage})
    served.files.folders.add(bundle.state_path)
    served.files.files[f"{bundle.state_path}/{engine}"] = text.encode()


def _terraform(ids: dict[str, str]) -> dict[str, Any]:
    rows = [
        {
            "mode": "managed",
            "type": f"databricks_{_TYPES[key.partition('.')[0]]}",
            "name": key.partition(".")[2],
            "instances": [{"schema_version": 0, "attributes": {"id": found}}],
        }
        for key, found in ids.items()
    ]
    beside = {"mode": "data", "type": "databricks_job", "name": "other", "instances": []}
    dashboard = {
        "mode": "managed",
        "type": "databricks_dashboard",
        "name": "d",
        "instances": [{"attributes": {"id": "1"}}],
    }
    return {"version": 4, "terraform_version": "1.5.5", "outputs": {}, "resources": [*rows, beside, dashboard]}


def _direct(ids: dict[str, str]) -> dict[str, Any]:
    state = {f"resources.{key}": {"__id__": found, "state": {}} for key, found in ids.items()}
    access = {f"resources.{key}.permissions": {"__id__": f"/{key}/{found}", "state": {}} for key, found in ids.items()}
    return {"state_version": 2, "cli_version": "1", "state": {**state, **access, "resources.apps.a": {"__id__": "a"}}}
