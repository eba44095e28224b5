"""`sluice stop` writes a request for one update, and says what became of it."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from click.testing import Result

from framework.foundation.clock import SystemClock
from framework.operations.stopping import stop_update
from framework.record import drafts
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.run.update.control.identity import UpdateCause
from framework.run.update.control.stop_requests import StopRequest, StopRequests
from framework.run.update.lock import update_lock
from framework.run.update.results import UpdateState
from framework.views.stopping import StopReport
from tests.support.fake_pipeline import FakePipeline

Sluice = Callable[..., Result]

UPDATE = "7b1c0f3e-5a1f-4c5e-9d43-0d6f2a1b8c9e"


def record(pipeline: FakePipeline, *states: str) -> None:
    """The states of the update in its event log."""
    with EventLog(pipeline.storage, Origin.of("shop", pipeline.storage.root, UPDATE)) as log:
        for state in states:
            log.record(drafts.update_progress(state=state))


def test_without_a_running_update_nothing_is_asked(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The command says so and completes, also for an update that has ended."""
    result = sluice("stop")
    assert (result.exit_code, result.stdout) == (0, "No update of shop is running.\n")
    record(pipeline, "COMPLETED")
    result = sluice("stop", UPDATE)
    assert (result.exit_code, result.stdout) == (0, f"Update {UPDATE} of shop has ended: COMPLETED.\n")
    assert pipeline.storage.list_names(pipeline.storage.path("requests")) == []


def test_an_update_that_was_killed_has_ended_without_an_end_in_its_log(sluice: Sluice, pipeline: FakePipeline) -> None:
    """It is asked nevertheless: its machine may be suspended, and go on without its lock."""
    record(pipeline, "RUNNING")
    result = sluice("stop", UPDATE)
    expected = (
        f"Update {UPDATE} of shop does not run any more. It was killed, or has lost its lock: its log has no end."
    )
    assert (result.exit_code, result.stdout) == (0, f"{expected}\n")
    assert StopRequests(pipeline.storage).of(UPDATE) is not None


def test_the_running_update_is_asked_and_its_end_waited_for(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The request has who, where and why; an update that does not end in time makes the exit code 1."""
    with update_lock(pipeline.storage, UPDATE):
        record(pipeline, "RUNNING")
        result = sluice("stop", "--reason", "wrong prices", "--wait", "3", "-o", "json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "pipeline": "shop", "update_id": UPDATE, "state": "RUNNING", "has_ended": False, "host": socket.gethostname(),
        "pid": os.getpid(),
    }  # fmt: skip
    request = StopRequests(pipeline.storage).of(UPDATE)
    assert request is not None
    assert (request.update_id, request.host, request.reason) == (UPDATE, socket.gethostname(), "wrong prices")


def test_an_update_that_has_not_started_is_stopped_at_its_start(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Its id is known before, as a scheduler's is; the update that runs meanwhile is not asked."""
    with update_lock(pipeline.storage, UPDATE.replace("7", "6")):
        result = sluice("stop", UPDATE)
    expected = f"Update {UPDATE} of shop has not started. It stops when it starts.\n"
    assert (result.exit_code, result.stdout) == (0, expected)
    assert pipeline.storage.list_names(pipeline.storage.path("requests")) == [f"stop-{UPDATE}.json"]


def test_an_update_may_be_named_by_another_spelling_or_the_beginning_of_its_id(
    sluice: Sluice, pipeline: FakePipeline
) -> None:
    """Upper case, no hyphens, or at least four characters that no other update's id begins with."""
    record(pipeline, "COMPLETED")
    expected = f"Update {UPDATE} of shop has ended: COMPLETED.\n"
    for given in (
        UPDATE.upper(),
        UPDATE.replace("-", ""),
        UPDATE[:4],
        UPDATE.replace("-", "")[:20],
        f" {UPDATE[:9].upper()}",
    ):
        result = sluice("stop", given)
        assert (result.exit_code, result.stdout) == (0, expected)
    with update_lock(pipeline.storage, f"{UPDATE[:-1]}0"):
        result = sluice("stop", UPDATE[:6])
        assert (result.exit_code, "[UPDATE_AMBIGUOUS]" in result.stderr) == (2, True)
        assert f"{UPDATE[:-1]}0, {UPDATE}" in result.stderr
        assert sluice("stop", UPDATE).stdout == expected
    assert pipeline.storage.list_names(pipeline.storage.path("requests")) == []


def test_an_ended_update_has_ended_whatever_its_log_has_last(sluice: Sluice, pipeline: FakePipeline) -> None:
    """A state that is read after the end, such as one whose time is later, does not make it a killed update."""
    record(pipeline, "COMPLETED", "RUNNING")
    result = sluice("stop", UPDATE)
    assert (result.exit_code, result.stdout) == (0, f"Update {UPDATE} of shop has ended: COMPLETED.\n")


def test_a_file_in_the_place_of_the_requests_is_named(sluice: Sluice, pipeline: FakePipeline) -> None:
    """The error names the file, and says to move it away."""
    pipeline.storage.write_text(pipeline.storage.path("requests"), "")
    result = sluice("stop", UPDATE)
    assert (result.exit_code, "move a file away that is in the place of a folder" in result.stderr) == (1, True)
    assert f"{pipeline.storage.path('requests')} is a file, and not a folder." in result.stderr


@pytest.mark.parametrize("update", ["main.shop.orders", "../x", "", "7b1", "7b1c0f3f"])
def test_what_is_no_id_of_an_update_is_refused(sluice: Sluice, pipeline: FakePipeline, update: str) -> None:
    """Nothing is written."""
    record(pipeline, "RUNNING")
    result = sluice("stop", update)
    assert (result.exit_code, "[UPDATE_NOT_FOUND]" in result.stderr) == (2, True)
    assert pipeline.storage.list_names(pipeline.storage.path("requests")) == []


def test_the_wait_ends_with_the_update(pipeline: FakePipeline) -> None:
    """As soon as the lock is free, the last state of the update is returned."""
    held, requests = threading.Event(), StopRequests(pipeline.storage)

    def run() -> None:
        with update_lock(pipeline.storage, UPDATE):
            record(pipeline, "RUNNING")
            held.set()
            while requests.of(UPDATE) is None:
                time.sleep(0.01)
            record(pipeline, "CANCELED")

    thread = threading.Thread(target=run)
    thread.start()
    assert held.wait(10)
    report = stop_update(pipeline.storage, SystemClock(), wait_seconds=30)
    thread.join()
    assert report.holder is not None
    assert report == StopReport(update_id=UPDATE, holder=report.holder, state="CANCELED", has_ended=True)


@pytest.mark.parametrize(("state", "code"), [("CANCELED", 143), ("COMPLETED", 0), ("FAILED", 1)])
def test_a_command_whose_update_is_stopped_by_a_request_ends_as_at_sigterm(
    sluice: Sluice, pipeline: FakePipeline, state: str, code: int
) -> None:
    """So a service manager does not start it again; an update that completes before it stops has completed."""
    pipeline.request = StopRequest(update_id="u-1", user="ada", reason="wrong prices")
    pipeline.result = replace(pipeline.result, state=UpdateState(state))
    result = sluice("run")
    assert (result.exit_code, "ada asked to stop this update: wrong prices." in result.stderr) == (code, True)


def test_an_update_gets_its_identity_from_the_command_line(sluice: Sluice, pipeline: FakePipeline) -> None:
    """`sluice run` passes what a scheduler names, and nothing by default."""
    sluice("run")
    sluice("run", "--update-id", UPDATE, "--request-id", "nightly", "--attempt", "2", "--cause", "RETRY_ON_FAILURE")
    plain, named = [value for method, value in pipeline.calls if method == "run"]
    assert "identity" not in plain
    identity = named["identity"]
    assert (identity.update_id, identity.request_id, identity.attempt) == (UPDATE, "nightly", 2)
    assert (identity.cause, identity.is_chosen) == ("RETRY_ON_FAILURE", True)
    refused = sluice("run", "--cause", "NOBODY")
    assert (refused.exit_code, "[UPDATE_IDENTITY_INVALID]" in refused.stderr) == (2, True)
    assert all(cause in sluice("run", "--help").stdout for cause in UpdateCause)
    refused = sluice("run", "--target", "prod", "--attempt", "2")
    assert (refused.exit_code, "do not go with --target" in refused.stderr) == (2, True)
