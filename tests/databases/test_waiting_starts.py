"""Starts of snapshots say whom they wait for, and copies of parents which rows they lack."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import psycopg2

from framework.cli.progress import PlainProgress
from framework.foundation.clock import SystemClock
from framework.ingest.gateway_status import GatewayStatus
from framework.ingest.status import read_status
from framework.record.events import Event
from framework.run.update.results import UpdateState
from framework.views.flow_board import FlowBoardTracker
from framework.views.ingestion import status_head, status_lines
from tests.support.copied_tables import copied, pipeline_of, resync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework import Pipeline
    from framework.foundation.files.storage_port import Storage

Run = Callable[..., list[tuple[Any, ...]]]
_LONGEST_SECONDS = 40
"""The transaction of an update that does not say that it waits ends, too, so that the test fails soon."""
_LACKING = "Tables inherit from public.cities: public.capitals. Their rows are not read with it"


class Writer:
    """A transaction of another program that ends when an update says that it waits for it."""

    def __init__(self, database: str, storage: Storage) -> None:
        self._connection = psycopg2.connect(database, application_name="payroll")
        self._connection.cursor().execute("INSERT INTO cities VALUES (9, 'late')")
        self._tracker = FlowBoardTracker()
        self.pid = self._connection.info.backend_pid
        self.reasons: set[str] = set()
        self.waiting: list[Event] = []
        self.status: list[str] = []
        self._storage = storage
        self._last_moment = Timer(_LONGEST_SECONDS, self._connection.commit)
        self._last_moment.start()

    def __call__(self, event: Event) -> None:
        """End the transaction at the first event that names it; an observer of an update."""
        self._tracker(event)
        if event.details.get("operation_progress", {}).get("status") == "WAITING":
            self.waiting.append(event)
            self.reasons |= {flow.reason for flow in self._tracker.board.flows if flow.reason}
            self.status += status_of(self._storage)[0].waits
            self._connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self._last_moment.cancel()
        self._connection.close()


def status_of(storage: Storage) -> tuple[GatewayStatus, ...]:
    """The status of the gateways now."""
    return read_status(storage, SystemClock().now())


def run_beside(pipeline: Pipeline, database: str) -> tuple[str, dict[str, str]]:
    """Run an update beside an open transaction; return its progress lines, and the reasons of flows that ran."""
    lines = io.StringIO()
    with closing(Writer(database, pipeline.storage)) as writer:
        progress = PlainProgress(lines, title="shop", clock=SystemClock())
        result = pipeline.run(observers=[writer, progress])
        assert {str(flow.flow): flow.error.render() for flow in result.flows if flow.error} == {}
        assert result.state is UpdateState.COMPLETED
    (text,) = {event.message for event in writer.waiting}
    assert text.startswith(
        f"Waits until older transactions have ended: the transaction of server process {writer.pid} (payroll, since 20"
    )
    assert text.endswith(f" UTC); to end it: SELECT pg_terminate_backend({writer.pid})")
    assert text in writer.reasons
    assert text in writer.status
    assert status_of(pipeline.storage)[0].waits == ()
    assert lines.getvalue().count(text) == 1
    return lines.getvalue(), {flow.flow.table: flow.reason for flow in result.flows if flow.state.value == "COMPLETED"}


def test_a_start_says_whom_it_waits_for_and_a_copy_whose_rows_it_lacks(
    interpreting: SparkSession, folder: Path, run: Run, database: str
) -> None:
    """The first snapshot waits in its flow, another one before any flow runs; their rows are those of the parent."""
    run("CREATE TABLE cities (id INT PRIMARY KEY, name TEXT); CREATE TABLE capitals (country TEXT) INHERITS (cities)")
    run("ALTER TABLE capitals ADD PRIMARY KEY (id)")
    run("INSERT INTO cities VALUES (1, 'a'), (2, 'b'); INSERT INTO capitals VALUES (3, 'c', 'C')")
    pipeline = pipeline_of(interpreting, folder)
    (warning,) = pipeline.validate().warnings
    assert (warning.condition, warning.location and warning.location.line) == ("DATABASE_CHILD_TABLES", 4)
    lines, reasons = run_beside(pipeline, database)
    assert f"main.copies.cities: [DATABASE_CHILD_TABLES] {_LACKING}. Ingest them as tables of their own." in lines
    assert f"cities_snapshot_flow into copies.cities: COMPLETED ({_LACKING})" in lines
    assert (reasons["cities_snapshot_flow"], reasons["capitals_snapshot_flow"]) == (_LACKING, "")
    own = "SELECT * FROM ONLY cities ORDER BY id"
    assert copied(pipeline, "cities") == run(own) == [(1, "a"), (2, "b"), (9, "late")]
    assert copied(pipeline, "capitals") == [(3, "c", "C")]
    (status,) = status_of(pipeline.storage)
    assert [(each.source, each.children) for each in status.tables] == [
        ("public.capitals", ()), ("public.cities", ("public.capitals",))
    ]  # fmt: skip
    assert "public.cities FOLLOWING 100 % without the rows of public.capitals, which inherit from it" in status_lines(
        status
    )

    run("DELETE FROM ONLY cities WHERE id = 9")
    resync(pipeline, "cities")
    pipeline = pipeline_of(interpreting, folder)
    run_beside(pipeline, database)
    assert pipeline.run().state is UpdateState.COMPLETED
    assert copied(pipeline, "cities") == run(own) == [(1, "a"), (2, "b"), (9, "late")]

    with closing(psycopg2.connect(database, application_name="vacuum")) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLE ONLY cities; SELECT pg_sleep(1.1)")
        (status,) = status_of(pipeline.storage)
        pid = other.info.backend_pid
        (wait,) = status.waits
        held = f"public.cities is locked by the transaction of server process {pid} (vacuum, since 20"
        assert wait.startswith(f"Waits until tables are unlocked: {held}")
        assert wait.endswith(f" UTC); to end it: SELECT pg_terminate_backend({pid})")
        assert status_head(status).splitlines()[1:] == [f"  {wait}"]
