"""Operations take and return values: a server or a notebook calls them as a command does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from framework.checkpoints.rewinds import StoredRewind
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.operations.ingestion import check_databases
from framework.operations.planning import PlanReport, ValidationReport, plan_update, validate
from framework.operations.pruning import PruneReport, prune
from framework.operations.querying import rows_of_query
from framework.operations.rewinding import PreparedRewind, prepare_rewind
from framework.operations.updating import FinishedUpdate, finish_update
from framework.run.tables.left_tables import LeftTable
from framework.views.rows import RowsView
from framework.views.summary import OutputPaths, UpdateSummary
from tests.support.fake_pipeline import COMPLETED, PLAN, FakePipeline, graph, name

LOADED = """
import sys
import framework.operations.stopping, framework.operations.deploying
print(sorted({"pyspark", "py4j", "delta", "click", "rich"} & set(sys.modules)))
"""
REWIND = StoredRewind(rewind_id="r", to="then", begun_at="now", user=None, why="", tables=(), flows=())
BROKEN = OperationError("STORAGE_NOT_READABLE", path="/data/orders", problem="it is gone")


@pytest.fixture
def pipeline(tmp_path: Path) -> FakePipeline:
    """A pipeline without Spark."""
    return FakePipeline(storage=LocalStorage(str(tmp_path)))


def test_a_plan_and_a_validation_come_with_what_they_warn_of_and_refuse(pipeline: FakePipeline) -> None:
    """The plan of the pipeline, and the errors that it foretells, as values."""
    assert plan_update(pipeline, refresh=["orders"]) == PlanReport(plan=PLAN, warnings=(), refusals=())
    pipeline.foretold = (BROKEN,)
    assert validate(pipeline) == ValidationReport(graph=graph(), refusals=(BROKEN,))
    assert [call for call in pipeline.calls if call[0] == "plan"] == [("plan", {"refresh": ["orders"]})]


def test_the_end_of_an_update_writes_its_page_and_names_its_output(pipeline: FakePipeline, tmp_path: Path) -> None:
    """The page of the graph is in the storage, and is written again only if it has changed."""
    page = tmp_path / "graph.html"
    paths = OutputPaths(graph=str(page), tables=str(tmp_path / "tables"), events=str(tmp_path / "events"))
    expected = FinishedUpdate(summary=UpdateSummary(pipeline="shop", result=COMPLETED, paths=paths))
    assert finish_update(pipeline, COMPLETED, keeps_history=True) == expected
    assert "by_day" in page.read_text("utf-8")
    written = page.stat().st_mtime_ns
    assert finish_update(pipeline, COMPLETED) == expected
    assert page.stat().st_mtime_ns == written


def test_a_prune_says_what_was_dropped_and_what_was_kept(pipeline: FakePipeline) -> None:
    """A table that is declared again is kept; a name that a catalog may still have is a warning."""
    entry = OperationError("CATALOG_SILENT", catalog="main", problem="it is down")
    gone = LeftTable(name=name("gone"), path="/gone", left_entry=entry)
    back = replace(gone, name=name("back"), left_entry=None)
    pipeline.changed = (back,)
    assert prune(pipeline, (gone, back)) == PruneReport(dropped=(gone,), kept=(back,), warnings=(entry,), positions=())


def test_an_interrupted_rewind_is_finished_before_another_one_and_is_not_done_twice(pipeline: FakePipeline) -> None:
    """A dry run finishes nothing; the rewind that was asked for again is done when it is finished."""
    rewinds = pipeline.rewinds
    rewinds.unfinished = REWIND
    assert prepare_rewind(rewinds, "earlier", ("orders",)) == PreparedRewind(finished=REWIND, plan=rewinds.found)
    assert prepare_rewind(rewinds, " then ", ()) == PreparedRewind(finished=REWIND, plan=None)
    assert prepare_rewind(rewinds, "then", (), dry_run=True) == PreparedRewind(finished=None, plan=rewinds.found)
    plans = [("plan", ("earlier", ("orders",))), ("plan", ("then", ()))]
    assert rewinds.calls == [("finish", None), plans[0], ("finish", None), plans[1]]


def test_a_query_returns_rows_and_a_pipeline_without_ingestion_says_so(pipeline: FakePipeline) -> None:
    """Rows are a view of `views`; an operation that has nothing to do is an error with a condition."""
    assert rows_of_query(pipeline, "SELECT 1") == RowsView.of(["id", "city"], [(1, "Łódź"), (2, None)])
    with pytest.raises(UserError) as caught:
        check_databases(pipeline)
    assert caught.value.condition == "INGESTION_NONE"


def test_what_a_server_calls_loads_no_spark_and_no_command_line() -> None:
    """In a new process, stopping updates and loading bundles import neither PySpark nor click."""
    done = subprocess.run([sys.executable, "-c", LOADED], check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
