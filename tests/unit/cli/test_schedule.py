"""`sluice schedule` shows schedules with their next runs, and pauses and resumes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from framework.declare.pipeline_spec import PipelineSpec, load_spec
from framework.foundation.files.local_storage import LocalStorage
from tests.support.fake_pipeline import FakePipeline

Sluice = Callable[..., Result]


class _ScheduledPipeline(FakePipeline):
    """A pipeline with a spec file, beside which schedules may be."""

    @property
    def spec(self) -> PipelineSpec:
        """The spec of the working folder."""
        return load_spec(Path("pipeline.yml"))


@pytest.fixture
def pipeline(tmp_path: Path) -> FakePipeline:
    """A pipeline with a nightly schedule in its spec, and another one."""
    return _ScheduledPipeline(storage=LocalStorage(str(tmp_path / "storage")))


@pytest.fixture
def files(sluice: Sluice) -> None:
    """The spec and the schedules, in the folder of the calls."""
    del sluice
    Path("pipeline.yml").write_text(
        "name: shop\ntrigger: {cron: {quartz_cron_schedule: 0 30 2 * * ?, timezone_id: Europe/Oslo}}\n"
    )
    Path("schedules.yml").write_text("schedules: {arrivals: {on_data: true}}\n")


def test_without_schedules_the_list_says_so(sluice: Sluice) -> None:
    """And JSON is an empty list."""
    assert "shop has no schedule.\n" == sluice("schedule", "list").stdout
    assert "[]\n" == sluice("schedule", "list", "-o", "json").stdout


@pytest.mark.usefixtures("files")
def test_schedules_are_listed_with_their_next_runs(sluice: Sluice) -> None:
    """The clock of the test is at the first of January 2026 in UTC."""
    text = sluice("schedule", "list").stdout
    assert "Thu 2026-01-01 02:30:00 CET" in text
    assert ["trigger", "arrivals"] == [line.split()[0] for line in text.splitlines()[2:]]
    found = json.loads(sluice("schedule", "list", "-o", "json").stdout)
    assert ["trigger", "arrivals"] == [each["schedule"] for each in found]
    assert "2026-01-01T01:30:00.000Z" == found[0]["next"][0]
    assert ([], "on_data", False) == (found[1]["next"], found[1]["kind"], found[1]["paused"])


@pytest.mark.usefixtures("files")
def test_a_schedule_is_explained_with_five_runs(sluice: Sluice) -> None:
    """In its own time zone, with what happens to a missed time."""
    text = sluice("schedule", "explain", "trigger").stdout
    assert [
        "trigger: 0 30 2 * * ? (Europe/Oslo)",
        "  Thu 2026-01-01 02:30:00 CET",
        "  Fri 2026-01-02 02:30:00 CET",
        "  Sat 2026-01-03 02:30:00 CET",
        "  Sun 2026-01-04 02:30:00 CET",
        "  Mon 2026-01-05 02:30:00 CET",
    ] == text.splitlines()[:6]
    assert "the last one is made up for" in text


@pytest.mark.usefixtures("files")
def test_a_schedule_that_data_can_not_start_says_why(sluice: Sluice) -> None:
    """Without a stored graph the sources are unknown."""
    text = sluice("schedule", "explain", "arrivals").stdout
    assert (
        "Data can't start it now: the server does not see changes of the graph, which the first update stores." in text
    )
    found = json.loads(sluice("schedule", "explain", "arrivals", "-o", "json").stdout)
    assert ["the graph, which the first update stores"] == found["unseen"]
    assert [] == json.loads(sluice("schedule", "explain", "trigger", "-o", "json").stdout)["unseen"]


@pytest.mark.usefixtures("files")
def test_a_schedule_is_paused_and_resumed(sluice: Sluice) -> None:
    """The list names who paused it and why; a paused schedule has no next run."""
    assert (
        "Schedule trigger of shop is paused.\n" == sluice("schedule", "pause", "trigger", "--reason", "TICKET-7").stdout
    )
    paused = json.loads(sluice("schedule", "explain", "trigger", "-o", "json").stdout)
    assert (True, "TICKET-7", []) == (paused["paused"], paused["pause"]["reason"], paused["next"])
    assert "Paused" in sluice("schedule", "explain", "trigger").stdout
    assert "Schedule trigger of shop runs again.\n" == sluice("schedule", "resume", "trigger").stdout
    assert not json.loads(sluice("schedule", "explain", "trigger", "-o", "json").stdout)["paused"]


@pytest.mark.usefixtures("files")
def test_an_unknown_schedule_is_an_error_with_the_nearest_name(sluice: Sluice) -> None:
    """Nothing is written."""
    result = sluice("schedule", "pause", "trigge")
    assert 2 == result.exit_code
    assert "SCHEDULE_NOT_FOUND" in result.stderr
    assert "Did you mean `trigger`?" in result.stderr
