"""Copies of the tables of a PostgreSQL schema: their pipeline, their rows and the rows of the source."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Row

from framework import Pipeline
from framework.foundation.clock import SystemClock
from framework.ingest.gateway_status import IngestedState
from framework.ingest.generations import begin_generations
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.status import read_status
from framework.run.update import update
from framework.run.update.results import FlowState, UpdateResult
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., list[tuple[Any, ...]]]
_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name="shop",
    connection="bank",
    objects=[{"schema": {"source_schema": "public", "destination_schema": "copies", "exclude": ["next_*"]}}],
    options={"chunkBytes": "16k", "maxChunksPerTrigger": "1"},
)
"""


def pipeline_of(spark: SparkSession, folder: Path, module: str = _MODULE) -> Pipeline:
    """Return the pipeline, with the tables that the source has now."""
    (folder / "module.py").write_text(module, "utf-8")
    spec = {"name": "shop", "storage": str(folder / "storage"), "libraries": [{"file": {"path": "module.py"}}]}
    (folder / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
    return Pipeline.from_spec(folder / "pipeline.yml", spark=spark)


def create(run: Run, *tables: str, rows: int = 3) -> None:
    """Create tables whose rows have the name of the table."""
    for table in tables:
        run(f"CREATE TABLE {table} (id INT PRIMARY KEY, name TEXT)")
        run(f"INSERT INTO {table} SELECT i, '{table}' FROM generate_series(1, {rows}) i; ANALYZE {table}")


def copy_rows(pipeline: Pipeline, table: str, schema: str = "copies") -> list[Row]:
    """Return the rows of a copy in any order, read without Spark where that is possible."""
    return table_rows(pipeline.spark, pipeline.storage.path("tables", "main", schema, table), without="__sluice")


def copied(pipeline: Pipeline, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a copy."""
    return sorted(map(tuple, copy_rows(pipeline, table)))


def at_source(run: Run, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table at the source."""
    return run(f"SELECT * FROM {table} ORDER BY id")


def all_copied(pipeline: Pipeline, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of copies."""
    return {table: copied(pipeline, table) for table in tables}


def all_at_source(run: Run, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of tables at the source."""
    return {table: at_source(run, table) for table in tables}


def failures(result: UpdateResult) -> dict[str, str]:
    """Return the conditions of the failed flows."""
    failed = [flow for flow in result.flows if flow.state is FlowState.FAILED and flow.error is not None]
    return {flow.flow.table: flow.error.condition for flow in failed if flow.error is not None}


def of_both_flows(**conditions: str) -> dict[str, str]:
    """Return the conditions of the flows of tables."""
    return {f"{table}_{flow}_flow": each for table, each in conditions.items() for flow in ("snapshot", "cdc")}


def resync(pipeline: Pipeline, *tables: str, where: str | None = None) -> None:
    """Ask for another snapshot of tables, or of some of their rows, as `sluice ingest resync` does."""
    for table in tables:
        named = GatewayTables(gateways=pipeline.gateways).table(f"public.{table}")
        Operations(storage=pipeline.storage).resync(*named, where)


def gaps(pipeline: Pipeline) -> dict[str, str | None]:
    """Return the tables that `sluice ingest status` shows with a gap, with the way out."""
    (gateway,) = read_status(pipeline.storage, SystemClock().now())
    return {each.source: each.way_out for each in gateway.tables if each.state is IngestedState.GAP}


def applied(result: UpdateResult) -> set[str]:
    """Return the tables with changes that an update has applied, also to rows that a chunk had already with them."""
    flows = {each.flow.table for each in result.flows if each.rows_upserted > 0}
    return {flow.removesuffix("_cdc_flow") for flow in flows if flow.endswith("_cdc_flow")}


@contextmanager
def after_definitions(action: Callable[[], object]) -> Iterator[None]:
    """Act in an update when it has compared the definitions and begun generations, and no flow has begun."""

    def begin(*arguments: Any, **named: Any) -> Any:
        begun = begin_generations(*arguments, **named)
        action()
        return begun

    with pytest.MonkeyPatch.context() as during:
        during.setattr(update, "begin_generations", begin)
        yield
