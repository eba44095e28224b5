"""The CI job of docs/bundles.md is executed by bash, with the stand-in behind both command lines."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.deploy.bundle.loading import load_bundle
from framework.testing.workspace import SourceTable, StandInWorkspace, serve_workspace
from framework.testing.workspace.stand_in import USER
from tests.support.foreign_cli import TERRAFORM, ForeignCli
from tests.support.ingestion_bundle import HOUR
from tests.support.sources import ROOT

GATEWAY = "sales_gateway"
RENDERED = "bundles/rendered/sales.yml"
_SHIM = """#!/bin/bash
printf '%s\\0' "$(basename "$0")" "$@" > "{calls}"
read -r code < "{answers}"
cat "{output}"
exit "$code"
"""


class Runner:
    """Runs the steps of a CI job in a copy of the bundle, as a runner of GitHub's does: each by `bash -e`."""

    def __init__(self, served: StandInWorkspace, folder: Path) -> None:
        self.served = served
        self.folder = folder
        self.databricks = ForeignCli(served, engine=TERRAFORM)
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._files = {name: folder / "bin" / name for name in ("calls", "answers", "output")}
        for name in ("calls", "answers"):
            os.mkfifo(self._files[name])
        for tool in ("sluice", "databricks"):
            path = self._bin / tool
            path.write_text(_SHIM.format(**self._files), encoding="utf-8")
            path.chmod(0o755)
        bundles = BundleSurroundings(configure=lambda _: served.config(), clock=served.clock)
        self._around = Surroundings(clock=served.clock, bundles=bundles)
        self.said: list[str] = []

    def run(self, event: str, **inputs: str) -> int:
        """Run the job for an event; the exit code of the step that failed, or 0."""
        page = (ROOT / "docs" / "bundles.md").read_text("utf-8")
        blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        (text,) = [block for block in blocks if "runs-on" in block]
        (job,) = yaml.safe_load(text)["jobs"].values()
        for step in job["steps"]:
            wanted = re.fullmatch(r"github.event_name == '(\w+)'", step.get("if", f"github.event_name == '{event}'"))
            assert wanted is not None
            if (
                "run" in step
                and step["name"] != "Install"
                and wanted[1] == event
                and (code := self._step(step["run"], inputs))
            ):
                return code
        return 0

    def edit(self, old: str, new: str) -> None:
        """Change the bundle's rendered file, wherever it has that text."""
        file = self.folder / RENDERED
        text = file.read_text("utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def _step(self, script: str, inputs: dict[str, str]) -> int:
        environment = {**os.environ, **inputs, "PATH": f"{self._bin}:{os.environ['PATH']}"}
        answering = threading.Thread(target=self._answer_calls)
        answering.start()
        done = subprocess.run(
            ["bash", "-e", "-c", script], env=environment, cwd=self.folder, check=False, timeout=120, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self._files["calls"].write_text("", encoding="utf-8")
        answering.join(timeout=120)
        self.said.append(done.stdout)
        return done.returncode

    def _answer_calls(self) -> None:
        """Answer each call of a tool in this process, so that it uses the virtual clock; an empty call is the last."""
        while call := self._files["calls"].read_text("utf-8"):
            tool, *arguments = call.split("\0")[:-1]
            code, output = self._sluice(arguments) if tool == "sluice" else self._databricks(arguments)
            self._files["output"].write_text(output, encoding="utf-8")
            self._files["answers"].write_text(f"{code}\n", encoding="utf-8")

    def _sluice(self, arguments: list[str]) -> tuple[int, str]:
        result = CliRunner().invoke(cli, arguments, obj=self._around)
        return result.exit_code, result.output

    def _databricks(self, arguments: list[str]) -> tuple[int, str]:
        assert arguments == ["bundle", "deploy", "--target", "ingestion"]
        self.databricks.deploy(
            load_bundle(self.folder, target="ingestion", variables={}, user=USER, environment={}, look_up=None)
        )
        return 0, "Deployment complete!\n"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    """A runner with a workspace and a copy of this repository's bundle."""
    for name in ("bundles", "pipelines/flights"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "databricks.yml", tmp_path)
    monkeypatch.chdir(tmp_path)
    with serve_workspace() as served:
        served.source_tables(GATEWAY, SourceTable(name="main.sales.orders", chunks=48))
        yield Runner(served, tmp_path)


def updates(served: StandInWorkspace) -> list[str]:
    """The states of the gateway's updates."""
    return [update.state for update in served.pipeline(GATEWAY).updates]


def test_the_ci_job_deploys_by_the_other_tool_and_never_ends_a_snapshot(runner: Runner) -> None:
    """First deploy, an unchanged one, then each kind of change in mid-snapshot, then after it."""
    served = runner.served
    codes: list[tuple[str, Any]] = [("first", runner.run("push"))]
    served.clock.sleep(24 * HOUR)
    codes.append(("unchanged", runner.run("push")))
    pause = "pause_status: {}\n            task_retry_mode"
    for name, old, new in (
        ("workers", "num_workers: 1", "num_workers: 2"),
        ("recreate", "connection_name: sales_sqlserver", "connection_name: another"),
        ("paused", pause.format("UNPAUSED"), pause.format("PAUSED")),
    ):
        runner.edit(old, new)
        codes.append((name, runner.run("push")))
        runner.edit(new, old)
    assert codes == [("first", 0), ("unchanged", 0), ("workers", 20), ("recreate", 22), ("paused", 20)]
    assert updates(served) == ["RUNNING"]
    assert served.writes("/pipelines/pipeline") == []
    served.clock.sleep(30 * HOUR)
    runner.edit("num_workers: 1", "num_workers: 2")
    assert runner.run("push") == 0
    assert (updates(served), served.pipeline(GATEWAY).puts) == (["CANCELED", "RUNNING"], 1)


def test_the_ci_job_binds_what_was_deployed_from_elsewhere(runner: Runner) -> None:
    """Without the other tool's state: 23 for an ambiguous job name; after bind and accept, the guard returns 0."""
    served = runner.served
    runner.run("push")
    (gateway,) = [each for each in served.pipelines.by_id.values() if each.name == GATEWAY]
    (job_id,) = [number for number, each in served.jobs.by_id.items() if each["settings"]["name"] == GATEWAY]
    gateway.spec["budget_policy_id"] = "b-1"
    served.jobs.by_id[99] = {"job_id": 99, "settings": {"name": GATEWAY}}
    served.files.files.clear()
    assert runner.run("push") == 23
    assert "2 jobs have the same name sales_gateway" in runner.said[-1]
    assert runner.run("workflow_dispatch", GATEWAY=gateway.pipeline_id, JOB=str(job_id)) == 0
    assert "budget_policy_id" in runner.said[-2]
