"""The flow board is computed from the update's own events."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import OperationError
from framework.record.events import summarize_error
from framework.views.flow_board import FlowBoard, FlowBoardTracker, FlowProgress
from tests.support.update_events import Update


@pytest.fixture
def update(tmp_path: Path) -> Update:
    """An update that starts now."""
    return Update(str(tmp_path))


def test_batches_add_up_while_a_flow_runs(update: Update) -> None:
    """Rows and failed expectations of batches are summed, each batch once."""
    tracker = FlowBoardTracker()
    for event in (
        update.flow("orders", "STARTING"),
        update.flow("orders", "RUNNING"),
        update.flow("orders", "RUNNING", num_output_rows=10, failed=2, dropped=1),
        update.flow("orders", "RUNNING", num_output_rows=5, failed=1, dropped=0),
    ):
        tracker(event)
    progress = tracker.board.flows[0]
    assert (progress.written, progress.failed, progress.dropped, progress.ended) == (15, 3, 1, False)


def test_the_end_of_a_flow_has_its_totals(update: Update) -> None:
    """The counts of the last event are those of the whole run, and are not added to the batches'."""
    tracker = FlowBoardTracker()
    tracker(update.flow("orders", "RUNNING", num_output_rows=10, failed=2))
    update.clock.sleep(4)
    tracker(update.flow("orders", "COMPLETED", num_output_rows=12, failed=2, message="Flow x is COMPLETED: all done."))
    update.clock.sleep(60)
    progress = tracker.board.flows[0]
    assert (progress.written, progress.failed, progress.reason) == (12, 2, "all done")
    assert progress.seconds(update.clock.now()) == 4.0


def test_a_failed_flow_keeps_what_its_batches_counted(update: Update) -> None:
    """An end without counts does not wipe those that are known."""
    tracker = FlowBoardTracker()
    tracker(update.flow("orders", "RUNNING", num_upserted_rows=7, num_deleted_rows=1))
    tracker(update.flow("orders", "FAILED"))
    progress = tracker.board.flows[0]
    assert (progress.state, progress.upserted, progress.deleted) == ("FAILED", 7, 1)


def test_a_flow_of_a_continuous_update_keeps_its_sums_and_restarts_its_time(update: Update) -> None:
    """Idle reports do not reset the counts; the time is that of the latest run; a failed start is DEGRADED."""
    tracker = FlowBoardTracker()
    tracker(update.flow("orders", "RUNNING", num_output_rows=10))
    update.clock.sleep(3)
    tracker(update.flow("orders", "IDLE", num_output_rows=0))
    idle = tracker.board.flows[0]
    update.clock.sleep(60)
    tracker(update.flow("orders", "RUNNING", num_output_rows=5))
    update.clock.sleep(2)
    running = tracker.board.flows[0]
    fault = summarize_error(OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="no space"), fatal=False)
    message = "Flow x is degraded. It starts again in 4 s: /data can't be written: no space."
    tracker(update.flow("orders", "QUEUED", message=message, error=fault))
    degraded = tracker.board.flows[0]
    now = update.clock.now()
    found = [(each.state, each.written, each.seconds(now)) for each in (idle, running, degraded)]
    assert found == [("IDLE", 10, 3.0), ("RUNNING", 15, 2.0), ("DEGRADED", 15, 2.0)]
    assert degraded.reason == "/data can't be written: no space"


def test_the_board_as_table_and_as_json_has_the_same_flows(update: Update) -> None:
    """Titles are short in the table, names are full in JSON, and empty columns are left out of the table."""
    tracker = FlowBoardTracker()
    tracker(update.state("RUNNING"))
    tracker(update.flow("load", "RUNNING", "orders"))
    update.clock.sleep(2.5)
    tracker(update.flow("load", "COMPLETED", "orders", num_upserted_rows=27004, failed=31, dropped=20))
    tracker(update.flow("by_day", "QUEUED"))
    board, now = tracker.board, update.clock.now()
    table = board.table(now)
    assert [column.name for column in table.columns] == ["flow", "state", "rows", "time", "expectations"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["load into orders", "COMPLETED", "27,004 upserted", "2.5 s", "31 failed, 20 dropped"],
        ["by_day", "QUEUED", "", "", ""],
    ]
    found = board.to_json(now)
    assert (found["update_id"], found["state"]) == ("u-1", "RUNNING")
    assert found["flows"][0] == {
        "flow": "main.shop.load",
        "dataset": "main.shop.orders",
        "state": "COMPLETED",
        "reason": "",
        "rows_written": None,
        "rows_upserted": 27004,
        "rows_deleted": 0,
        "rows_dropped": 20,
        "records_failed": 31,
        "seconds": 2.5,
    }


def test_current_states_replace_those_of_the_last_events(update: Update) -> None:
    """A flow that is idle before its event was recorded keeps its counts, and its run has no duration yet."""
    tracker = FlowBoardTracker()
    tracker(update.flow("orders", "RUNNING", num_output_rows=10))
    states = [
        FlowProgress(flow="main.shop.orders", dataset="main.shop.orders", state="IDLE"),
        FlowProgress(flow="main.shop.by_day", dataset="main.shop.by_day", state="DEGRADED", reason="no space"),
    ]
    found = tracker.board.with_states(states).flows
    now = update.clock.now()
    assert [(each.state, each.written, each.seconds(now), each.reason) for each in found] == [
        ("IDLE", 10, None, ""),
        ("DEGRADED", None, None, "no space"),
    ]


def test_an_excerpt_has_the_flows_that_need_attention_in_the_order_of_the_board() -> None:
    """Failed and running flows come before completed and queued ones; the tally counts the rest."""
    states = {"a": "QUEUED", "b": "COMPLETED", "c": "RUNNING", "d": "DEGRADED", "e": "FAILED", "f": "IDLE"}
    board = FlowBoard(flows=tuple(FlowProgress(flow=name, dataset=name, state=state) for name, state in states.items()))
    assert [flow.flow for flow in board.excerpt(3).flows] == ["c", "d", "e"]
    assert board.without(board.excerpt(3).flows).tally() == "2 flows done, 1 flow more"
    assert board.excerpt(6) == board
