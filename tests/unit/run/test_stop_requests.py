"""An update sees the request to stop that names it, in any storage, and no other one."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.files.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.record.reader import read_events
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.control.stop_requests import StopRequest, StopRequests, stopped_on_request
from framework.views.flow_board import is_warning

FIRST, SECOND = "7b1c0f3e-5a1f-4c5e-9d43-0d6f2a1b8c9e", "8c2d1a4f-6b2a-4d6f-8e54-1e7a3b2c9d0f"


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


def log_of(storage: LocalStorage, update_id: str) -> EventLog:
    """The event log of an update."""
    return EventLog(storage, Origin.of("shop", storage.root, update_id))


def test_a_request_stops_the_update_that_it_names_and_its_cause_is_recorded(storage: LocalStorage) -> None:
    """The update that is named stops while it runs; the event has who asked, where, why and when."""
    request = StopRequest(update_id=FIRST, user="ada", host="laptop", reason="wrong prices", since="2026-11-28T06:40Z")
    stop, other, heard = StopSignal(), StopSignal(), threading.Event()
    with (
        log_of(storage, FIRST) as log,
        log_of(storage, SECOND) as second,
        stopped_on_request(storage, FIRST, log, stop, poll_seconds=0.01),
        stopped_on_request(storage, SECOND, second, other, poll_seconds=0.01),
    ):
        log.subscribe(lambda _: heard.set())
        assert not stop.wait(0.05)
        StopRequests(storage).ask(request)
        assert heard.wait(10)
        assert stop.wait(10)
        assert not other.wait(0.05)
    (event,) = read_events(storage)
    assert event.message == "ada on laptop asked to stop this update: wrong prices."
    assert event.details["user_action"] == {
        "action": "STOP", "user_name": "ada", "reason": "wrong prices", "host": "laptop", "since": "2026-11-28T06:40Z"
    }  # fmt: skip
    assert (event.origin.update_id, event.level, is_warning(event)) == (FIRST, "WARN", True)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"user": "ada"}', '{"format": 999, "user": {"name": "ada"}}'])
def test_a_request_from_before_the_start_stops_the_update_at_once_whatever_its_file_contains(
    storage: LocalStorage, text: str
) -> None:
    """The file's name is the request: an update whose file is damaged or of another release stops, too."""
    storage.write_text(storage.path("requests", f"stop-{FIRST}.json"), text)
    stop = StopSignal()
    with log_of(storage, FIRST) as log, stopped_on_request(storage, FIRST, log, stop):
        assert stop.is_set
    assert [event.details["user_action"]["action"] for event in read_events(storage)] == ["STOP"]


def test_a_request_of_another_release_stays_as_it_is(storage: LocalStorage) -> None:
    """A request states its format version, and replaces one that this release reads, or a damaged one, only."""
    requests, path = StopRequests(storage), storage.path("requests", f"stop-{FIRST}.json")
    storage.write_text(path, "{")
    for reason in ("first", "second"):
        requests.ask(StopRequest(update_id=FIRST, reason=reason))
    text = storage.read_text(path) or ""
    assert (requests.of(FIRST), json.loads(text)["format"]) == (StopRequest(update_id=FIRST, reason="second"), 1)
    storage.write_text(path, text.replace('"format": 1', '"format": 999'))
    requests.ask(StopRequest(update_id=FIRST, reason="third"))
    assert storage.read_text(path) == text.replace('"format": 1', '"format": 999')
    assert requests.of(FIRST) == StopRequest(update_id=FIRST)


def test_the_next_update_deletes_the_requests_of_ended_updates_and_keeps_those_of_later_ones(
    storage: LocalStorage, tmp_path: Path
) -> None:
    """Requests for an update with events, and those older than 30 days, are deleted; all others stay."""
    requests, now = StopRequests(storage), datetime.now(tz=UTC)
    later, never, mine = (f"{number}{FIRST[1:]}" for number in (1, 2, 3))
    for update_id in (FIRST, later, never, mine):
        requests.ask(StopRequest(update_id=update_id))
    for update_id in (FIRST, mine):
        with log_of(storage, update_id) as log:
            log.record(drafts.update_progress(state="RUNNING"))
    old = (now - timedelta(days=31)).timestamp()
    os.utime(tmp_path / "requests" / f"stop-{never}.json", (old, old))
    (tmp_path / "requests" / "something else").write_text("stays")
    requests.delete_old(mine, now)
    assert storage.list_names(storage.path("requests")) == ["something else", f"stop-{later}.json", f"stop-{mine}.json"]
    assert requests.of(FIRST) is None


class Failing(LocalStorage):
    """A storage that does not answer the first two reads."""

    reads = 0

    def read_text(self, path: str) -> str | None:
        """Fail twice."""
        self.reads += 1
        if self.reads < 3:
            raise OperationError("STORAGE_NOT_READABLE", path=path, problem="the network is down")
        return super().read_text(path)


def test_a_storage_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    """A fault of the storage neither stops the update nor ends the looks."""
    storage, stop = Failing(str(tmp_path)), StopSignal()
    StopRequests(storage).ask(StopRequest(update_id=FIRST))
    with log_of(storage, FIRST) as log, stopped_on_request(storage, FIRST, log, stop, poll_seconds=0.01):
        assert stop.wait(10)
    assert storage.reads == 3
