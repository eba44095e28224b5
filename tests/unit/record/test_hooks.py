"""Hooks get each event in order, off the update's path, and can't do it harm."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.record.events import Event, EventType, Origin
from framework.record.hooks import EventHook, HookRunner
from framework.record.log import EventLog
from framework.record.reader import read_events


@pytest.fixture
def storage(tmp_path: pathlib.Path) -> LocalStorage:
    """An empty storage."""
    return LocalStorage(str(tmp_path))


@pytest.fixture
def log(storage: LocalStorage) -> EventLog:
    """The log of one update."""
    return EventLog(storage, Origin(pipeline_id="p", pipeline_name="p", update_id="u"), flush_seconds=0.01)


def emit_and_close(log: EventLog, hooks: list[EventHook], count: int) -> list[Event]:
    """Emit so many events to hooks, end it all, and return the hook_progress events."""
    runner = HookRunner(hooks, log)
    for number in range(count):
        log.emit("update_progress", str(number))
    runner.close()
    log.close()
    return read_events(log._storage, type=EventType.HOOK_PROGRESS)


def test_hooks_get_each_event_as_a_dictionary_in_order(log: EventLog) -> None:
    """Each hook gets its own dictionary of every event, in order, in one separate thread."""
    got: list[tuple[str, str]] = []
    threads = set()

    def first(event: dict[str, Any]) -> None:
        threads.add(threading.current_thread())
        got.append(("first", event.pop("message")))

    def second(event: dict[str, Any]) -> None:
        threads.add(threading.current_thread())
        got.append(("second", event["message"]))

    failures = emit_and_close(
        log, [EventHook(name="first", function=first), EventHook(name="second", function=second)], 3
    )
    assert got == [(name, str(number)) for number in range(3) for name in ("first", "second")]
    assert (failures, len(threads), threading.current_thread() in threads) == ([], 1, False)


def fail_on(messages: set[str]) -> tuple[list[str], EventHook]:
    """A hook with two allowed failures that fails for some events, and the list of its calls."""
    calls: list[str] = []

    def hook(event: dict[str, Any]) -> None:
        calls.append(event["message"])
        if event["message"] in messages:
            raise RuntimeError(event["message"])

    return calls, EventHook(name="hook", function=hook, max_allowable_consecutive_failures=2)


def test_a_hook_is_switched_off_after_its_failures_in_a_row(log: EventLog) -> None:
    """Two consecutive failures disable a hook with two allowed failures; a success resets the count."""
    calls, hook = fail_on({"0", "2", "3"})
    events = emit_and_close(log, [hook], 6)
    assert calls == ["0", "1", "2", "3"]
    statuses = [event.details["hook_progress"] for event in events]
    assert statuses == [{"name": "hook", "status": status} for status in ("FAILED", "FAILED", "DISABLED")]
    assert events[-1].error is not None
    assert (events[-1].level, events[-1].error.exceptions[0].message) == ("WARN", "3")


def test_a_hook_without_a_limit_goes_on_failing(log: EventLog) -> None:
    """Without a limit the hook gets every event, every failure is recorded, and none causes another."""
    calls: list[str] = []

    def hook(event: dict[str, Any]) -> None:
        calls.append(event["message"])
        raise RuntimeError

    events = emit_and_close(log, [EventHook(name="hook", function=hook)], 5)
    assert (calls, len(events)) == (["0", "1", "2", "3", "4"], 5)


def test_one_hook_failing_takes_no_event_from_another(log: EventLog) -> None:
    """Other hooks get every event."""
    failing_calls, failing = fail_on({"0", "1", "2"})
    sound_calls, sound = fail_on(set())
    emit_and_close(log, [failing, sound], 3)
    assert (failing_calls, sound_calls) == (["0", "1"], ["0", "1", "2"])


def test_a_hook_that_hangs_holds_up_neither_the_update_nor_its_end(log: EventLog, storage: LocalStorage) -> None:
    """`emit` returns immediately, and closing gives up after a timeout and reports undelivered events."""
    never = threading.Event()
    runner = HookRunner([EventHook(name="hook", function=lambda _: (never.wait(), None)[1])], log)
    for number in range(3):
        log.emit("update_progress", str(number))
    runner.close(drain_seconds=0.05)
    log.close()
    never.set()
    events = read_events(storage)
    assert [event.details["hook_progress"]["status"] for event in events if event.event_type == "hook_progress"] == [
        "DROPPED"
    ]
    assert [event.message for event in events if event.event_type == "update_progress"] == ["0", "1", "2"]


def test_without_hooks_there_is_no_thread(log: EventLog) -> None:
    """An update without hooks starts no worker, and closing does nothing."""
    before = threading.active_count()
    runner = HookRunner([], log)
    runner.close()
    assert threading.active_count() == before
    log.close()
