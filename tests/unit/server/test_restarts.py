"""Continuous updates that were lost start again, later each time; what a person or a schedule decides stays so."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.clock import timestamp_text
from framework.server.engines.run_records import RunRecord, RunState
from framework.server.engines.start_request import StartRequest
from framework.server.server import Ports, Server, Settings
from framework.server.signals.restarts import Restarts, restart_at
from framework.testing.manual_clock import START, ManualClock
from tests.support.fake_engine import event_line
from tests.support.served_pipelines import eventually, fake_command, root_of, runs_of, served, write_spec

CONTINUOUS: dict[str, Any] = {"sluice": {"continuous": True}}


def runs(*seconds: float, **more: Any) -> list[RunRecord]:
    """Attempts of one request that were lost after some seconds, an hour apart."""
    found = []
    for number, ran in enumerate(seconds):
        since = START + timedelta(hours=number)
        found.append(
            RunRecord(
                **{
                    "update_id": f"u{number}", "request_id": "r", "pipeline": "shop", "attempt": number + 1,
                    "body": CONTINUOUS, "state": RunState.ENDED, "outcome": "LOST", "started_at": timestamp_text(since),
                    "ended_at": timestamp_text(since + timedelta(seconds=ran)), **more,
                }
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("seconds", "delay"),
    [
        ((5,), 10),
        ((5, 5), 20),
        ((5, 5, 5), 40),
        ((5,) * 6, 300),
        ((5,) * 40, 300),
        ((5, 5, 5, 3600), 10),
        ((5, 3600, 5), 20),
        ((5, 5, 3600, 5, 5), 40),
    ],
)
def test_each_loss_doubles_the_time_to_the_next_start(seconds: tuple[float, ...], delay: float) -> None:
    """From ten seconds to five minutes; an update that ran for ten minutes begins the count anew."""
    records = runs(*seconds)
    found = restart_at(records, is_continuous=False)
    end = START + timedelta(hours=len(seconds) - 1, seconds=seconds[-1])
    assert (records[-1], end + timedelta(seconds=delay)) == found


@pytest.mark.parametrize(
    "more",
    [
        {"body": {}},
        {"outcome": "FAILED"},
        {"outcome": "CANCELED"},
        {"body": {"full_refresh": True, **CONTINUOUS}},
        {"body": {"full_refresh_selection": ["orders"], **CONTINUOUS}},
        {"body": {"reset_checkpoint_selection": ["orders"], **CONTINUOUS}},
        {"cause": "JOB_TASK"},
        {"user": "schedule nightly"},
        {"state": RunState.STARTED, "outcome": None, "ended_at": None},
    ],
)
def test_other_updates_do_not_start_again(more: dict[str, Any]) -> None:
    """Triggered ones, those that ended with a word, rebuilds, and those that a schedule retries."""
    assert restart_at(runs(5, **more), is_continuous=False) is None


def test_a_spec_makes_its_updates_continuous_and_a_validation_is_no_update() -> None:
    """So both the lost run without a flag, and the one before a validation, start again."""
    (lost,) = runs(5, body={})
    validation = lost.with_(update_id="v", request_id="v", body={"validate_only": True}, outcome="COMPLETED")
    found = restart_at([lost, validation], is_continuous=True)
    assert lost == (found and found[0])


class Looking:
    """A server whose clock the test moves; engines are processes that run no Spark."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.entry = served(folder)
        write_spec(folder, more="continuous: true\n")
        self._folder = folder
        self.server = self.new()
        self.entry = self.server.pipelines()[0]

    def new(self) -> Server:
        """A server that has just started."""
        settings = Settings(
            folders=(self._folder,), state_folder=self._folder / ".state", cache=self._folder / ".cache", user="ada",
            version="0.0.1", most_engines=2,
        )  # fmt: skip
        self.server = Server(settings, self.clock, Ports(command=fake_command), (Restarts,))
        self.server.find()
        return self.server

    def look(self, seconds: float = 0.0) -> None:
        """Let the time pass, and look."""
        self.clock.sleep(seconds)
        self.server.look()

    def lose(self, request: StartRequest | None = None) -> str:
        """Start an update whose process is killed, and wait until it is LOST."""
        (root_of(self.entry) / "engine-die").touch()
        update = self.server.starter.request(self.entry, request or StartRequest()).update_id
        eventually(self._is_lost, self.look)
        return update

    def _is_lost(self) -> bool:
        state = self.server.reader(self.entry).state
        return state.update is None and state.last is not None and state.last.state == "LOST"

    def restart_at(self) -> object:
        """When the page says that it starts again."""
        return self.server.row(self.entry).more["restart_at"]


def test_a_lost_continuous_update_starts_again_once(tmp_path: Path) -> None:
    """After ten seconds, as the second attempt of the same request; a server that is new meanwhile does it, too."""
    looking = Looking(tmp_path)
    lost = looking.lose(StartRequest(user="ada"))
    assert "2026-01-01T00:00:10.000Z" == looking.restart_at()
    looking.look(9)
    assert [lost] == runs_of(looking.entry)
    (root_of(looking.entry) / "engine-die").unlink()
    (root_of(looking.entry) / "engine-wait").touch()
    looking.server.close()
    looking.new()
    looking.look(1)
    eventually(lambda: len(runs_of(looking.entry)) == 2)
    looking.look(2)
    looking.look(600)
    again = runs_of(looking.entry)[1]
    run = looking.server.reader(looking.entry).runs[-1]
    assert (again, "ada", 2, lost) == (run.update_id, run.user, run.attempt, run.request_id)
    assert looking.restart_at() is None
    assert "RETRY_ON_FAILURE" == run.cause
    (root_of(looking.entry) / "engine-wait").unlink()
    eventually(lambda: looking.server.reader(looking.entry).state.update is None, looking.look)
    assert [lost, again] == runs_of(looking.entry)
    looking.server.close()


def stopped(looking: Looking, update: str) -> None:
    """A person asked to stop the update before it was lost."""
    requests = root_of(looking.entry) / "requests"
    requests.mkdir()
    (requests / f"stop-{update}.json").write_text('{"format": 1, "user": "ada"}')


def run_elsewhere(looking: Looking, update: str) -> None:
    """A later update of a terminal has come and gone."""
    del update
    other = "20000000-0000-4000-8000-000000000000"
    (root_of(looking.entry) / "events").mkdir()
    lines: list[tuple[str, dict[str, object]]] = [
        ("create_update", {"request_id": other}),
        ("update_progress", {"state": "COMPLETED"}),
    ]
    (root_of(looking.entry) / "events" / f"{other}.jsonl").write_text(
        "".join(event_line(other, n, kind, details) for n, (kind, details) in enumerate(lines, start=1))
    )


@pytest.mark.parametrize("happen", [stopped, run_elsewhere])
def test_what_happens_after_the_loss_decides(tmp_path: Path, happen: Callable[[Looking, str], None]) -> None:
    """An update that was stopped, or has a successor, does not start again."""
    looking = Looking(tmp_path)
    lost = looking.lose()
    happen(looking, lost)
    looking.look(2)
    looking.look(600)
    assert ([lost], None) == (runs_of(looking.entry), looking.restart_at())
    looking.server.close()


def test_a_start_that_is_refused_is_tried_again(tmp_path: Path) -> None:
    """A wrong `server.yml` is a fault of the pipeline until it is corrected."""
    looking = Looking(tmp_path)
    looking.lose()
    (root_of(looking.entry) / "engine-die").unlink()
    (tmp_path / "server.yml").write_text("defaults: local\n")
    looking.look(11)
    assert 1 == len(runs_of(looking.entry))
    (tmp_path / "server.yml").unlink()
    looking.look(2)
    eventually(lambda: len(runs_of(looking.entry)) == 2)
    eventually(lambda: looking.server.reader(looking.entry).state.update is None, looking.look)
    looking.server.close()
