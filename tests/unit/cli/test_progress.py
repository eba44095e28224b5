"""Progress on a terminal and elsewhere, from the update's own events."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any

import pytest

from framework.cli.flow_board import FlowBoard
from framework.cli.live_progress import LiveProgress
from framework.cli.progress import PlainProgress, open_progress
from framework.foundation.local_storage import LocalStorage
from framework.record import drafts
from framework.record.events import Event, EventDraft, Origin
from framework.record.log import EventLog
from framework.testing.manual_clock import ManualClock


class Update:
    """Creates the events of an update, as its log does, on a manual clock."""

    def __init__(self, folder: str) -> None:
        self.clock = ManualClock()
        self._log = EventLog(
            LocalStorage(folder), Origin(pipeline_id="p", pipeline_name="shop", update_id="u-1"), self.clock
        )

    def state(self, state: str) -> Event:
        """The update is in a state."""
        return self._log.record(drafts.update_progress(state=state))

    def flow(
        self, flow: str, status: str, dataset: str | None = None, message: str | None = None, **counts: Any
    ) -> Event:
        """A flow is in a state, with counts."""
        quality: Mapping[str, Any] | None = None
        if "failed" in counts:
            record = drafts.ExpectationRecord(
                name="e", dataset="main.shop.orders", passed_records=1, failed_records=counts.pop("failed")
            )
            quality = drafts.data_quality(dropped_records=counts.pop("dropped", 0), expectations=[record])
        draft: EventDraft = drafts.flow_progress(
            flow=f"main.shop.{flow}",
            dataset=f"main.shop.{dataset or flow}",
            status=status,
            metrics=counts,
            quality=quality,
            message=message,
        )
        return self._log.record(draft)


@pytest.fixture
def update(tmp_path: Any) -> Update:
    """An update that begins now."""
    return Update(str(tmp_path))


class Terminal(io.StringIO):
    """A text stream that reports to be a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_batches_add_up_while_a_flow_runs(update: Update) -> None:
    """Rows and failed expectations of batches are summed, each batch once."""
    board = FlowBoard()
    for event in (
        update.flow("orders", "STARTING"),
        update.flow("orders", "RUNNING"),
        update.flow("orders", "RUNNING", num_output_rows=10, failed=2, dropped=1),
        update.flow("orders", "RUNNING", num_output_rows=5, failed=1, dropped=0),
    ):
        board.take(event)
    progress = board.flows["main.shop.orders"]
    assert (progress.written, progress.failed, progress.dropped, progress.ended) == (15, 3, 1, False)


def test_the_end_of_a_flow_tells_its_totals(update: Update) -> None:
    """The counts of the last event are those of the whole run, and are not added to the batches'."""
    board = FlowBoard()
    board.take(update.flow("orders", "RUNNING", num_output_rows=10, failed=2))
    update.clock.sleep(4)
    board.take(
        update.flow("orders", "COMPLETED", num_output_rows=12, failed=2, message="Flow x is COMPLETED: all done.")
    )
    update.clock.sleep(60)
    progress = board.flows["main.shop.orders"]
    assert (progress.written, progress.failed, progress.note) == (12, 2, "all done")
    assert progress.seconds(update.clock.now()) == 4.0


def test_a_failed_flow_keeps_what_its_batches_counted(update: Update) -> None:
    """An end without counts does not wipe those that are known."""
    board = FlowBoard()
    board.take(update.flow("orders", "RUNNING", num_upserted_rows=7, num_deleted_rows=1))
    board.take(update.flow("orders", "FAILED"))
    progress = board.flows["main.shop.orders"]
    assert (progress.status, progress.upserted, progress.deleted) == ("FAILED", 7, 1)


def test_plain_lines_tell_each_change_once(update: Update) -> None:
    """Each state is one line; batches in between print nothing unless ten seconds passed."""
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


def draw(progress: LiveProgress) -> list[str]:
    """Return the current live table."""
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
    """Each flow has a row with state, rows, seconds and failed expectations."""
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


def test_a_small_terminal_shows_what_matters_and_counts_the_rest(
    update: Update, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more flows than lines, failed and running flows stay visible."""
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


@pytest.mark.parametrize(("no_colour", "kind"), [("", LiveProgress), ("1", PlainProgress)])
def test_a_terminal_gets_live_progress_unless_it_wants_no_colours(
    update: Update, monkeypatch: pytest.MonkeyPatch, no_colour: str, kind: type
) -> None:
    """NO_COLOR and streams that are no terminal get plain lines."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_colour)
    assert type(open_progress(Terminal(), title="shop", clock=update.clock)) is kind
    assert type(open_progress(io.StringIO(), title="shop", clock=update.clock)) is PlainProgress


def test_live_progress_leaves_nothing_behind(update: Update, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table disappears when the block ends; the printed lines stay."""
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with LiveProgress(stream, title="shop", clock=update.clock) as progress:
        progress(update.flow("orders", "RUNNING"))
        progress.say("SIGINT: stopping")
    ends = stream.getvalue().rpartition("\x1b[2K")
    assert ends[1], "the last thing drawn is erased"
    assert "orders" not in ends[2]
    assert "SIGINT: stopping" in stream.getvalue()
    assert os.environ["TERM"] == "xterm-256color"
