"""Calls of `sluice` on a pipeline without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.foundation.files.local_storage import LocalStorage
from framework.operations.pipeline_port import PipelinePort
from framework.testing.manual_clock import ManualClock
from tests.support.fake_pipeline import FakePipeline


@pytest.fixture
def pipeline(tmp_path: Path) -> FakePipeline:
    """A fake pipeline with its own storage."""
    return FakePipeline(storage=LocalStorage(str(tmp_path / "storage")))


Sluice = Callable[..., Result]


@pytest.fixture
def sluice(pipeline: FakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Calls `sluice` with arguments in a folder that has a spec, on the fake pipeline."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pipeline.yml").write_text("name: shop\n", encoding="utf-8")
    monkeypatch.chdir(folder)

    def open_fake(
        spec: Path,
        *,
        local: Path | None,
        master: str | None,
        parameters: Mapping[str, str],
        short: bool | None,
        verbose: bool,
        cold: bool,
    ) -> PipelinePort:
        opened: dict[str, object] = {"master": master, "parameters": dict(parameters), "short": short}
        opened |= {"verbose": verbose, "cold": cold, **({} if local is None else {"local": local})}
        pipeline.calls.append(("open", (spec, opened)))
        return pipeline

    surroundings = Surroundings(open_pipeline=open_fake, clock=ManualClock(), cache=lambda: tmp_path / "cache")
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), obj=surroundings)
