"""`sluice rewind` prints what it changes, and does it only after a confirmation."""

from __future__ import annotations

import json
from dataclasses import replace

from framework.checkpoints.rewinds import RewindRefusal, RewoundFlow, RewoundTable, StoredRewind
from framework.engine.delta.restored_rows import RestoredRows
from framework.recovery.rewind.plan import Abandonment, FlowRewind, RewindPlan, TableRewind
from framework.recovery.rewind.point_in_time import PointInTime
from framework.testing.manual_clock import START
from tests.support.fake_pipeline import FakePipeline, name
from tests.unit.cli.conftest import Sluice

TIME = "2026-01-01T00:05:00Z"
START_MS = int(START.timestamp() * 1000)
PLAN = RewindPlan(
    moment=PointInTime(request=TIME, text="2026-01-01 00:05:00.000Z", time_ms=START_MS + 300_000),
    chosen=(name("orders"),),
    tables=(
        TableRewind(
            table=RewoundTable(dataset=name("orders"), path="/orders", table_id="t", before=9, version=4),
            auxiliary=None,
            time_ms=START_MS + 250_000,
            rows=RestoredRows(before=1200, after=None),
        ),
    ),
    flows=(
        FlowRewind(
            flow=RewoundFlow(
                dataset=name("orders"), flow=name("load"), before=1, generation=2, origin=1, batch=3
            ),
            reads=("files: 2 of 5 again",),
        ),
        FlowRewind(
            flow=RewoundFlow(
                dataset=name("orders"), flow=name("history"), before=1, generation=2, origin=None, batch=None
            ),
            reads=("from the start",),
        ),
    ),
    computed=(name("by_day"),),
    replays=("r",),
    resets=(name("load"),),
)  # fmt: skip
PRINTED = """\
Rewind of shop to 2026-01-01 00:05:00.000Z

table   version  committed                 rows
──────  ───────  ────────────────────────  ──────────
orders  9 -> 4   2026-01-01 00:04:10.000Z  1,200 -> ?

flow                 continues                                       reads
───────────────────  ──────────────────────────────────────────────  ───────────────────
load into orders     after batch 3 of generation 1, as generation 2  files: 2 of 5 again
history into orders  anew, as generation 2                           from the start

The next update computes by_day anew.
Quarantined rows that were replayed since are open again.
The resets that wait are given up: load.
"""


def done(pipeline: FakePipeline) -> list[object]:
    """The reasons of the rewinds that were done."""
    return [value for what, value in pipeline.rewinds.calls if what == "rewind"]


def test_a_dry_run_prints_what_would_change(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Versions, rows, and where each flow reads on; nothing is done, not even the rest of an interrupted rewind."""
    pipeline.rewinds.found = PLAN
    result = sluice("rewind", "orders", "--to", TIME, "--dry-run")
    assert (result.exit_code, result.stdout) == (0, PRINTED)
    assert pipeline.rewinds.calls == [("plan", (TIME, ("orders",)))]


def test_a_script_must_confirm_a_rewind(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Without a terminal and --yes nothing is done; with it the reason is passed on, and the JSON says so."""
    pipeline.rewinds.found = PLAN
    result = sluice("rewind", "--to", TIME)
    assert (result.exit_code, result.stdout, done(pipeline)) == (2, "", [])
    assert PRINTED in result.stderr
    assert "[REWIND_NOT_CONFIRMED]" in result.stderr
    result = sluice("rewind", "--to", TIME, "--yes", "--reason", "bad release", "-o", "json")
    assert (result.exit_code, done(pipeline)) == (0, ["bad release"])
    found = json.loads(result.stdout)
    assert (found["done"], found["tables"][0]["version_after"], found["flows"][0]["batch"]) == (True, 4, 3)


def test_nothing_to_do_is_said(pipeline: FakePipeline, sluice: Sluice) -> None:
    """A rewind to a time after which nothing has happened asks nothing."""
    result = sluice("rewind", "--to", TIME)
    assert (result.exit_code, done(pipeline)) == (0, [])
    assert "Nothing to do: nothing has happened since." in result.stdout


def test_an_interrupted_rewind_is_finished_first(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The same call ends with it; another one goes on to its own time."""
    pipeline.rewinds.unfinished = StoredRewind(
        rewind_id="r", to=TIME, begun_at="2026-01-01T01:00:00.000Z", user=None, why="", tables=(), flows=()
    )
    result = sluice("rewind", "--to", TIME)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Finished the rewind to 2026-01-01T00:05:00Z" in result.stderr
    sluice("rewind", "--to", "2026-01-01T00:01:00Z")
    assert [what for what, _ in pipeline.rewinds.calls] == ["finish", "finish", "plan"]


def test_a_rewind_that_cannot_be_finished_is_given_up_after_a_confirmation(
    pipeline: FakePipeline, sluice: Sluice
) -> None:
    """What becomes of each table is printed first; without --yes or with --dry-run nothing is done."""
    tables = tuple(
        RewoundTable(dataset=name(each), path=f"/{each}", table_id="t", before=9, version=4) for each in ("a", "b")
    )
    rewind = StoredRewind(
        rewind_id="r", to=TIME, begun_at="2026-01-01T01:00:00.000Z", user=None, why="", tables=tables, flows=()
    )
    obstacle = RewindRefusal(dataset=name("b"), problem="there is no table at /b any more")
    untouched = Abandonment(rewind=rewind, obstacles=(obstacle,), rest=None)
    begun = replace(untouched, rest=replace(rewind, tables=tables[:1], refreshed=(name("b"), name("c"))))
    title = f"The rewind of shop to {TIME}, begun at 2026-01-01T01:00:00.000Z, is given up.\n\n"
    why = "b: there is no table at /b any more.\n"
    rest = (
        "Others were restored already. These go back, as it was decided: a.\n"
        "The next update fully refreshes these, from what their sources still have: b, c.\n"
    )
    texts = (
        (untouched, "No table was restored yet: all tables and checkpoints stay as they are.\n"),
        (begun, rest),
    )
    for found, text in texts:
        pipeline.rewinds.abandonment = found
        assert sluice("rewind", "--abandon", "--dry-run").stdout == f"{title}{why}{text}"
        refused = sluice("rewind", "--abandon")
        assert f"{title}{why}{text}" in refused.stderr
        assert "[REWIND_NOT_CONFIRMED]" in refused.stderr
    assert pipeline.rewinds.calls == []
    assert sluice("rewind", "--abandon", "--yes").stdout == f"{title}{why}{rest}\nDone.\n"
    found_json = json.loads(sluice("rewind", "--abandon", "--dry-run", "-o", "json").stdout)
    assert (found_json["done"], found_json["rewound"], found_json["full_refresh"]) == (
        False, ["main.shop.a"], ["main.shop.b", "main.shop.c"],
    )  # fmt: skip
    assert pipeline.rewinds.calls == [("abandon", begun)]


def test_there_may_be_no_rewind_to_give_up(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Then nothing is asked and nothing is done."""
    assert sluice("rewind", "--abandon").stdout == "No rewind is in progress.\n"
    assert pipeline.rewinds.calls == []


def test_a_rewind_is_either_done_or_given_up(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Options that contradict each other are an error of usage."""
    for arguments in ((), ("--to", TIME, "--abandon"), ("orders", "--abandon"), ("--abandon", "--reason", "x")):
        assert sluice("rewind", *arguments).exit_code == 2
    assert pipeline.rewinds.calls == []
