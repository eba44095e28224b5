"""Updates that are started elsewhere: each runs once, none is forgotten, and none is lost while it may still run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from framework.foundation.clock import SystemClock
from framework.run.update.control.lock_holder import lock_holder
from framework.run.update.control.stop_requests import StopRequests
from framework.server.engines.following import GIVEN_UP, GRACE_SECONDS, STOP_SECONDS
from framework.server.engines.launch import Launch
from framework.server.engines.run_records import RunRecord, RunState
from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Starter
from framework.server.pipelines import PipelineEntry
from framework.testing.manual_clock import ManualClock
from tests.support.launched_pipelines import clustered, commanded, commands_of, launching
from tests.support.served_pipelines import eventually, root_of, runs_of
from tests.unit.server.test_starter import record_of, records_of

KEY = "the request"


def ended(
    entry: PipelineEntry, starter: Starter, update_id: str, step: Callable[[], object] | None = None
) -> RunRecord:
    """The record of a run, once it has ended."""

    def look() -> None:
        if step is not None:
            step()
        starter.tick()

    eventually(lambda: record_of(entry, update_id).state is RunState.ENDED, look)
    return record_of(entry, update_id)


def wait_for_silence(entry: PipelineEntry, starter: Starter, update_id: str) -> None:
    """Wait until the process that was started here has ended, and the server has seen it."""
    eventually(lambda: not records_of(entry).is_alive(record_of(entry, update_id)))
    starter.tick()


def test_a_command_that_is_the_engine_is_followed_to_its_end(tmp_path: Path) -> None:
    """The record names the launcher; the outcome is that of the events."""
    entry = commanded(tmp_path, "stays")
    starter = launching(entry, SystemClock())
    update = starter.request(entry, StartRequest()).update_id
    found = ended(entry, starter, update)
    assert ("COMPLETED", "command", "other") == (found.outcome, found.launch.kind, found.launch.name)
    assert (1, [update]) == (commands_of(tmp_path), runs_of(entry))
    assert f"Launcher other starts update {update}.\n" == (records_of(entry).log_text(update) or ("",))[0]


def test_a_command_that_gives_the_engine_away_is_not_the_end(tmp_path: Path) -> None:
    """The update is running before its claim, without a process of ours; then the lock and the events are followed."""
    entry, clock = commanded(tmp_path, "gives"), ManualClock()
    (root_of(entry) / "engine-wait").touch()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    wait_for_silence(entry, starter, update)
    clock.sleep(599)
    starter.tick()
    assert (RunState.STARTED, []) == (record_of(entry, update).state, runs_of(entry))
    (tmp_path / "nodes").touch()
    eventually(lambda: records_of(entry).is_claimed(update))
    clock.sleep(86_400)
    starter.tick()
    assert RunState.STARTED is record_of(entry, update).state
    (root_of(entry) / "engine-wait").unlink()
    assert "COMPLETED" == ended(entry, starter, update).outcome
    assert (1, [update]) == (commands_of(tmp_path), runs_of(entry))


def test_an_update_that_nobody_starts_is_lost_and_a_late_start_ends(tmp_path: Path) -> None:
    """First it is asked to stop, so its process, which comes too late, does no work; the next update runs."""
    entry, clock = commanded(tmp_path, "gives"), ManualClock()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    wait_for_silence(entry, starter, update)
    clock.sleep(600)
    starter.tick()
    found, asked = record_of(entry, update), StopRequests(entry.storage).of(update)
    assert ("LOST", GIVEN_UP) == (found.outcome, asked and asked.reason)
    assert "No process has claimed the update in its storage. The command of launcher other has ended." in str(
        found.error
    )
    (tmp_path / "nodes").touch()
    eventually(lambda: '"CANCELED"' in log_of(entry, update))
    second = starter.request(entry, StartRequest()).update_id
    assert "COMPLETED" == ended(entry, starter, second).outcome
    assert [update, second] == runs_of(entry)


def test_a_command_that_fails_is_a_failure_at_once(tmp_path: Path) -> None:
    """Its exit code is kept. It may have started something nevertheless, so the update is also asked to stop."""
    entry = commanded(tmp_path, "refuses")
    starter = launching(entry, ManualClock())
    update = starter.request(entry, StartRequest()).update_id
    found = ended(entry, starter, update)
    assert ("FAILED", 255) == (found.outcome, found.exit_code)
    assert "exit code 255" in str(found.error)
    assert "nobody is there" in str(records_of(entry).log_text(update))
    assert StopRequests(entry.storage).of(update) is not None


def test_a_missing_program_is_a_failure_with_its_name(tmp_path: Path) -> None:
    """Nothing was started, and the record says why."""
    entry = commanded(tmp_path, "stays")
    (tmp_path / "elsewhere").unlink()
    starter = launching(entry, SystemClock())
    found = ended(entry, starter, starter.request(entry, StartRequest()).update_id)
    assert ("FAILED", "The program can't be started: [Errno 2] There is no such program: './elsewhere'") == (
        found.outcome,
        found.error,
    )


def test_an_update_elsewhere_without_a_lock_is_lost_after_some_time(tmp_path: Path) -> None:
    """A network's file system may show the lock or the last event late, so an end is not concluded from one look."""
    entry, clock = commanded(tmp_path, "gives"), ManualClock()
    for each in ("engine-wait", "engine-vanish"):
        (root_of(entry) / each).touch()
    (tmp_path / "nodes").touch()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    eventually(lambda: records_of(entry).is_claimed(update))
    (root_of(entry) / "engine-wait").unlink()
    eventually(lambda: lock_holder(entry.storage) is None)
    starter.tick()
    clock.sleep(GRACE_SECONDS - 1)
    starter.tick()
    assert RunState.STARTED is record_of(entry, update).state
    clock.sleep(1)
    starter.tick()
    assert "LOST" == record_of(entry, update).outcome


def test_a_stopped_update_that_waits_elsewhere_is_canceled(tmp_path: Path) -> None:
    """The request is in the storage, so nobody needs to find the process."""
    entry, clock = commanded(tmp_path, "gives"), ManualClock()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    wait_for_silence(entry, starter, update)
    starter.stop(entry, user="ada", reason="wrong data")
    starter.tick()
    clock.sleep(GRACE_SECONDS)
    starter.tick()
    assert ("CANCELED", None) == (record_of(entry, update).outcome, record_of(entry, update).error)
    (tmp_path / "nodes").touch()
    eventually(lambda: '"CANCELED"' in log_of(entry, update))


def test_engines_elsewhere_use_no_memory_of_this_machine(tmp_path: Path) -> None:
    """With room for no engine more, an update elsewhere starts, and is none of the engines here."""
    entry = commanded(tmp_path, "gives")
    starter = launching(entry, SystemClock(), most_engines=0)
    update = starter.request(entry, StartRequest()).update_id
    assert (RunState.STARTED, 0) == (record_of(entry, update).state, starter.running)
    (tmp_path / "nodes").touch()
    assert "COMPLETED" == ended(entry, starter, update).outcome


def test_a_run_is_followed_as_it_was_started_whatever_the_settings_are_now(tmp_path: Path) -> None:
    """The launcher is in the record; a kind that this release does not know is followed by the storage."""
    entry, clock = commanded(tmp_path, "gives"), ManualClock()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    wait_for_silence(entry, starter, update)
    (tmp_path / "server.yml").unlink()
    records_of(entry).write(record_of(entry, update).with_(launch=Launch(kind="balloon", name="balloon")))
    again = launching(entry, clock)
    starter.close()
    again.tick()
    assert RunState.STARTED is record_of(entry, update).state
    clock.sleep(600)
    again.tick()
    assert "LOST" == record_of(entry, update).outcome
    assert "This release has no launcher of the kind balloon." in str(record_of(entry, update).error)


_CHILD = """
import sys, time
from pathlib import Path
from framework.foundation.clock import SystemClock
from framework.server.engines.start_request import StartRequest
from framework.server.pipelines import find_pipelines
from tests.support.launched_pipelines import launching
(entry,) = find_pipelines([Path(sys.argv[1])]).entries
starter = launching(entry, SystemClock())
if sys.argv[2] == "stop":
    starter.stop(entry, user="ada")
else:
    starter.request(entry, StartRequest(key="the request"))
while True:
    starter.tick()
    time.sleep(0.02)
"""


def killed_at(folder: Path, failpoint: str, action: str = "start") -> None:
    """Run a server in a process of its own that is killed at a failpoint."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "SLUICE_FAILPOINT": failpoint, "PYTHONPATH": str(root)}
    child = [sys.executable, "-c", _CHILD, str(folder), action]
    done = subprocess.run(child, env=environment, check=False, cwd=root, timeout=60)
    assert -signal.SIGKILL == done.returncode


@pytest.mark.parametrize("made", [lambda folder: commanded(folder, "gives"), clustered], ids=["command", "kubernetes"])
@pytest.mark.parametrize("failpoint", ["serve.after_accept", "serve.after_claim", "serve.after_spawn"])
def test_a_server_killed_while_it_starts_an_update_elsewhere_leaves_one(
    tmp_path: Path, failpoint: str, made: Callable[[Path], PipelineEntry]
) -> None:
    """A command that ends without a word is not repeated, and one that never began is not forgotten."""
    entry = made(tmp_path)
    killed_at(tmp_path, failpoint)
    starter = launching(entry, SystemClock())
    eventually(lambda: records_of(entry).list_all()[0].state is RunState.STARTED or is_told(entry), starter.tick)
    (record,) = records_of(entry).list_all()
    (tmp_path / "nodes").touch()
    assert "COMPLETED" == ended(entry, starter, record.update_id).outcome
    again = starter.request(entry, StartRequest(key=KEY))
    assert (record.update_id, "COMPLETED") == (again.update_id, again.state)
    assert [record.update_id] == runs_of(entry)
    calls = creations(tmp_path) if (tmp_path / "cluster").exists() else commands_of(tmp_path)
    assert 1 == calls


def test_a_server_killed_while_it_gives_an_update_up_does_not_bring_it_back(tmp_path: Path) -> None:
    """The request to stop is stored first; the next server finds it, and the update is LOST, not cancelled."""
    entry = commanded(tmp_path, "gives", seconds=1)
    killed_at(tmp_path, "serve.after_give_up")
    (record,) = records_of(entry).list_all()
    assert record.is_open
    starter = launching(entry, SystemClock())
    assert "LOST" == ended(entry, starter, record.update_id).outcome
    (tmp_path / "nodes").touch()
    eventually(lambda: '"CANCELED"' in log_of(entry, record.update_id))


def test_a_server_killed_after_a_stop_request_deletes_the_job_later(tmp_path: Path) -> None:
    """The next server finds the request: the Job that waits for a node goes, and the update is cancelled."""
    entry = clustered(tmp_path)
    (tmp_path / "cluster" / "full").touch()
    starter = launching(entry, SystemClock())
    update = starter.request(entry, StartRequest()).update_id
    eventually(lambda: job_file(tmp_path, update).exists())
    starter.close()
    killed_at(tmp_path, "serve.after_stop_request", "stop")
    assert job_file(tmp_path, update).exists()
    again = launching(entry, SystemClock())
    found = ended(entry, again, update)
    assert ("CANCELED", False, []) == (found.outcome, job_file(tmp_path, update).exists(), runs_of(entry))


def test_a_job_has_the_command_of_its_update_and_is_followed_to_its_end(tmp_path: Path) -> None:
    """The Job is the standard input of kubectl: named by the update, one pod that is not repeated."""
    entry = clustered(tmp_path)
    starter = launching(entry, SystemClock())
    update = starter.request(entry, StartRequest()).update_id
    found = ended(entry, starter, update)
    job = json.loads(job_file(tmp_path, update).read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert ("COMPLETED", "kubernetes") == (found.outcome, found.launch.kind)
    assert (f"sluice-{update}", 0, "Never") == (
        job["metadata"]["name"], job["spec"]["backoffLimit"], job["spec"]["template"]["spec"]["restartPolicy"]
    )  # fmt: skip
    assert sys.executable == container["command"][0]
    assert update in container["command"]
    assert "--namespace=data create -f -" == (tmp_path / "cluster" / "calls.txt").read_text().splitlines()[0]


def test_a_job_that_waits_for_a_node_is_not_given_up(tmp_path: Path) -> None:
    """The queue of the cluster is the cluster's: there is no bound for what waits in it."""
    entry, clock = clustered(tmp_path, seconds=20), ManualClock()
    (tmp_path / "cluster" / "full").touch()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    eventually(lambda: clock.elapsed_seconds >= 80, lambda: look_after(1, clock, starter))
    assert gets(tmp_path) >= 2
    assert (RunState.STARTED, []) == (record_of(entry, update).state, runs_of(entry))
    (tmp_path / "cluster" / "full").unlink()
    assert "COMPLETED" == ended(entry, starter, update, lambda: clock.sleep(1)).outcome


def test_a_job_that_exists_already_is_the_update(tmp_path: Path) -> None:
    """A server that is killed before it knows of the creation creates it once more: a conflict starts nothing."""
    entry, clock = clustered(tmp_path), ManualClock()
    starter = launching(entry, clock)
    (root_of(entry) / "engine-wait").touch()
    update = starter.request(entry, StartRequest(key=KEY)).update_id
    eventually(lambda: records_of(entry).is_claimed(update))
    record = record_of(entry, update)
    twice = subprocess.run(record.argv, input=record.launch.manifest.encode(), capture_output=True, check=False)
    assert (1, True) == (twice.returncode, b"(AlreadyExists)" in twice.stderr)
    (root_of(entry) / "engine-wait").unlink()
    assert "COMPLETED" == ended(entry, starter, update).outcome
    assert [update] == runs_of(entry)


def test_a_job_that_fails_before_its_claim_is_a_failure(tmp_path: Path) -> None:
    """The reason is the cluster's."""
    entry = clustered(tmp_path)
    (root_of(entry) / "engine-crash").touch()
    clock = ManualClock()
    starter = launching(entry, clock)
    found = ended(entry, starter, starter.request(entry, StartRequest()).update_id, lambda: clock.sleep(5))
    assert ("FAILED", None) == (found.outcome, found.exit_code)
    assert f"Job sluice-{found.update_id} has failed: BackoffLimitExceeded" in str(found.error)


def test_a_job_that_does_not_stop_is_deleted(tmp_path: Path) -> None:
    """First it has some time for an orderly stop; the pod gets SIGTERM."""
    entry, clock = clustered(tmp_path), ManualClock()
    (root_of(entry) / "engine-linger").touch()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    eventually(lambda: records_of(entry).is_claimed(update), starter.tick)
    starter.stop(entry, update_id=update)
    starter.tick()
    clock.sleep(STOP_SECONDS - 1)
    starter.tick()
    assert job_file(tmp_path, update).exists()
    clock.sleep(1)
    ended(entry, starter, update)
    assert not job_file(tmp_path, update).exists()


def test_a_cluster_that_does_not_answer_delays_nobody_and_loses_nothing(tmp_path: Path) -> None:
    """A creation that takes long blocks no tick; an update that runs goes on while the cluster is down."""
    entry, clock = clustered(tmp_path), ManualClock()
    cluster = tmp_path / "cluster"
    for each in (cluster / "slow", root_of(entry) / "engine-wait"):
        each.touch()
    starter = launching(entry, clock)
    update = starter.request(entry, StartRequest()).update_id
    for _ in range(5):
        starter.tick()
        clock.sleep(3600)
    assert RunState.STARTED is record_of(entry, update).state
    (cluster / "slow").unlink()
    eventually(lambda: records_of(entry).is_claimed(update), starter.tick)
    (cluster / "down").touch()
    clock.sleep(3600)
    starter.tick()
    assert RunState.STARTED is record_of(entry, update).state
    (root_of(entry) / "engine-wait").unlink()
    assert "COMPLETED" == ended(entry, starter, update).outcome


def test_a_cluster_that_is_down_starts_nothing(tmp_path: Path) -> None:
    """It is lost when it was silent for as long as it may take to start: the creation may have arrived."""
    entry, clock = clustered(tmp_path, seconds=20), ManualClock()
    (tmp_path / "cluster" / "down").touch()
    starter = launching(entry, clock)
    found = ended(entry, starter, starter.request(entry, StartRequest()).update_id, lambda: clock.sleep(1))
    assert "LOST" == found.outcome
    assert "Unable to connect to the server" in str(found.error)
    assert clock.elapsed_seconds >= 20


def look_after(seconds: float, clock: ManualClock, starter: Starter) -> None:
    """Let the time pass, and look."""
    clock.sleep(seconds)
    starter.tick()


def log_of(entry: PipelineEntry, update_id: str) -> str:
    """The event log of an update; empty before its claim."""
    file = root_of(entry) / "events" / f"{update_id}.jsonl"
    return file.read_text() if file.exists() else ""


def is_told(entry: PipelineEntry) -> bool:
    """Whether the launcher of the only run has begun."""
    (record,) = records_of(entry).list_all()
    return bool((records_of(entry).log_text(record.update_id) or ("",))[0])


def job_file(folder: Path, update_id: str) -> Path:
    """The Job of an update in the cluster."""
    return folder / "cluster" / f"sluice-{update_id}.json"


def gets(folder: Path) -> int:
    """How many times the cluster was asked."""
    calls = folder / "cluster" / "calls.txt"
    return sum(" get " in each for each in calls.read_text().splitlines()) if calls.exists() else 0


def creations(folder: Path) -> int:
    """How many Jobs the cluster was given."""
    calls = (folder / "cluster" / "calls.txt").read_text().splitlines()
    return sum(" create " in each for each in calls)
