"""Updates are started once, survive the server, and none is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.server.engines.outcomes import recorded_end
from framework.server.engines.run_records import RunRecord, RunRecords, RunState
from framework.server.engines.start_request import StartRequest
from framework.server.engines.starter import Starter
from framework.server.pipelines import PipelineEntry
from tests.support.served_pipelines import eventually, root_of, runs_of, served, starter_of

KEY = "the request"


def records_of(entry: PipelineEntry) -> RunRecords:
    """The run records of a pipeline."""
    return RunRecords(cast("LocalStorage", entry.storage))


def record_of(entry: PipelineEntry, update_id: str) -> RunRecord:
    """The record of an update, which exists."""
    found = records_of(entry).read(update_id)
    assert found is not None
    return found


def settle(entry: PipelineEntry, starter: Starter, update_id: str) -> RunRecord:
    """Wait for the end of a run."""
    eventually(lambda: record_of(entry, update_id).state is RunState.ENDED, starter.tick)
    return record_of(entry, update_id)


def test_a_request_becomes_one_update_with_a_record_of_its_end(tmp_path: Path) -> None:
    """The record has who asked, the process and the outcome; the process has the update's id."""
    entry = served(tmp_path)
    starter = starter_of(entry)
    accepted = starter.request(entry, StartRequest(user="ada", body={"sluice": {"reason": "TICKET-7"}}))
    ended = settle(entry, starter, accepted.update_id)
    assert [accepted.update_id] == runs_of(entry)
    assert ("ada", "TICKET-7", "COMPLETED", 0) == (ended.user, ended.reason, ended.outcome, ended.exit_code)
    assert ended.pid is not None


def test_the_same_key_is_the_same_request(tmp_path: Path) -> None:
    """A client that sends a request again, because it saw no answer, gets the update of the first one."""
    entry = served(tmp_path)
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest(key=KEY))
    settle(entry, starter, first.update_id)
    again = starter.request(entry, StartRequest(key=KEY))
    assert (first.update_id, "COMPLETED") == (again.update_id, again.state)
    assert [first.update_id] == runs_of(entry)


def test_one_update_runs_and_the_next_one_waits_only_if_asked(tmp_path: Path) -> None:
    """Without `queue` the second request is an error; with it, its update starts when the first has ended."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest())
    with pytest.raises(OperationError) as refused:
        starter.request(entry, StartRequest())
    second = starter.request(entry, StartRequest(queue=True))
    assert "UPDATE_ALREADY_RUNNING" == refused.value.condition
    assert ("WAITING_FOR_RESOURCES", 1) == (second.state, second.place)
    (root_of(entry) / "engine-wait").unlink()
    settle(entry, starter, second.update_id)
    assert [first.update_id, second.update_id] == runs_of(entry)


def test_after_the_recorded_end_the_next_update_waits_for_the_process(tmp_path: Path) -> None:
    """A client that has seen the end may start again at once, although the process has not ended yet."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-linger").touch()
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest())
    eventually(lambda: recorded_end(entry.storage, first.update_id))
    second = starter.request(entry, StartRequest())
    assert ("WAITING_FOR_RESOURCES", 1) == (second.state, second.place)
    with pytest.raises(OperationError):
        starter.request(entry, StartRequest())
    (root_of(entry) / "engine-linger").unlink()
    assert "COMPLETED" == settle(entry, starter, second.update_id).outcome
    assert [first.update_id, second.update_id] == runs_of(entry)


def test_engines_above_the_limit_wait_in_the_order_of_their_requests(tmp_path: Path) -> None:
    """With room for one engine, three pipelines are updated one after the other."""
    entries = [served(tmp_path / each, each) for each in ("a", "b", "c")]
    (root_of(entries[0]) / "engine-wait").touch()
    starter = starter_of(*entries, most_engines=1)
    accepted = [starter.request(entry, StartRequest()) for entry in entries]
    assert [None, 1, 2] == [each.place for each in accepted]
    assert 1 == starter.running
    (root_of(entries[0]) / "engine-wait").unlink()
    for entry, each in zip(entries, accepted, strict=True):
        settle(entry, starter, each.update_id)
    starts = [record_of(entry, each.update_id).started_at for entry, each in zip(entries, accepted, strict=True)]
    assert sorted(filter(None, starts)) == starts


def test_a_second_attempt_of_a_request_waits_for_the_end_of_the_first(tmp_path: Path) -> None:
    """Never two updates of one request, even if the second may wait."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest())
    second = StartRequest(request_id=first.request_id, attempt=2, cause="RETRY_ON_FAILURE", queue=True)
    with pytest.raises(OperationError):
        starter.request(entry, second)
    (root_of(entry) / "engine-wait").unlink()
    settle(entry, starter, first.update_id)
    retried = starter.request(entry, second)
    assert 2 == settle(entry, starter, retried.update_id).attempt


def test_an_engine_that_refuses_to_start_says_why(tmp_path: Path) -> None:
    """An error before the first event is in the record, from the output of the process."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-refuse").touch()
    starter = starter_of(entry)
    ended = settle(entry, starter, starter.request(entry, StartRequest()).update_id)
    assert ("FAILED", 2, "[PIPELINE_SPEC_MISSING_REQUIRED_FIELD] The spec is gone.\n  -> Put it back.") == (
        ended.outcome,
        ended.exit_code,
        ended.error,
    )


@pytest.mark.parametrize("file", ["engine-die", "engine-vanish"])
def test_an_engine_that_dies_without_a_word_is_lost(tmp_path: Path, file: str) -> None:
    """Killed before its first event, or while it runs: LOST, and it does not start again by itself."""
    entry = served(tmp_path)
    (root_of(entry) / file).touch()
    starter = starter_of(entry)
    ended = settle(entry, starter, starter.request(entry, StartRequest()).update_id)
    starter.tick()
    assert ("LOST", -9) == (ended.outcome, ended.exit_code)
    assert 1 == len(runs_of(entry))


def test_a_stopped_update_says_who_and_why(tmp_path: Path) -> None:
    """A running update ends by the request in its storage; one that waits never starts."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    starter = starter_of(entry)
    first = starter.request(entry, StartRequest())
    second = starter.request(entry, StartRequest(queue=True))
    eventually(lambda: records_of(entry).is_claimed(first.update_id))
    starter.stop(entry, update_id=second.update_id, user="ada", reason="too early")
    report = starter.stop(entry, user="ada", reason="wrong data")
    assert first.update_id == report.update_id
    assert ["CANCELED", "CANCELED"] == [
        settle(entry, starter, each).outcome for each in (first.update_id, second.update_id)
    ]
    text = (root_of(entry) / "requests" / f"stop-{first.update_id}.json").read_text()
    assert "wrong data" in text
    assert "ada" in text
    assert [first.update_id] == runs_of(entry)


def test_stop_without_an_update_does_nothing(tmp_path: Path) -> None:
    """Nobody's request is left in the storage."""
    entry = served(tmp_path)
    report = starter_of(entry).stop(entry)
    assert (None, False) == (report.update_id, (root_of(entry) / "requests").exists())


def test_two_servers_start_the_updates_of_a_storage_one_at_a_time(tmp_path: Path) -> None:
    """The second one refuses, names the first, and neither adopts nor settles its runs."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    first, second = starter_of(entry), starter_of(entry)
    accepted = first.request(entry, StartRequest())
    with pytest.raises(OperationError) as refused:
        second.request(entry, StartRequest(queue=True))
    second.tick()
    assert ("SERVE_STORAGE_TAKEN", f"process {os.getpid()}") == (
        refused.value.condition,
        str(refused.value.fields["holder"]).partition(" on ")[0],
    )
    (root_of(entry) / "engine-wait").unlink()
    settle(entry, first, accepted.update_id)
    first.close()
    again = second.request(entry, StartRequest())
    assert "COMPLETED" == settle(entry, second, again.update_id).outcome


@pytest.mark.parametrize(
    "body",
    [
        {"refresh": ["orders"]},
        {"refresh_selection": "orders"},
        {"refresh_selection": ["a,b"]},
        {"full_refresh": "yes"},
        {"replace_where_overrides": []},
        {"parameters": {"password": "x"}},
        {"sluice": {"colour": "red"}},
    ],
)
def test_a_request_with_an_unknown_field_starts_nothing(tmp_path: Path, body: dict[str, object]) -> None:
    """What would be ignored is an error, and nothing is written."""
    entry = served(tmp_path)
    with pytest.raises(UserError) as refused:
        starter_of(entry).request(entry, StartRequest(body=body))
    assert "UPDATE_REQUEST_INVALID" == refused.value.condition
    assert not (root_of(entry) / "runs").exists()


_CHILD = """
import sys
from pathlib import Path
from framework.server.engines.start_request import StartRequest
from framework.server.pipelines import find_pipelines
from tests.support.served_pipelines import starter_of
(entry,) = find_pipelines([Path(sys.argv[1])]).entries
starter = starter_of(entry)
if sys.argv[2] == "stop":
    starter.stop(entry, reason="night")
else:
    starter.request(entry, StartRequest(key="the request"))
"""


def killed_at(folder: Path, failpoint: str, action: str = "start") -> None:
    """Run a server's request in a process of its own that is killed at a failpoint."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "SLUICE_FAILPOINT": failpoint, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", _CHILD, str(folder), action], env=environment, check=False, cwd=root)
    assert -signal.SIGKILL == done.returncode


@pytest.mark.parametrize("failpoint", ["serve.after_accept", "serve.after_claim", "serve.after_spawn"])
def test_a_server_killed_while_it_starts_an_update_leaves_one_update(tmp_path: Path, failpoint: str) -> None:
    """The next server starts it, or adopts its process: no update runs twice, none is forgotten."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    killed_at(tmp_path, failpoint)
    starter = starter_of(entry)
    starter.tick()
    (record,) = records_of(entry).list_all()
    again = starter.request(entry, StartRequest(key=KEY))
    eventually(lambda: records_of(entry).is_claimed(record.update_id), starter.tick)
    (root_of(entry) / "engine-wait").unlink()
    ended = settle(entry, starter, record.update_id)
    assert (record.update_id, "COMPLETED") == (again.update_id, ended.outcome)
    assert [record.update_id] == runs_of(entry)


def test_a_server_killed_after_a_stop_request_does_not_start_what_was_stopped(tmp_path: Path) -> None:
    """The request to stop is there before anything else, so the next server cancels the run that waits."""
    entry = served(tmp_path)
    killed_at(tmp_path, "serve.after_accept")
    killed_at(tmp_path, "serve.after_stop_request", "stop")
    starter = starter_of(entry)
    starter.tick()
    (record,) = records_of(entry).list_all()
    assert ("CANCELED", []) == (record.outcome, runs_of(entry))


def test_an_update_whose_engine_died_while_no_server_was_there_is_lost(tmp_path: Path) -> None:
    """The next server neither waits for it nor runs it again."""
    entry = served(tmp_path)
    (root_of(entry) / "engine-wait").touch()
    killed_at(tmp_path, "serve.after_spawn")
    (record,) = records_of(entry).list_all()
    eventually(lambda: records_of(entry).is_claimed(record.update_id))
    (root_of(entry) / "engine-vanish").touch()
    (root_of(entry) / "engine-wait").unlink()
    starter = starter_of(entry)
    assert "LOST" == settle(entry, starter, record.update_id).outcome
    assert [record.update_id] == runs_of(entry)
