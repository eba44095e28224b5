"""The query of a gateway's event log returns the newest event of each table and flow, for any run time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from framework.deploy.plan.deploy_plan import PlannedChange
from framework.deploy.plan.policy import ExitCode, Verdict
from framework.testing.workspace import SourceTable, StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, deployer_of, specs

WEEK = 7 * 24 * HOUR
INTERVAL = "pipelines.gateway.progressEventEmitFrequencySeconds"


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def quick_specs() -> dict[str, dict[str, Any]]:
    """The bundle, whose gateway writes an event per table and minute."""
    wanted = specs()
    wanted[GATEWAY]["configuration"] = {INTERVAL: "60"}
    return wanted


def changed(wanted: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The bundle with a change that would restart the gateway."""
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    return wanted


def planned(served: StandInWorkspace, wanted: dict[str, dict[str, Any]]) -> PlannedChange:
    """Return the gateway's planned change."""
    change = deployer_of(served, wanted).plan().change(GATEWAY)
    assert change is not None
    return change


def test_a_week_of_events_is_one_call_with_a_row_per_table_and_flow(served: StandInWorkspace) -> None:
    """20,000 events in the log, three rows a table in the answer."""
    tables = tuple(SourceTable(name=f"main.staging.t{number}", chunks=2) for number in range(2))
    served.source_tables(GATEWAY_NAME, *tables)
    deployer_of(served, quick_specs()).deploy()
    served.clock.sleep(WEEK)
    assert len(served.pipeline(GATEWAY_NAME).events) > 20_000
    served.forget_requests()
    served.sql.rows_sent = 0
    change = planned(served, changed(quick_specs()))
    assert (change.verdict, change.reason) == (Verdict.APPLY, "no snapshot is running")
    assert (len(served.calls("/sql/statements")), served.sql.rows_sent) == (1, 6)


def test_the_hours_that_a_restart_would_lose_count_from_the_first_event(served: StandInWorkspace) -> None:
    """Though only the newest event is read; two tables at different percents."""
    served.source_tables(
        GATEWAY_NAME,
        SourceTable(name="main.staging.orders", chunks=48),
        SourceTable(name="main.staging.quick", chunks=2),
    )
    deployer_of(served, quick_specs()).deploy()
    served.clock.sleep(12 * HOUR)
    change = planned(served, changed(quick_specs()))
    assert change.gateway is not None
    assert change.reason == (
        "a restart would lose 12.0 hours of snapshots: main.staging.orders 25% (36.0 h left, in chunks)"
    )
    assert [(each.table, each.phase.value) for each in change.gateway.tables] == [
        ("main.staging.orders", "snapshotting"),
        ("main.staging.quick", "changes"),
    ]


def test_a_table_that_only_an_earlier_update_names_is_unknown_unless_it_left_the_bundle(
    served: StandInWorkspace,
) -> None:
    """After a restart, a silent table may be about to start; a table that is no longer ingested holds nothing."""
    served.source_tables(
        GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=1), SourceTable(name="main.staging.gone", chunks=1)
    )
    wanted = quick_specs()
    objects = wanted["pipelines.ingestion"]["ingestion_definition"]["objects"]
    objects.append({"table": {"source_schema": "dbo", "source_table": "Gone"}})
    deployer_of(served, wanted).deploy()
    served.clock.sleep(2 * HOUR)
    assert len(served.pipeline(GATEWAY_NAME).events) > 0
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=1))
    assert deployer_of(served, changed(wanted)).deploy().exit_code is ExitCode.CLEAN
    served.clock.sleep(2 * HOUR)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 5
    change = planned(served, wanted)
    assert (change.verdict, change.reason) == (
        Verdict.UNKNOWN,
        (
            "the state of the gateway is unknown (no recent progress of main.staging.gone) "
            "and treated as a running snapshot"
        ),
    )
    objects[1]["table"]["source_table"] = "other"
    assert planned(served, wanted).verdict is Verdict.APPLY
    objects[1] = {"schema": {"source_schema": "dbo"}}
    assert planned(served, wanted).verdict is Verdict.UNKNOWN


def test_a_snapshot_that_ended_at_the_moment_of_its_last_progress_is_over(served: StandInWorkspace) -> None:
    """Of two events at the same time, the end wins, also for a gateway without operation_progress events."""
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=1, reports_progress=False))
    deployer_of(served, quick_specs()).deploy()
    served.clock.sleep(HOUR)
    log = served.pipeline(GATEWAY_NAME).events
    ends = [each for each in log if "COMPLETED" in each["message"]]
    running = {**ends[0], "message": "", "details": {"flow_progress": {"status": "RUNNING"}}}
    for events in ([*log, running], [running, *log]):
        log[:] = events
        assert planned(served, changed(quick_specs())).verdict is Verdict.APPLY


def test_an_operation_that_is_no_snapshot_hides_none(served: StandInWorkspace) -> None:
    """A newer operation_progress of another type does not replace the snapshot's."""
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=48))
    deployer_of(served, quick_specs()).deploy()
    served.clock.sleep(12 * HOUR)
    log = served.pipeline(GATEWAY_NAME).events
    newest = [each for each in log if each["event_type"] == "operation_progress"][-1]
    details = {"operation_progress": {"type": "OTHER", "status": "COMPLETED", "progress_percent": 100}}
    log.append({**newest, "timestamp": "2026-01-01T12:00:00.500Z", "details": details})
    assert planned(served, changed(quick_specs())).verdict is Verdict.HOLD
