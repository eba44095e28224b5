"""Interface of a pipeline for the commands, so that they can be tested without a real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from framework.foundation.storage_port import Storage
from framework.plan.request import RequestOptions
from framework.record.events import Event

if TYPE_CHECKING:
    from framework.graph.graph import DataflowGraph
    from framework.plan.steps import Plan
    from framework.run.tables.left_tables import LeftTable
    from framework.run.update.results import UpdateResult

Observer = Callable[[Event], None]


class Rows(Protocol):
    """The part of a DataFrame that the commands use."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns, which may repeat."""
        ...

    def limit(self, num: int) -> Rows:
        """Return at most `num` rows."""
        ...

    def collect(self) -> Sequence[Any]:
        """Return the rows, each a sequence of values."""
        ...


class PipelinePort(Protocol):
    """The part of `framework.pipeline.Pipeline` that the command line calls."""

    @property
    def name(self) -> str:
        """The pipeline's name."""
        ...

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        ...

    @property
    def graph(self) -> DataflowGraph:
        """The analysed graph."""
        ...

    def validate(self) -> DataflowGraph:
        """Check all rules and return the graph."""
        ...

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """Plan the update that `run` would do."""
        ...

    def run(self, *, observers: Sequence[Observer] = (), **request: Unpack[RequestOptions]) -> UpdateResult:
        """Run an update."""
        ...

    def stop(self) -> None:
        """Request the stop of a running update."""
        ...

    def left_tables(self) -> tuple[LeftTable, ...]:
        """Return the tables that the code no longer declares."""
        ...

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Drop tables that the code no longer declares."""
        ...

    def preview(self, name: str, limit: int = 10) -> Rows:
        """Return some rows of a table."""
        ...

    def sql(self, query: str) -> Rows:
        """Return the rows of a query."""
        ...

    def close(self) -> None:
        """Release the Spark session."""
        ...


class PipelineOpener(Protocol):
    """Function that opens a command's pipeline."""

    def __call__(
        self,
        spec: Path,
        *,
        master: str | None,
        parameters: Mapping[str, str],
        short: bool | None,
        verbose: bool,
        cold: bool,
    ) -> PipelinePort:
        """Open the pipeline of a spec file; `short` is True for a short-running command, `cold` to start Spark."""
        ...


def open_pipeline(
    spec: Path, *, master: str | None, parameters: Mapping[str, str], short: bool | None, verbose: bool, cold: bool
) -> PipelinePort:
    """Open the real pipeline of a spec file."""
    # PySpark is imported here, because an invalid command line and `--help` don't need it.
    from framework.pipeline import Pipeline

    if not verbose:
        from framework.session.query_log import silence_query_log

        silence_query_log()
    return Pipeline.from_spec(spec, master=master, parameters=parameters, short=short, verbose=verbose, cold=cold)
