"""The bundle at the root is valid for Databricks, and declares the pipelines of this repository."""

from __future__ import annotations

import re
from typing import Any

import yaml
from databricks.sdk.service.jobs import CronSchedule, Task
from databricks.sdk.service.pipelines import PipelineSpec

from tests.support.sources import ROOT

_TOP_LEVEL = {
    "artifacts", "bundle", "experimental", "include", "permissions", "presets", "python", "resources", "run_as",
    "scripts", "sync", "targets", "variables", "workspace",
}  # fmt: skip
_TARGET = {
    "default", "mode", "presets", "bundle", "workspace", "artifacts", "resources", "variables", "git", "run_as", "sync",
    "permissions",
}  # fmt: skip

_FILES = ("databricks.yml", "bundles/flights.yml", "bundles/rendered/sales.yml")


def load(path: str) -> dict[str, Any]:
    """A YAML file of the repository."""
    content: dict[str, Any] = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return content


def flights() -> dict[str, Any]:
    """The resources of dev and prod, which are the same."""
    targets = load("bundles/flights.yml")["targets"]
    assert targets["dev"] == targets["prod"]
    resources: dict[str, Any] = targets["prod"]["resources"]
    return resources


def test_the_root_file_has_only_what_the_format_knows() -> None:
    """Top-level and target keys are the format's; `dev` is the default target, `prod` has its own root path."""
    root = load("databricks.yml")
    assert set(root) - _TOP_LEVEL == set()
    assert {key for target in root["targets"].values() for key in target} - _TARGET == set()
    assert {name: target["mode"] for name, target in root["targets"].items()} == {
        "dev": "development",
        "prod": "production",
    }
    rendered = load("bundles/rendered/sales.yml")
    assert {key for target in rendered["targets"].values() for key in target} - _TARGET == set()
    assert set(rendered) == {"targets"}
    assert root["targets"]["dev"]["default"] is True
    assert "root_path" in root["targets"]["prod"]["workspace"]


def test_every_variable_that_is_used_is_declared() -> None:
    """`${var.x}` has a declaration with a default."""
    text = "".join((ROOT / path).read_text("utf-8") for path in _FILES)
    declared = {name for name, variable in load("databricks.yml")["variables"].items() if "default" in variable}
    assert set(re.findall(r"\$\{var\.(\w+)\}", text)) == declared


def test_the_flights_resource_is_the_pipeline_that_runs_here() -> None:
    """Name, schema, configuration keys and libraries are those of the spec."""
    resource = flights()["pipelines"]["flights"]
    spec = load("pipelines/flights/pipeline.yml")
    assert (resource["name"], resource["schema"]) == (spec["name"], spec["schema"])
    assert set(resource["configuration"]) == set(spec["configuration"])
    prefix = "../pipelines/flights/"
    included = [library["glob"]["include"].removeprefix(prefix) for library in resource["libraries"]]
    assert included == [library["glob"]["include"] for library in spec["libraries"]]


def test_the_service_knows_every_field_of_the_resources() -> None:
    """Each field of the pipeline and the job is one of the SDK's, so none is dropped silently."""
    resources = flights()
    assert set(resources["pipelines"]["flights"]) - set(PipelineSpec.__dataclass_fields__) == set()
    job = resources["jobs"]["flights"]
    assert CronSchedule.from_dict(job["schedule"]).as_dict() == job["schedule"]
    assert [Task.from_dict(task).as_dict() for task in job["tasks"]] == job["tasks"]
