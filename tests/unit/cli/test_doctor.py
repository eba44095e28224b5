"""`sluice doctor` prints findings, and repairs a flow only after a confirmation."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from framework.foundation.errors import OperationError
from framework.recovery.doctor.actions import ResetCheckpoint
from framework.recovery.doctor.amounts import Amount, Cost
from framework.recovery.doctor.diagnoses import diagnosis_of, sqlstate_of
from framework.recovery.doctor.diagnosis import Way
from framework.recovery.doctor.finding import Finding, Position
from framework.recovery.doctor.way_out import WayOut
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.update.results import UpdateResult, UpdateState
from framework.sources.port import Lag
from tests.support.fake_pipeline import IDLE, FakePipeline, failed, name
from tests.unit.cli.conftest import Sluice

CONDITION = "DELTA_SOURCE_IGNORE_DELETE"
BROKEN = Finding(
    flow=name("load"),
    dataset=name("orders"),
    diagnosis=diagnosis_of(CONDITION),
    condition=CONDITION,
    sqlstate=sqlstate_of(CONDITION),
    cause="Rows were deleted.",
    location="shop.py:4",
    since="2026-01-31T09:30:00.123Z",
    updates=3,
    evidence=("position: startingVersion=2",),
    position=Position(generation=1, starts=("startingVersion=2",)),
    ways=(
        WayOut(way=Way.RESTORE, text="Read the feed."),
        WayOut(
            way=Way.RESET_AFTER_CHANGE,
            text="Go on after the commit.",
            action=ResetCheckpoint(flow=name("load"), starts=("startingVersion=3",)),
            cost=Cost(lost=Amount(rows=2)),
        ),
    ),
)
PRINTED = """\
main.shop.load  DELTA_SOURCE_CHANGED
  seen      [DELTA_SOURCE_IGNORE_DELETE] (SQLSTATE 0A000) Rows were deleted.
            at shop.py:4
            since 2026-01-31 09:30:00, in 3 updates
  means     Rows of the Delta source were updated or deleted. A stream of a table has inserted rows only, so it \
can't represent the commit.
  evidence  position: startingVersion=2
  1.        Read the feed.
            by hand
  2.        Go on after the commit.
            sluice run --reset-checkpoint main.shop.load --from startingVersion=3
            lost: 2 rows; repeated: none; read again: none
"""
DRY_RUN = """\
main.shop.load: Go on after the commit.
  sluice run --reset-checkpoint main.shop.load --from startingVersion=3
  generation 1 at startingVersion=2 -> generation 1 at startingVersion=2
  lost: 2 rows; repeated: none; read again: none
"""


def treated(pipeline: FakePipeline) -> list[object]:
    """The arguments of the calls that repair."""
    return [value for what, value in pipeline.calls if what == "treat"]


def test_a_healthy_pipeline_is_one_line(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Without findings the exit code is 0, also for a way out that is no longer needed."""
    for arguments in ((), ("load", "--apply", "1", "--yes")):
        result = sluice("doctor", *arguments)
        assert (result.exit_code, result.stdout) == (0, "shop: 2 flows examined, nothing found.\n")
    assert treated(pipeline) == []


def test_rows_that_wait_in_the_quarantine_are_mentioned(pipeline: FakePipeline, sluice: Sluice) -> None:
    """One line for each flow below the output of doctor and lag; they are no finding, so the exit code is 0."""
    waiting = WaitingRows(flow="main.shop.load", rows=2, since=datetime(2026, 1, 31, 9, 30))  # noqa: DTZ001 - local
    line = "2 rows of main.shop.load in quarantine since 2026-01-31 09:30:00: sluice quarantine show main.shop.load\n"
    as_json = {"flow": "main.shop.load", "rows": 2, "since": "2026-01-31T09:30:00"}
    pipeline.quarantined = (waiting,)
    lag = FlowLag(flow=name("load"), dataset=name("orders"), health=FlowHealth.IDLE, lag=Lag(records=0))
    pipeline.flow_lag = (replace(lag, quarantined=waiting), lag)
    result = sluice("doctor")
    assert (result.exit_code, result.stdout) == (0, f"shop: 2 flows examined, nothing found.\n{line}")
    assert json.loads(sluice("doctor", "-o", "json").stdout)["quarantined"] == [as_json]
    result = sluice("lag")
    assert (result.exit_code, result.stdout.endswith(f"\n{line}"), result.stdout.count("quarantine show")) == (
        0,
        True,
        1,
    )
    assert [each["quarantined"] for each in json.loads(sluice("lag", "-o", "json").stdout)] == [as_json, None]


def test_a_finding_is_printed_with_its_ways_out(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The text has what is seen, what it means, the evidence and each way with its cost; the exit code is 1."""
    pipeline.findings = (BROKEN,)
    result = sluice("doctor", "load")
    assert (result.exit_code, result.stdout) == (1, PRINTED)
    assert ("examine", ("load",)) in pipeline.calls


def test_the_json_has_numbers(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Programs read numbers, and null where one is unknown."""
    pipeline.findings = (BROKEN,)
    result = sluice("doctor", "-o", "json")
    found = json.loads(result.stdout)["findings"][0]
    assert (result.exit_code, found["flow"], found["sqlstate"]) == (1, "main.shop.load", "0A000")
    assert found["ways"][1]["cost"]["lost"] == {"rows": 2, "note": "", "at_most": False, "is_gone": False}
    assert found["ways"][0]["command"] is None


def test_a_way_out_that_is_another_one_now_is_refused(pipeline: FakePipeline, sluice: Sluice) -> None:
    """`--expect` names the command that was shown; the number may mean another one meanwhile."""
    pipeline.findings = (BROKEN,)
    shown = sluice("doctor", "load", "--apply", "2", "--dry-run", "-o", "json")
    command = json.loads(shown.stdout)["command"]
    same = sluice("doctor", "load", "--apply", "2", "--dry-run", "--expect", command)
    assert 0 == same.exit_code
    for number, expected in (("2", "sluice reset"), ("1", command), ("9", command)):
        result = sluice("doctor", "load", "--apply", number, "--yes", "--expect", expected)
        assert "[DOCTOR_FINDING_CHANGED]" in result.stderr
    assert treated(pipeline) == []


def test_a_dry_run_does_nothing(pipeline: FakePipeline, sluice: Sluice) -> None:
    """It prints the change of the position and the cost."""
    pipeline.findings = (BROKEN,)
    result = sluice("doctor", "load", "--apply", "2", "--dry-run")
    assert (result.exit_code, result.stdout, treated(pipeline)) == (0, DRY_RUN, [])


def test_a_script_must_confirm(pipeline: FakePipeline, sluice: Sluice) -> None:
    """Without a terminal and --yes nothing is done; with it the way out runs, and the reason is passed on."""
    pipeline.findings = (BROKEN,)
    result = sluice("doctor", "load", "--apply", "2")
    assert (result.exit_code, treated(pipeline)) == (2, [])
    assert DRY_RUN in result.stderr
    assert "[DOCTOR_NOT_CONFIRMED]" in result.stderr
    result = sluice("doctor", "load", "--apply", "2", "--yes", "--reason", "TICKET-7")
    assert (result.exit_code, treated(pipeline)) == (0, [(name("load"), 2, "TICKET-7")])
    assert result.stdout == (
        "main.shop.load: generation 1 at startingVersion=2 -> generation 2\nupdate u-1: COMPLETED\n"
    )


def test_an_update_that_fails_again_is_a_failure(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The exit code is 1, and the error is printed."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="full")
    pipeline.findings = (BROKEN,)
    pipeline.result = UpdateResult(
        update_id="u-2", state=UpdateState.FAILED, flows=(IDLE, failed(error)), duration_seconds=1.0
    )
    result = sluice("doctor", "load", "--apply", "2", "--yes")
    assert result.exit_code == 1
    assert "[STORAGE_NOT_WRITABLE]" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--apply", "2"), "--apply needs the name of one flow"),
        (("load", "--yes"), "belong to --apply"),
        (("load", "--apply", "1"), "[DOCTOR_WAY_FOR_PERSON]"),
        (("load", "--apply", "3"), "[DOCTOR_WAY_UNKNOWN]"),
    ],
)
def test_wrong_use_is_refused(pipeline: FakePipeline, sluice: Sluice, arguments: tuple[str, ...], text: str) -> None:
    """The exit code is 2, and nothing is done."""
    pipeline.findings = (BROKEN,)
    result = sluice("doctor", *arguments)
    assert (result.exit_code, treated(pipeline)) == (2, [])
    assert text in result.stderr


def test_a_failed_update_names_the_doctor(pipeline: FakePipeline, sluice: Sluice) -> None:
    """The last line of a failed `sluice run` is the next step."""
    error = OperationError("STORAGE_NOT_WRITABLE", path="/data", problem="full")
    pipeline.result = UpdateResult(
        update_id="u-3", state=UpdateState.FAILED, flows=(failed(error),), duration_seconds=1.0
    )
    assert sluice("run").stderr.rstrip().splitlines()[-1] == (
        "Next: `sluice doctor` explains what failed, and what each way out costs."
    )
