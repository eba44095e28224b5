"""Rewinds of copies: what a new snapshot has done is never undone in silence."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.foundation.errors import RequestErrors, SluiceError, UserError
from framework.ingest.operations import Operations
from framework.run.update.results import UpdateState
from tests.support.copied_tables import at_source, copied, create, failures, of_both_flows, pipeline_of, resync
from tests.support.interruption import interrupt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework import Pipeline

Run = Callable[..., list[tuple[Any, ...]]]
# The log does not have the delete, so that only a new snapshot finds it.
_LOST = (
    "ALTER PUBLICATION sluice_shop DROP TABLE lost",
    "DELETE FROM lost WHERE id = 1",
    "ALTER PUBLICATION sluice_shop ADD TABLE lost",
)
_DELETES = re.compile(r'"appId":"sluice:shop:[^"]*:\d+:[0-9a-f-]{36}"')


def refusals(pipeline: Pipeline, to: str, table: str) -> set[tuple[str, str]]:
    """The conditions with which a rewind of a copy is refused, each with its flow."""
    with pytest.raises((UserError, RequestErrors)) as caught:
        pipeline.rewinds.plan(to, [f"copies.{table}"])
    errors: list[SluiceError] = (
        list(caught.value.errors) if isinstance(caught.value, RequestErrors) else [caught.value]
    )  # fmt: skip
    return {(error.condition, str(error.fields["flow"]).rpartition(".")[2]) for error in errors}


def moment_before_deletes(folder: Path) -> str:
    """A moment between the last commit of a snapshot's rows and that of its deletes."""
    log = sorted((folder / "storage" / "tables").rglob("copies/lost/_delta_log/*.json"))
    (deletes,) = [path for path in log if _DELETES.search(path.read_text("utf-8"))]
    before = deletes.with_name(f"{int(deletes.stem) - 1:020d}.json")
    return datetime.fromtimestamp((before.stat().st_mtime + deletes.stat().st_mtime) / 2, UTC).isoformat()


def give_up_in_a_copy(spark: SparkSession, folder: Path, run: Run) -> None:
    """Give an interrupted rewind up in a copy of the storage, whose updates take nothing from the slot."""
    before = run("SELECT slot_name, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots")
    twin = folder / "twin"
    shutil.copytree(folder / "storage", twin / "storage")
    shutil.copy(folder / "connections.yml", twin)
    pipeline = pipeline_of(spark, twin)
    plan = pipeline.rewinds.plan_abandonment()
    assert plan is not None
    pipeline.rewinds.abandon(plan)
    Operations(storage=pipeline.storage).replace_position(*pipeline.gateways)
    other = "INGESTION_OF_OTHER_STORAGE"
    assert failures(pipeline.run()) == {"shop_changes": other, **of_both_flows(altered=other, lost=other)}
    assert run("SELECT slot_name, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots") == before
    shutil.rmtree(twin / "storage")  # a second storage of the pipeline, of which nothing is recorded
    second = pipeline_of(spark, twin)
    found = failures(second.run())
    assert {*found} >= {"shop_changes", "altered_snapshot_flow", "lost_snapshot_flow"}
    assert {*found.values()} == {"DATABASE_SLOT_OF_OTHER_STORAGE"}
    Operations(storage=second.storage).replace_position(*second.gateways)
    assert {*failures(second.run()).values()} == {"DATABASE_SLOT_OF_OTHER_STORAGE"}
    assert run("SELECT slot_name, restart_lsn, confirmed_flush_lsn FROM pg_replication_slots") == before


def test_a_copy_does_not_go_back_past_a_snapshot(interpreting: SparkSession, folder: Path, run: Run) -> None:
    """Neither to before a rebuild, nor to before the deletes of a snapshot; to a time after them it does.

    The snapshot is complete, so that nothing would delete the rows again. A copy of the storage in the middle of a
    rewind does not read the slot.
    """
    create(run, "altered", "lost")
    pipeline = pipeline_of(interpreting, folder)
    first = pipeline.run()
    assert first.state is UpdateState.COMPLETED
    run("ALTER TABLE altered DROP COLUMN name; ALTER TABLE altered ADD COLUMN size INT DEFAULT 5")
    for statement in _LOST:
        run(statement)
    pipeline = pipeline_of(interpreting, folder)
    assert "shop_changes" in {each.spec.name.table for each in pipeline.graph.flows}  # both are held
    resync(pipeline, "altered", "lost")
    second = pipeline.run()
    assert second.state is UpdateState.COMPLETED
    for table in ("altered", "lost"):
        assert refusals(pipeline, first.update_id, table) == {("REWIND_PAST_SNAPSHOT", f"{table}_snapshot_flow")}
        assert copied(pipeline, table) == at_source(run, table)
    before = moment_before_deletes(folder)
    assert refusals(pipeline, before, "lost") == {("REWIND_PAST_SNAPSHOT", "lost_snapshot_flow")}
    run("UPDATE altered SET size = 6 WHERE id = 2; UPDATE lost SET name = 'x' WHERE id = 2")
    assert pipeline.run().state is UpdateState.COMPLETED
    rewinds = pipeline.rewinds
    plan = rewinds.plan(second.update_id, ["copies.altered", "copies.lost"])
    interrupt(lambda: rewinds.rewind(plan), "rewinds.after_table")
    give_up_in_a_copy(interpreting, folder, run)
    assert rewinds.finish() is not None
    for table in ("altered", "lost"):
        assert copied(pipeline, table) != at_source(run, table)
    assert pipeline.run().state is UpdateState.COMPLETED
    for table in ("altered", "lost"):
        assert copied(pipeline, table) == at_source(run, table)
