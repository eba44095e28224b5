"""The event log loses no event that is older than its interval, and blocks no caller."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.record.drafts import flow_progress, update_progress
from framework.record.events import Event, EventLevel, EventType, Origin, parse_event
from framework.record.log import KEPT_DAYS, KEPT_FILES, EventLog, delete_old_events
from framework.record.pages import EventPages
from framework.record.reader import (
    event_filter,
    follow_events,
    longest_update_seconds,
    newest_events,
    read_events,
)
from framework.testing.manual_clock import ManualClock

EMITTER = """
import sys, time
from framework.engine.files.storage import open_storage
from framework.record.events import Origin
from framework.record.log import EventLog

log = EventLog(open_storage(sys.argv[1]), Origin(pipeline_id="p", pipeline_name="p", update_id="u"))
for number in range(100):
    log.emit("update_progress", str(number))
print("emitted", flush=True)
time.sleep(600)
"""


class PartStorage(LocalStorage):
    """A local folder that can't append, as object stores can't."""

    can_append = False


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


def open_log(storage: LocalStorage, update: str = "u-1", clock: ManualClock | None = None) -> EventLog:
    """The log of one update, with a fixed clock."""
    origin = Origin(pipeline_id="p", pipeline_name="flights", update_id=update)
    return EventLog(storage, origin, clock or ManualClock(), flush_seconds=0.01)


def test_events_are_numbered_timed_and_placed_by_the_log(storage: LocalStorage) -> None:
    """The log sets sequence, time and origin of each event, and returns the event in the form that readers see."""
    with open_log(storage) as log:
        first = log.record(update_progress(state="RUNNING"))
        second = log.record(flow_progress(flow="m.f.flow", dataset="m.f.t", status="COMPLETED"))
    assert read_events(storage) == [first, second]
    assert [(event.sequence, event.timestamp) for event in (first, second)] == [
        (1, "2026-01-01T00:00:00.000Z"),
        (2, "2026-01-01T00:00:00.000Z"),
    ]
    assert (second.origin.flow_name, second.origin.dataset_name, second.origin.update_id) == (
        "m.f.flow",
        "m.f.t",
        "u-1",
    )
    assert first.id != second.id


def test_emit_takes_the_parts_of_an_event(storage: LocalStorage) -> None:
    """`emit` with plain texts makes the same event as typed values do, and refuses an unknown type."""
    with open_log(storage) as log:
        event = log.emit(
            "user_action", "stopped", level="WARN", dataset="d", details={"user_action": {"action": "STOP"}}
        )
        with pytest.raises(ValueError, match="no_such_type"):
            log.emit("no_such_type", "x")
    assert (event.event_type, event.level, event.origin.dataset_name) == (EventType.USER_ACTION, EventLevel.WARN, "d")
    assert read_events(storage) == [event]


def test_events_of_many_threads_are_all_kept(storage: LocalStorage) -> None:
    """Eight threads that emit at once lose no event, and no number is used twice."""
    with open_log(storage) as log, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: log.emit("update_progress", str(n)), range(400)))
    events = read_events(storage)
    assert sorted(event.sequence for event in events) == list(range(1, 401))
    assert sorted(int(event.message) for event in events) == list(range(400))


def test_kill_nine_loses_nothing_that_is_five_seconds_old(storage: LocalStorage) -> None:
    """After a kill, the log has all events that are older than five seconds."""
    command = [sys.executable, "-c", EMITTER, storage.root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "emitted\n"
        deadline = time.monotonic() + 5
        while len(read_events(storage)) < 100 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert [event.message for event in read_events(storage)] == [str(number) for number in range(100)]


def test_half_a_line_is_passed_over_and_those_before_it_are_read(storage: LocalStorage) -> None:
    """A line that a kill cut off is no event, and hides no other."""
    with open_log(storage, "u-1") as log:
        events = [log.emit("update_progress", str(number)) for number in range(3)]
    file = pathlib.Path(storage.root, "events", "u-1.jsonl")
    file.write_text(file.read_text()[:-40])
    with open_log(storage, "u-2") as log:
        events.append(log.emit("update_progress", "next update"))
    assert read_events(storage) == [events[0], events[1], events[3]]


def test_where_appending_is_dear_each_write_is_a_file_of_its_own(tmp_path: pathlib.Path) -> None:
    """On a storage without appends, events are in part files that read as one log."""
    storage = PartStorage(str(tmp_path))
    with open_log(storage) as log:
        first = log.emit("update_progress", "one")
        while not storage.list_names("events"):
            time.sleep(0.01)
        second = log.emit("update_progress", "two")
    assert storage.list_names("events") == ["u-1-00000.jsonl", "u-1-00001.jsonl"]
    assert read_events(storage) == [first, second]


def test_a_storage_that_heals_gets_all_events_once(tmp_path: pathlib.Path) -> None:
    """While writing fails, events are buffered; when it works again, each is written once."""
    (tmp_path / "events").write_text("a file in the way")
    storage = LocalStorage(str(tmp_path))
    with open_log(storage) as log:
        events = [log.emit("update_progress", str(number), level="ERROR") for number in range(3)]
        while log._failure is None:
            time.sleep(0.01)
        (tmp_path / "events").unlink()
    assert read_events(storage) == events


def test_closing_tells_that_events_are_lost(tmp_path: pathlib.Path) -> None:
    """Events that could not be written are an error with its reason."""
    (tmp_path / "events").write_text("a file in the way")
    log = open_log(LocalStorage(str(tmp_path)))
    log.emit("update_progress", "x")
    with pytest.raises(OperationError) as caught:
        log.close()
    assert caught.value.condition == "EVENT_LOG_NOT_WRITABLE"
    assert "events" in str(caught.value.fields["problem"])


def test_a_closed_log_takes_no_more_events(storage: LocalStorage) -> None:
    """Closing twice is fine; recording after it is a programming error."""
    log = open_log(storage)
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"):
        log.emit("update_progress", "x")


def test_observers_get_each_event_in_the_emitting_thread(storage: LocalStorage) -> None:
    """The observer has received the event when `record` returns."""
    seen: list[tuple[Event, str]] = []
    with open_log(storage) as log:
        log.subscribe(lambda event: seen.append((event, threading.current_thread().name)))
        event = log.emit("update_progress", "x")
        assert seen == [(event, threading.current_thread().name)]


def test_an_observer_that_raises_is_dropped_and_recorded(storage: LocalStorage) -> None:
    """A failing observer fails no update: it gets one event, and the log records that it was removed."""
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise RuntimeError("bang")

    with open_log(storage) as log:
        log.subscribe(broken)
        for number in range(3):
            log.emit("update_progress", str(number))
    hook_events = [event for event in read_events(storage) if event.event_type is EventType.HOOK_PROGRESS]
    assert (len(calls), len(hook_events), len(read_events(storage))) == (1, 1, 4)
    assert hook_events[0].error is not None
    assert hook_events[0].error.exceptions[0].message == "bang"


def test_events_are_read_by_type_level_dataset_update_and_number(storage: LocalStorage) -> None:
    """Each filter selects what it names; levels include more severe ones; `last` selects the newest."""
    clock = ManualClock()
    for update in ("u-2", "u-1"):  # in this order of time, against that of names
        with open_log(storage, update, clock) as log:
            for status in ("RUNNING", "FAILED"):
                clock.sleep(1)
                log.record(flow_progress(flow="f", dataset="main.sales.orders", status=status, message=update + status))
            log.record(update_progress(state="FAILED", message=update))
    expected = {
        "type": (read_events(storage, type="update_progress"), ["u-2", "u-1"]),
        "level": (read_events(storage, level="WARN", type="flow_progress"), ["u-2FAILED", "u-1FAILED"]),
        "dataset": (read_events(storage, dataset="orders", level="ERROR"), ["u-2FAILED", "u-1FAILED"]),
        "full name": (read_events(storage, dataset="main.sales.orders", last=1), ["u-1FAILED"]),
        "part of a name": (read_events(storage, dataset="ders"), []),
        "update": (read_events(storage, update_id="u-2", type="update_progress"), ["u-2"]),
        "last": (read_events(storage, last=4), ["u-2", "u-1RUNNING", "u-1FAILED", "u-1"]),
        "none": (read_events(storage, last=0), []),
    }
    assert {name: [event.message for event in found] for name, (found, _) in expected.items()} == {
        name: messages for name, (_, messages) in expected.items()
    }


def test_the_longest_of_the_last_updates_is_the_time_between_its_first_and_last_event(storage: LocalStorage) -> None:
    """An update has the events of all its files; older updates than the last ones don't count."""
    assert longest_update_seconds(storage) is None
    clock = ManualClock()
    for update, seconds in (("u-1", 500.0), ("u-2", 20.0), ("u-3", 7.5)):
        with open_log(storage, update, clock) as log:
            log.record(update_progress(state="RUNNING"))
            clock.sleep(seconds)
            log.record(update_progress(state="COMPLETED"))
        modified = 1_000 + int(update[-1])
        os.utime(storage.path("events", f"{update}.jsonl"), (modified, modified))
    assert longest_update_seconds(storage) == 500.0
    assert longest_update_seconds(storage, last=2) == 20.0


def test_a_clock_that_is_set_back_changes_no_order(storage: LocalStorage) -> None:
    """Events are read as they were written, within an update and between updates: the last update's come last."""

    def update(name: str, hours_ahead: int, *states: str) -> None:
        begin = datetime.now(tz=UTC) + timedelta(hours=hours_ahead)
        clock = ManualClock(begin)
        with open_log(storage, name, clock) as log:
            for state in states:
                log.record(flow_progress(flow="f", dataset="d", status=state, message=f"{name} {state}"))
                clock.sleep(-600)
        if hours_ahead:
            os.utime(storage.path("events", f"{name}.jsonl"), (0, begin.timestamp()))

    update("u-9", 2, "RUNNING", "COMPLETED")
    update("u-5", 3, "RUNNING", "COMPLETED")
    delete_old_events(storage, datetime.now(tz=UTC))
    time.sleep(0.02)  # the times of files have steps of some milliseconds
    update("u-1", 0, "RUNNING", "FAILED")
    assert [event.message for event in read_events(storage)] == [
        "u-9 RUNNING", "u-9 COMPLETED", "u-5 RUNNING", "u-5 COMPLETED", "u-1 RUNNING", "u-1 FAILED"
    ]  # fmt: skip
    assert [event.message for event in read_events(storage, last=1)] == ["u-1 FAILED"]
    assert next(newest_events(storage, EventType.FLOW_PROGRESS)).message == "u-1 FAILED"
    followed = follow_events(storage, existing=None)
    assert [next(followed).message for _ in range(6)][-1] == "u-1 FAILED"


def test_an_update_that_begins_when_a_file_of_the_future_is_corrected_comes_after_it(storage: LocalStorage) -> None:
    """Both have one millisecond: the file that was written later has the later events."""
    now = datetime.now(tz=UTC).replace(microsecond=0)
    with open_log(storage, "u-9", ManualClock(now + timedelta(hours=1))) as log:
        log.emit("update_progress", "of the future")
        log.emit("update_progress", "its end")
    os.utime(storage.path("events", "u-9.jsonl"), (0, now.timestamp()))
    with open_log(storage, "u-1", ManualClock(now)) as log:
        log.emit("update_progress", "next")
    os.utime(storage.path("events", "u-1.jsonl"), (0, now.timestamp() + 0.5))
    assert [event.message for event in read_events(storage)] == ["of the future", "its end", "next"]


def test_events_later_than_the_time_of_their_file_keep_their_order(storage: LocalStorage) -> None:
    """A file's time may be some milliseconds before its last events: all readers have the start before the end."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    with open_log(storage, "u-1", clock) as log:
        for state in ("RUNNING", "STOPPING", "CANCELED"):
            log.record(update_progress(state=state, message=state))
            clock.sleep(0.003)
    pages = EventPages(storage, pathlib.Path(storage.root, "cache"))
    for milliseconds in (8.0, 6.5, 6.0, 3.4, 3.0, 0.5, 0.0):
        modified = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
        os.utime(storage.path("events", "u-1.jsonl"), (0, modified.timestamp()))
        assert [event.message for event in read_events(storage)] == ["RUNNING", "STOPPING", "CANCELED"]
        assert [event.message for event in read_events(storage, last=1)] == ["CANCELED"]
        assert [event.message for event in pages.page().events] == ["RUNNING", "STOPPING", "CANCELED"]


def test_following_gives_what_comes_next_and_only_that(storage: LocalStorage) -> None:
    """Earlier events are skipped; later ones are returned in order and once, of other updates too."""
    with open_log(storage, "u-1") as log:
        log.emit("update_progress", "before")

    class WritingClock(ManualClock):
        """Writes one more event whenever the follower sleeps."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            with open_log(storage, f"u-{self.elapsed_seconds}", self) as log:
                log.emit("update_progress", f"at {self.elapsed_seconds}")
                log.record(flow_progress(flow="f", dataset="d", status="RUNNING"))

    followed = follow_events(storage, matches=event_filter(type="update_progress"), clock=WritingClock())
    assert [next(followed).message for _ in range(3)] == ["at 0.5", "at 1.0", "at 1.5"]


def test_a_follower_reads_each_byte_once(tmp_path: pathlib.Path) -> None:
    """The end of a line that is not there yet is read with the rest of it; a line that is there twice is one event."""
    read: list[int] = []

    class CountingStorage(LocalStorage):
        """Keeps the lengths of what is read."""

        def read_after(self, path: str, position: int) -> bytes:
            found = super().read_after(path, position)
            read.append(len(found))
            return found

    storage = CountingStorage(str(tmp_path))
    with open_log(storage) as log:
        lines = [log.emit("update_progress", f"e\u00e9 {number}").to_line().encode() for number in range(4)]
    file = pathlib.Path(storage.path("events", "u-1.jsonl"))
    file.write_bytes(lines[0])
    cut = lines[2].index(b"\xa9")
    writes = [lines[1] + lines[2][:cut], lines[2][cut:] + lines[1], b"", lines[3]]

    class WritingClock(ManualClock):
        """Writes the next part of the file whenever the follower sleeps."""

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            with file.open("ab") as end:
                end.write(writes.pop(0))

    followed = follow_events(storage, clock=WritingClock(), existing=1)
    assert [next(followed).message[-1] for _ in range(4)] == ["0", "1", "2", "3"]
    assert sum(read) == file.stat().st_size + cut
    assert len(read) == 4


def test_the_file_holds_nothing_but_lines_of_events(storage: LocalStorage) -> None:
    """Any reader of JSON lines can read the log: no header, no comma, one event a line."""
    with open_log(storage) as log:
        for number in range(3):
            log.emit("update_progress", f"line\u2028{number}\r\n")
    text = pathlib.Path(storage.root, "events", "u-1.jsonl").read_text()
    assert all(parse_event(line) for line in text.split("\n")[:-1])
    assert (text.count("\n"), storage.list_names("events")) == (3, ["u-1.jsonl"])


def test_old_files_are_deleted_but_never_the_newest_thousand(storage: LocalStorage, tmp_path: pathlib.Path) -> None:
    """Of files that are all too old, the newest thousand stay; younger files stay however many there are."""
    clock, events = ManualClock(), tmp_path / "events"
    events.mkdir()
    now, day = clock.now().timestamp(), 86_400
    for number in range(KEPT_FILES + 3):
        file = events / f"{number:05d}.jsonl"
        file.touch()
        os.utime(file, (0, now - KEPT_DAYS * day - number))
    delete_old_events(storage, clock.now())
    old = sorted(file.name for file in events.iterdir())
    for number in range(KEPT_FILES):
        (events / f"young-{number}.jsonl").touch()
    os.utime(events / "00000.jsonl", (0, now - KEPT_DAYS * day))
    delete_old_events(storage, clock.now())
    left = {file.name for file in events.iterdir()}
    assert old == [f"{number:05d}.jsonl" for number in range(KEPT_FILES)]
    assert left == {"00000.jsonl", *(f"young-{number}.jsonl" for number in range(KEPT_FILES))}


def test_the_files_of_one_update_roll_over_and_their_number_is_bounded(
    storage: LocalStorage, tmp_path: pathlib.Path, swap: pytest.MonkeyPatch
) -> None:
    """The first file, which has the definitions, and the last sixteen stay; the events in between are deleted."""
    swap.setattr("framework.record.log._PART_BYTES", 1)
    with open_log(storage) as log:
        for number in range(30):
            log.emit("update_progress", str(number))
            deadline = time.monotonic() + 60
            while [event.message for event in read_events(storage)][-1:] != [str(number)]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    assert {file.name for file in (tmp_path / "events").iterdir()} == {
        "u-1.jsonl", *(f"u-1-{number:05d}.jsonl" for number in range(15, 30))
    }  # fmt: skip
    assert [int(event.message) for event in read_events(storage)] == [0, *range(15, 30)]


def test_an_old_file_that_cannot_be_deleted_is_kept(
    storage: LocalStorage, tmp_path: pathlib.Path, swap: pytest.MonkeyPatch
) -> None:
    """The other old files are deleted, and no error is raised."""
    swap.setattr("framework.record.log.KEPT_FILES", 0)
    (tmp_path / "events").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "events" / f"{name}.jsonl").touch()
        os.utime(tmp_path / "events" / f"{name}.jsonl", (0, 0))
    delete = storage.delete_tree

    def refuses_b(path: str) -> None:
        if path.endswith("b.jsonl"):
            raise OperationError("STORAGE_NOT_WRITABLE", path=path, problem="immutable")
        delete(path)

    swap.setattr(storage, "delete_tree", refuses_b)
    delete_old_events(storage, ManualClock().now())
    assert [file.name for file in (tmp_path / "events").iterdir()] == ["b.jsonl"]
