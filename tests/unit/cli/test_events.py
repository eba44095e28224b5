"""`sluice events` on a real event log."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from framework.foundation.wording import exception_text
from framework.record import drafts
from framework.record.events import EventDraft, EventType, Origin
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock
from framework.views.events import event_line
from tests.support.fake_pipeline import FakePipeline

Sluice = Callable[..., Result]


def log_of(pipeline: FakePipeline) -> EventLog:
    """The log of one update, on a manual clock."""
    origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id="u-1")
    return EventLog(pipeline.storage, origin, ManualClock())


@pytest.fixture(autouse=True)
def events(pipeline: FakePipeline) -> None:
    """A log of four events."""
    with log_of(pipeline) as log:
        log.record(drafts.update_progress(state="RUNNING"))
        log.record(drafts.flow_progress(flow="main.shop.load", dataset="main.shop.orders", status="RUNNING"))
        log.record(drafts.flow_progress(flow="main.shop.load", dataset="main.shop.orders", status="FAILED"))
        log.record(drafts.update_progress(state="FAILED"))


def messages(result: Result) -> list[str]:
    """The messages of a JSON list of events."""
    return [event["message"] for event in json.loads(result.stdout)]


def test_events_are_a_table_oldest_first(sluice: Sluice) -> None:
    """A row has the time, level, type and message of an event."""
    lines = sluice("events").stdout.splitlines()
    assert lines[0].split() == ["time", "level", "type", "message"]
    assert [line[21:] for line in lines[2:]] == [
        "INFO   update_progress  The update is RUNNING.",
        "INFO   flow_progress    Flow main.shop.load is RUNNING.",
        "ERROR  flow_progress    Flow main.shop.load is FAILED.",
        "ERROR  update_progress  The update is FAILED.",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--type", "update_progress"), ["The update is RUNNING.", "The update is FAILED."]),
        (("--level", "error", "--type", "flow_progress"), ["Flow main.shop.load is FAILED."]),
        (("--dataset", "Orders", "--last", "1"), ["Flow main.shop.load is FAILED."]),
        (("--last", "2"), ["Flow main.shop.load is FAILED.", "The update is FAILED."]),
        (("--type", "hook_progress"), []),
    ],
)
def test_filters_narrow_the_events(sluice: Sluice, arguments: tuple[str, ...], expected: list[str]) -> None:
    """--last selects the newest events that match type, level and dataset."""
    assert expected == messages(sluice("events", "-o", "json", *arguments))


def test_pages_go_back_to_the_beginning(sluice: Sluice) -> None:
    """--before with --last is the page before an event; one that the log does not have is an error."""
    everything = json.loads(sluice("events", "-o", "json").stdout)
    found: list[dict[str, str]] = []
    while len(found) < 4:
        before = ("--before", found[0]["id"]) if found else ()
        found = [*json.loads(sluice("events", "-o", "json", "--last", "3", *before).stdout), *found]
    assert everything == found
    assert json.loads(sluice("events", "-o", "json", "--before", found[0]["id"]).stdout) == []
    kept = ("--type", "flow_progress", "--before", found[3]["id"])
    assert messages(sluice("events", "-o", "json", *kept)) == [each["message"] for each in found[1:3]]
    unknown = sluice("events", "--dataset", "ordres", "--before", found[0]["id"])
    assert "[EVENT_DATASET_NOT_FOUND]" in unknown.stderr
    missing = sluice("events", "--before", "x")
    assert missing.exit_code == 2
    assert "[EVENT_NOT_FOUND] The event log has no event with the id 'x'." in missing.stderr
    assert "with the id ''." in sluice("events", "--before", "").stderr
    assert sluice("events", "--before", "x", "--follow").exit_code == 2


def test_the_error_for_an_unknown_dataset_suggests_a_similar_one(sluice: Sluice) -> None:
    """A name without any event is an error, not an empty result."""
    result = sluice("events", "--dataset", "ordres")
    assert result.exit_code == 2
    assert (
        "[EVENT_DATASET_NOT_FOUND] The event log has no events of dataset ordres. Did you mean main.shop.orders?"
        in result.stderr
    )


def test_the_errors_of_an_empty_log_say_so(sluice: Sluice, pipeline: FakePipeline) -> None:
    """Before the first update, no id and no dataset can be right."""
    pipeline.storage.delete_tree(pipeline.storage.path("events"))
    for arguments in (("--before", "x"), ("--dataset", "orders")):
        result = sluice("events", *arguments)
        assert (result.exit_code, "The log is empty: no update has run yet." in result.stderr) == (2, True)
    assert json.loads(sluice("events", "-o", "json").stdout) == []


def test_a_dataset_without_matching_events_has_an_empty_result(sluice: Sluice) -> None:
    """A known dataset may have no event of a type."""
    result = sluice("events", "--dataset", "orders", "--type", "hook_progress", "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")


FOLLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for its background jobs
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.foundation.files.local_storage import LocalStorage
from framework.views.events import event_line
from tests.support.fake_pipeline import FakePipeline
pipeline = FakePipeline(storage=LocalStorage(sys.argv[1]))
cli(["events", "--follow", "--last", "1", "-o", "json", "--spec", "any.yml"],
    obj=Surroundings(open_pipeline=lambda *_, **__: pipeline))
"""


def test_follow_prints_new_events_until_ctrl_c(pipeline: FakePipeline) -> None:
    """Each new event is one line of JSON; after Ctrl-C the exit code is 0."""
    command = [sys.executable, "-c", FOLLOW, pipeline.storage.root]
    root = Path(__file__).parents[3]
    seen = threading.Event()

    def go_on() -> None:
        origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id="u-2")
        with EventLog(pipeline.storage, origin) as log:
            while not seen.wait(0.2):
                log.record(drafts.update_progress(state="QUEUED"))

    writer = threading.Thread(target=go_on)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        writer.start()
        second = json.loads(process.stdout.readline())
        seen.set()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    writer.join()
    assert (first["message"], second["message"]) == ("The update is FAILED.", "The update is QUEUED.")
    assert (process.returncode, errors) == (0, "")


def test_an_event_cannot_control_the_terminal(pipeline: FakePipeline) -> None:
    """`--follow` prints the message of a user's exception with its control characters as escapes."""
    with log_of(pipeline) as log:
        event = log.record(EventDraft(event_type=EventType.FLOW_PROGRESS, message="\x1b[2J"))
    assert event_line(event).endswith("  \\x1b[2J")
    assert exception_text(ValueError("\x1b[2J")) == "ValueError: \\x1b[2J"
