"""Schedules of the served pipelines: started once whatever dies, shown, paused and resumed by the API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.clock import SystemClock
from framework.foundation.failpoints import arm, disarm
from framework.operations.alerting.explaining import first_way
from framework.server.access.roles import Role
from framework.server.pipelines import PipelineEntry, find_pipelines
from framework.server.server import Ports, Server, Settings
from framework.server.serving import Extras
from framework.server.signals.routes import Signals
from framework.server.signals.schedules import Schedules
from framework.testing.manual_clock import ManualClock
from tests.support.served_pipelines import eventually, fake_command, root_of, runs_of, write_spec
from tests.support.server_world import World, world_of

HOURLY = "trigger: {cron: {quartz_cron_schedule: 0 0 * * * ?}}\n"
NIGHTLY = "trigger: {cron: {quartz_cron_schedule: 0 30 2 * * ?, timezone_id: Europe/Oslo}}\n"
POINTS = (
    "schedules.after_decision",
    "serve.after_accept",
    "serve.after_claim",
    "serve.after_spawn",
    "schedules.after_start",
)


class _CrashError(BaseException):
    """The process is gone."""


def scheduled(folder: Path, more: str = HOURLY) -> PipelineEntry:
    """A pipeline with a schedule, whose storage exists."""
    write_spec(folder, more=more)
    (entry,) = find_pipelines([folder]).entries
    root_of(entry).mkdir(parents=True, exist_ok=True)
    return entry


class Looking:
    """Servers, one after the other, that look when the test says so; engines are processes that run no Spark."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, 11, 59, 30, tzinfo=UTC))
        self._folder = folder
        self.server = self.new()

    def new(self) -> Server:
        """A server that has just started."""
        settings = Settings(
            folders=(self._folder,), state_folder=self._folder / ".state", cache=self._folder / ".cache", user="ada",
            version="0.0.1", most_engines=2,
        )  # fmt: skip
        self.server = Server(settings, self.clock, Ports(command=fake_command), (Schedules,))
        self.server.find()
        return self.server

    def look(self, seconds: float = 2.0) -> None:
        """Let the time pass, and look."""
        self.clock.sleep(seconds)
        self.server.look()

    def settle(self) -> None:
        """Look until no update runs or waits."""
        self.look()
        eventually(self._is_idle, self.look)

    def _is_idle(self) -> bool:
        (entry,) = self.server.pipelines()
        return self.server.reader(entry).state.update is None


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """No failpoint is left armed."""
    yield
    disarm()


def test_a_time_starts_one_update_for_the_schedule(tmp_path: Path) -> None:
    """The row of the update has the cause of a job, and the schedule as its user."""
    entry = scheduled(tmp_path)
    looking = Looking(tmp_path)
    looking.look()
    assert [] == runs_of(entry)
    looking.look(40)
    looking.settle()
    (entry,) = looking.server.pipelines()
    (row,) = looking.server.reader(entry).rows
    assert ("COMPLETED", "schedule trigger", "server") == (row.state, row.user, row.started_by)
    assert [row.update_id] == runs_of(entry)
    assert {"next_run": "2026-01-01T13:00:00.000Z", "parked": None} == looking.server.row(entry).more
    looking.server.close()


@pytest.mark.parametrize("point", POINTS)
def test_a_server_that_dies_runs_a_time_once(tmp_path: Path, point: str) -> None:
    """Whatever was written before it died, the next server starts the update exactly once, by the same id."""
    entry = scheduled(tmp_path)
    looking = Looking(tmp_path)
    looking.look()

    def crash() -> None:
        raise _CrashError

    arm(point, action=crash)
    with pytest.raises(_CrashError):
        looking.look(40)
    disarm()
    looking.server.close()
    looking.new()
    for _ in range(3):  # a second run would need a look that starts it, and one that sees it
        looking.look()
        looking.settle()
    assert 1 == len(runs_of(entry))
    assert "COMPLETED" == looking.server.reader(looking.server.pipelines()[0]).rows[-1].state
    looking.server.close()


def test_of_two_servers_one_decides(tmp_path: Path) -> None:
    """The second server on a storage shows schedules and starts nothing."""
    entry = scheduled(tmp_path)
    first, second = Looking(tmp_path), Looking(tmp_path)
    first.look()
    second.look()
    second.look(40)
    assert [] == runs_of(entry)
    assert "2026-01-01T13:00:00.000Z" == second.server.row(second.server.pipelines()[0]).more["next_run"]
    first.look(40)
    first.settle()
    assert 1 == len(runs_of(entry))
    second.server.close()
    first.server.close()


def test_a_file_of_schedules_that_is_wrong_stops_no_other_pipeline(tmp_path: Path) -> None:
    """The fault is shown; when the file is mended its schedules run."""
    entry = scheduled(tmp_path / "a")
    broken = scheduled(tmp_path / "b", "")
    (tmp_path / "b" / "pipeline.yml").write_text("name: other\nlibraries: [{glob: {include: t/**}}]\n")
    (tmp_path / "b" / "schedules.yml").write_text("schedules: {x: {on_date: true}}\n")
    looking = Looking(tmp_path)
    looking.look()
    looking.look(40)
    eventually(lambda: runs_of(entry))
    assert [] == runs_of(broken)
    looking.server.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server that answers, with one pipeline that is scheduled for the night."""
    scheduled(tmp_path / "shop", NIGHTLY)
    signals = Signals(first_way)
    extras = Extras(parts=signals.parts, routes=signals.routes)
    with world_of(tmp_path, extras=extras, clock=SystemClock()) as made:
        yield made


def only(world: World) -> dict[str, Any]:
    """The only schedule."""
    (found,) = world.get("/schedules", Role.VIEW)["schedules"]
    return dict(found)


def test_schedules_are_shown_paused_and_resumed(world: World) -> None:
    """The pause names who did it and why; a paused schedule has no next run."""
    found = only(world)
    assert ("shop", "trigger", "Europe/Oslo", False, 5) == (
        found["pipeline"], found["name"], found["timezone"], found["paused"], len(found["next"])
    )  # fmt: skip
    path = f"/schedules/{found['schedule']}"
    paused = world.post(f"{path}/pause", {"reason": "TICKET-7"}, 200, role=Role.OPERATE)
    assert (True, [], "TICKET-7", "ci-operate") == (
        paused["paused"], paused["next"], paused["pause"]["reason"], paused["pause"]["user"]
    )  # fmt: skip
    assert world.get("/pipelines")["pipelines"][0]["next_run"] is None
    resumed = world.post(f"{path}/resume", {}, 200, role=Role.OPERATE)
    assert (False, found["next"]) == (resumed["paused"], resumed["next"])
    assert world.get("/pipelines")["pipelines"][0]["next_run"] == found["next"][0]


def test_a_schedule_runs_now_on_request(world: World) -> None:
    """The update is the caller's; the schedule itself is not changed."""
    found = only(world)
    accepted = world.post(f"/schedules/{found['schedule']}/run", {"reason": "again"}, role=Role.OPERATE)
    eventually(lambda: runs_of(world.entry()) == [accepted["update_id"]])
    assert only(world)["last"] is None


@pytest.mark.parametrize(
    ("path", "body", "role", "status"),
    [
        ("nothing/pause", {}, Role.OPERATE, 404),
        ("{}/pause", {}, Role.READ, 403),
        ("{}/run", {}, Role.READ, 403),
        ("{}/resume", {"reason": 7}, Role.OPERATE, 400),
        ("{}/pause", {"why": "x"}, Role.OPERATE, 400),
    ],
)
def test_wrong_requests_are_refused(world: World, path: str, body: Any, role: Role, status: int) -> None:
    """An unknown schedule, a role that is too low, and fields that do not exist."""
    where = f"/schedules/{path.format(only(world)['schedule'])}"
    assert status == world.ask("POST", where, body, role=role).status_code
    assert not only(world)["paused"]
