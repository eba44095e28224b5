"""A small pipeline with its own storage and a Delta source that tests append to."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import Pipeline
from framework.engine.jvm.java import java_class
from framework.record.events import Event
from framework.record.reader import read_events
from framework.run.update.results import FlowState, UpdateResult
from tests.support.plain_tables import append_rows, table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_names = itertools.count()


class EngineWorld:
    """Runs functions that declare a pipeline, over and over, on one storage.

    Args:
        spark: the tests' session.
        root: an empty folder.
    """

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.name = f"pipeline_{next(_names)}"

    def source(self, called: str = "source") -> str:
        """The folder of a source table."""
        return str(self.root / "sources" / called)

    def feed(self, rows: Sequence[Sequence[Any]], ddl: str, called: str = "source") -> None:
        """Append rows to a source table in one commit."""
        append_rows(self.spark, self.source(called), rows, ddl)

    def copy(self, root: Path) -> EngineWorld:
        """The pipeline with its sources and its storage as they are now, in another folder."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        twin = EngineWorld(self.spark, root)
        twin.name = self.name
        return twin

    def pipeline(self, declare: Callable[[], object], **options: Any) -> Pipeline:
        """Return the pipeline of the declarations in `declare`, as in a new process."""
        options = {"development": True, **options}
        return Pipeline(
            name=self.name, modules=[declare], storage=self.root / "storage", schema="s", spark=self.spark, **options
        )

    def run(self, declare: Callable[[], object], **request: Any) -> UpdateResult:
        """One update; request as of `Pipeline.run`."""
        return self.pipeline(declare).run(**request)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table that the pipeline made, sorted; hidden columns left out."""
        return sorted(map(tuple, table_rows(self.spark, self.path(table), without="__sluice")), key=repr)

    def path(self, table: str) -> str:
        """The folder of a table that the pipeline made."""
        return str(self.root / "storage" / "tables" / "main" / "s" / table)

    def versions(self, table: str) -> int:
        """How many commits a table has."""
        return len(list(Path(self.path(table), "_delta_log").glob("*[0-9].json")))

    def events(self, **choice: Any) -> list[Event]:
        """The event log."""
        return read_events(self.pipeline(lambda: None).storage, **choice)


def states(result: UpdateResult) -> dict[str, FlowState]:
    """How each flow ended, by its short name."""
    return {flow.flow.table: flow.state for flow in result.flows}


def forget_tables() -> None:
    """Drop what Delta knows of tables, as in a new process."""
    java_class("org.apache.spark.sql.delta.DeltaLog").clearCache()
