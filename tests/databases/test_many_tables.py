"""An update costs what its moved tables cost, however many tables the ingestion has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.clientserver import ClientServerConnection
from py4j.protocol import MEMORY_COMMAND_NAME

from framework.foundation.files.local_storage import LocalStorage
from framework.graph.queries.known_analyses import KnownAnalyses
from framework.run.flows.flow_runner import FlowRunner
from framework.run.tables.analysis_store import AnalysisStore
from framework.run.tables.table_store import TableStore
from framework.run.update.results import FlowState, UpdateResult, UpdateState
from tests.databases.test_ingest_database import pipeline_of, rows_of, schema, shop, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework import Pipeline
    from framework.graph.graph import DataflowGraph

Run = Callable[..., list[tuple[Any, ...]]]


class Costs:
    """What a plan does, by kind: calls of the JVM, analyses, and listings of the log of the changes."""

    def __init__(self, swap: pytest.MonkeyPatch) -> None:
        self.calls = self.analyses = self.listings = 0
        send, keep, listed = ClientServerConnection.send_command, KnownAnalyses.keep, LocalStorage.list_names

        def counted_send(connection: ClientServerConnection, command: str) -> object:
            self.calls += not command.startswith(MEMORY_COMMAND_NAME)  # objects that Python has collected, at any time
            return send(connection, command)

        def counted_keep(known: KnownAnalyses, *arguments: Any) -> None:
            self.analyses += 1
            keep(known, *arguments)

        def counted_list(storage: LocalStorage, path: str) -> list[str]:
            self.listings += path.endswith("shop_changes/_delta_log")
            return listed(storage, path)

        swap.setattr(ClientServerConnection, "send_command", counted_send)
        swap.setattr(KnownAnalyses, "keep", counted_keep)
        swap.setattr(LocalStorage, "list_names", counted_list)

    def of_plan(self, pipeline: Pipeline) -> tuple[int, int, int]:
        """Return the costs of a plan; an update does the same before its flows start."""
        self.calls = self.analyses = self.listings = 0
        pipeline.plan()
        return self.calls, self.analyses, self.listings


def create(run: Run, first: int, last: int) -> None:
    """Create numbered tables with some rows."""
    for number in range(first, last):
        run(f"CREATE TABLE t{number} (id INT PRIMARY KEY, v TEXT, n{number} NUMERIC(8,2))")
        run(f"INSERT INTO t{number} SELECT i, 'old', i FROM generate_series(1, 3) i")


def move(run: Run, *numbers: int) -> None:
    """Change a row of some tables."""
    for number in numbers:
        run(f"UPDATE t{number} SET v = v || '+' WHERE id = 2")


def completed(result: UpdateResult) -> set[str]:
    """Return the flows that ran."""
    return {flow.flow.table for flow in result.flows if flow.state is FlowState.COMPLETED}


def equals_source(pipeline: Pipeline, run: Run, number: int) -> bool:
    """Whether a copy has the rows of its source."""
    return rows_of(pipeline, f"copies.t{number}", "*") == run(f"SELECT * FROM t{number} ORDER BY id")


def compare_costs(pipeline: Pipeline, run: Run, costs: Costs) -> None:
    """Two more tables that do not move: no more calls of the JVM, no analysis, no listing of the changes' log."""
    assert completed(pipeline.run()) == {"shop_changes"} | {f"t{number}_snapshot_flow" for number in range(2)}
    move(run, 0)
    assert completed(pipeline.run()) == {"shop_changes", "t0_cdc_flow"}
    few = costs.of_plan(pipeline)
    create(run, 2, 4)
    assert pipeline.run().state is UpdateState.COMPLETED
    move(run, 0)
    assert completed(pipeline.run()) == {"shop_changes", "t0_cdc_flow"}
    many = costs.of_plan(pipeline)
    assert few == many
    assert many[1] == 0


def fail_once(pipeline: Pipeline, run: Run, folder: Path, swap: pytest.MonkeyPatch) -> None:
    """A new column and a lost table are seen although their sources did not move; other tables move, one in vain."""
    original = FlowRunner.run

    def failing(runner: FlowRunner, step: Any, *arguments: Any) -> object:
        if step.flow.table == "t0_cdc_flow":
            msg = "a disk is full"
            raise ValueError(msg)
        return original(runner, step, *arguments)

    run("ALTER TABLE t1 ADD COLUMN extra INT")
    shutil.rmtree(folder / "storage" / "tables" / "main" / "copies" / "t2")
    move(run, 0, 3)
    with swap.context() as broken:
        broken.setattr(FlowRunner, "run", failing)
        assert completed(pipeline.run()) == {"shop_changes", "t2_snapshot_flow", "t2_cdc_flow", "t3_cdc_flow"}
    assert "extra" in pipeline.table("copies.t1").columns


def test_an_update_of_few_moved_tables_costs_the_same_among_many(
    spark: SparkSession, folder: Path, run: Run, swap: pytest.MonkeyPatch
) -> None:
    """What does not move costs no work of Spark, and a changed row, column, table, filter or fault is seen."""
    costs = Costs(swap)
    create(run, 0, 2)
    pipeline = pipeline_of(spark, folder, shop(schema()))
    compare_costs(pipeline, run, costs)

    # What was recalled is what an analysis finds.
    recalled = pipeline.graph
    for file in (folder / "storage" / "analyses").iterdir():
        file.unlink()
    analysed = pipeline_of(spark, folder, shop(schema())).graph
    assert costs.analyses == 5
    assert (analysed.datasets, analysed.flows) == (recalled.datasets, recalled.flows)

    fail_once(pipeline, run, folder, swap)

    filtered = [table(f"t{n}", table_configuration={"row_filter": "id <> 2"} if n == 3 else {}) for n in range(4)]
    pipeline = pipeline_of(spark, folder, shop(*filtered))
    move(run, 3)
    costs.analyses = 0
    # The flow that failed runs again, although nothing has moved since.
    result = pipeline.run(refresh=["shop_changes", "copies.t0"], full_refresh=["copies.t3"])
    assert completed(result) >= {"t0_cdc_flow", "t3_snapshot_flow"}
    assert [number for number in range(3) if not equals_source(pipeline, run, number)] == []
    assert rows_of(pipeline, "copies.t3", "id") == [(1,), (3,)]
    assert costs.analyses > 0


SHAPES: dict[str, dict[str, object]] = {
    "plain": {},
    "history": {"scd_type": "SCD_TYPE_2"},
    "filtered": {"row_filter": "id > 1 AND `A b` IS NOT NULL"},
    "selected": {"include_columns": ["at"], "text_columns": ["at"]},
    "others": {"exclude_columns": ["operation", "generation"], "scd_type": "SCD_TYPE_2", "row_filter": "id <> 3"},
}


def test_what_is_recalled_is_what_an_analysis_finds(spark: SparkSession, folder: Path, run: Run) -> None:
    """Before and after the tables exist, for each way to copy a table; and a table with a fault is never kept."""
    columns = '"A b" TEXT, operation TEXT, generation INT, n NUMERIC(8,2), at TIMESTAMPTZ, tags INT[]'
    for name in SHAPES:
        run(f"CREATE TABLE {name} (id INT, part TEXT, {columns}, PRIMARY KEY (id, part))")
    run("CREATE TABLE keyless (id INT)")
    call = shop(*(table(name, table_configuration=each) for name, each in SHAPES.items()), table("keyless"))

    pipeline = pipeline_of(spark, folder, call)
    graph = pipeline.graph
    store = TableStore(pipeline="shop", spark=spark, storage=pipeline.storage)
    kept = AnalysisStore(pipeline.storage, "shop")
    for create_tables in (False, True):
        kept.write(graph.analyses)
        if create_tables:
            for dataset in graph.datasets:
                if dataset.fault is None:
                    store.write_record(dataset)
        recalled = pipeline_of(spark, folder, call).graph
        assert recalled.analyses == kept.read()
        kept.write({})
        analysed = pipeline_of(spark, folder, call).graph
        assert [each.name.table for each in analysed.datasets if each.name not in analysed.analyses] == ["keyless"]
        assert without_faults(recalled) == without_faults(analysed)
        assert without_faults(graph) == without_faults(analysed)


def without_faults(graph: DataflowGraph) -> tuple[object, ...]:
    """Return datasets and flows; an error equals only itself."""
    return tuple(each for each in graph.datasets if each.fault is None), graph.flows
