"""Progress on a terminal and elsewhere, from the update's own events."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from framework.cli.live_progress import LiveProgress
from framework.cli.progress import PlainProgress, open_progress
from framework.foundation.errors import OperationError
from framework.record.events import summarize_error
from tests.support.update_events import Update


@pytest.fixture
def update(tmp_path: Path) -> Update:
    """An update that starts now."""
    return Update(str(tmp_path))


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_plain_progress_prints_each_change_once(update: Update) -> None:
    """A state is one line; batches in between print a line every ten seconds."""
    stream = io.StringIO()
    with PlainProgress(stream, title="shop", clock=update.clock) as progress:
        progress(update.state("RUNNING"))
        progress(update.flow("changes", "QUEUED", "orders"))
        progress(update.flow("changes", "RUNNING", "orders"))
        progress(update.flow("changes", "RUNNING", "orders", num_upserted_rows=1200))
        update.clock.sleep(11)
        progress(update.flow("changes", "RUNNING", "orders", num_upserted_rows=34, num_deleted_rows=2))
        progress(update.flow("changes", "COMPLETED", "orders", num_upserted_rows=1234, num_deleted_rows=2, failed=3))
        progress(update.flow("view", "IDLE", message="Flow main.shop.view is IDLE: no new data to read."))
        progress(update.state("COMPLETED"))
    assert [line[10:] for line in stream.getvalue().splitlines()] == [
        "shop: RUNNING",
        "changes into orders: RUNNING",
        "changes into orders: RUNNING, 1,234 upserted, 2 deleted, 11.0 s",
        "changes into orders: COMPLETED, 1,234 upserted, 2 deleted, 11.0 s, 3 failed",
        "view: IDLE (no new data to read)",
        "shop: COMPLETED",
    ]


def test_many_idle_flows_are_one_line_for_each_reason(update: Update) -> None:
    """Up to three are named, and all with `-v`; a flow that has worked is named, and none waits longer than others."""
    streams = [io.StringIO(), io.StringIO()]
    plain = [
        PlainProgress(stream, title="shop", clock=update.clock, each_idle=bool(n)) for n, stream in enumerate(streams)
    ]
    events = [update.state("RUNNING"), update.flow("busy", "RUNNING")]
    events += [update.flow(f"f{n}", "IDLE", message=f"Flow f{n} is IDLE: no new data to read.") for n in range(200)]
    events += [update.flow("view", "IDLE", message="Flow view is IDLE: its inputs have not changed.")]
    events += [update.flow("busy", "IDLE"), update.state("COMPLETED")]
    for progress in plain:
        with progress:
            for event in events:
                progress(event)
    few, each = ([line[10:] for line in stream.getvalue().splitlines()] for stream in streams)
    assert few == [
        "shop: RUNNING", "busy: RUNNING", "busy: IDLE", "200 flows: IDLE (no new data to read)",
        "view: IDLE (its inputs have not changed)", "shop: COMPLETED",
    ]  # fmt: skip
    assert (len(each), each[2]) == (205, "f0: IDLE (no new data to read)")


def test_idle_flows_of_a_continuous_update_are_told_within_seconds(update: Update) -> None:
    """Nothing else may be said of the update for weeks. One that works meanwhile is not told as idle."""
    stream = io.StringIO()
    with PlainProgress(stream, title="shop", clock=update.clock) as progress:
        progress(update.flow("first", "IDLE"))
        progress(update.flow("second", "IDLE"))
        progress(update.flow("second", "RUNNING"))
        update.clock.sleep(10)
        progress(update.flow("third", "RUNNING"))
        lines = ["second: RUNNING", "first: IDLE", "third: RUNNING"]
        assert [line[10:] for line in stream.getvalue().splitlines()] == lines
        for _ in range(2):
            update.clock.sleep(60)  # an idle flow reports its state once a minute
            for flow in ("first", "fourth", "fifth", "sixth"):
                progress(update.flow(flow, "IDLE"))
    assert [line[10:] for line in stream.getvalue().splitlines()] == [*lines, *["4 flows: IDLE"] * 2]


def draw(progress: LiveProgress) -> list[str]:
    """The lines of the live table."""
    with progress._console.capture() as capture:
        progress._console.print(progress._draw())
    return [line.rstrip() for line in capture.get().splitlines()]


def live(update: Update, monkeypatch: pytest.MonkeyPatch, *, lines: int) -> LiveProgress:
    """Live progress on a terminal of that many lines, without colours."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", str(lines))
    return LiveProgress(Terminal(), title="shop", clock=update.clock)


def test_the_live_table_has_a_row_for_each_flow(update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has the flow's name, state, rows, seconds and failed expectations."""
    progress = live(update, monkeypatch, lines=40)
    progress(update.state("RUNNING"))
    progress(update.flow("schedule", "RUNNING", "orders"))
    progress(update.flow("by_day", "QUEUED"))
    update.clock.sleep(2.5)
    progress(update.flow("schedule", "COMPLETED", "orders", num_upserted_rows=27004, failed=31, dropped=20))
    shown = draw(progress)
    assert shown[0].split()[1:] == ["shop", "running", "2.5", "s"]
    assert [line.split() for line in shown[1:]] == [
        ["flow", "state", "rows", "time", "expectations"],
        [
            "✓",
            "schedule",
            "into",
            "orders",
            "completed",
            "27,004",
            "upserted",
            "2.5",
            "s",
            "31",
            "failed,",
            "20",
            "dropped",
        ],
        ["·", "by_day", "queued"],
    ]


def test_a_small_terminal_displays_an_excerpt_and_counts_the_rest(
    update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more flows than lines, failed and running flows are displayed."""
    progress = live(update, monkeypatch, lines=8)
    for number in range(20):
        progress(update.flow(f"done_{number}", "COMPLETED"))
    for number in range(20):
        progress(update.flow(f"later_{number}", "QUEUED"))
    progress(update.flow("bad", "FAILED"))
    progress(update.flow("busy", "RUNNING"))
    shown = [line.split() for line in draw(progress)]
    assert ["✗", "bad", "failed", "0.0", "s"][:3] in [row[:3] for row in shown]
    assert "busy" in [row[1] for row in shown if len(row) > 1]
    assert shown[-1] == ["…", "and", "19", "flows", "done,", "20", "flows", "more"]
    assert len(shown) <= 8


def test_the_reasons_of_failed_and_degraded_flows_are_below_the_table(
    update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line each, cut to the width of the terminal, while a continuous update runs."""
    progress = live(update, monkeypatch, lines=12)
    progress(update.flow("bad", "FAILED", message="Flow x is FAILED: EXPECTATION_VIOLATION."))
    fault = summarize_error(OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="no space"), fatal=False)
    message = f"Flow x is degraded. It starts again in 4 s: {'no ' * 99}"
    progress(update.flow("slow", "QUEUED", message=message, error=fault))
    progress(update.flow("fine", "COMPLETED"))
    shown = draw(progress)
    assert [line.split()[:3] for line in shown[2:5]] == [
        ["✗", "bad", "failed"],
        ["!", "slow", "degraded"],
        ["✓", "fine", "completed"],
    ]
    assert shown[5] == "  bad: EXPECTATION_VIOLATION"
    assert (shown[6][:12], shown[6][-1], len(shown)) == ("  slow: no n", "…", 7)


@pytest.mark.parametrize(("no_colour", "kind"), [("", LiveProgress), ("1", PlainProgress)])
def test_a_terminal_gets_live_progress_unless_no_color_is_set(
    update: Update, monkeypatch: pytest.MonkeyPatch, no_colour: str, kind: type
) -> None:
    """With NO_COLOR, and without a terminal, the progress is plain lines."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_colour)
    assert type(open_progress(Terminal(), title="shop", clock=update.clock)) is kind
    assert type(open_progress(io.StringIO(), title="shop", clock=update.clock)) is PlainProgress


def test_live_progress_is_removed_at_the_end(update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is erased at the end of the block; printed sentences stay."""
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with LiveProgress(stream, title="shop", clock=update.clock) as progress:
        progress(update.flow("orders", "RUNNING"))
        progress.say("SIGINT: stopping")
    ends = stream.getvalue().rpartition("\x1b[2K")
    assert ends[1], "the last table is erased"
    assert "orders" not in ends[2]
    assert "SIGINT: stopping" in stream.getvalue()
    assert os.environ["TERM"] == "xterm-256color"
