"""What the commands need of a pipeline, so that they can be tested without one."""

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
    """A DataFrame, as far as the commands look into one."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, which may repeat."""
        ...

    def limit(self, num: int) -> Rows:
        """At most that many of the rows."""
        ...

    def collect(self) -> Sequence[Any]:
        """The rows, each a sequence of values."""
        ...


class PipelineFace(Protocol):
    """The part of `framework.pipeline.Pipeline` that the command line calls."""

    @property
    def name(self) -> str:
        """The pipeline's name."""
        ...

    @property
    def storage(self) -> Storage:
        """Where it keeps everything."""
        ...

    @property
    def graph(self) -> DataflowGraph:
        """The analysed graph."""
        ...

    def validate(self) -> DataflowGraph:
        """The graph, when every rule is kept."""
        ...

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """What `run` would do."""
        ...

    def run(self, *, observers: Sequence[Observer] = (), **request: Unpack[RequestOptions]) -> UpdateResult:
        """An update."""
        ...

    def stop(self) -> None:
        """Ask a running update to stop."""
        ...

    def left_tables(self) -> tuple[LeftTable, ...]:
        """The tables that the code no longer declares."""
        ...

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Drop them."""
        ...

    def preview(self, name: str, limit: int = 10) -> Rows:
        """Some rows of a table."""
        ...

    def sql(self, query: str) -> Rows:
        """The rows of a query."""
        ...

    def close(self) -> None:
        """Let go of the Spark session."""
        ...


class PipelineOpener(Protocol):
    """How a command comes to its pipeline."""

    def __call__(
        self, spec: Path, *, master: str | None, parameters: Mapping[str, str], short: bool, verbose: bool
    ) -> PipelineFace:
        """The pipeline of a spec file; `short` for a command that soon ends."""
        ...


def open_pipeline(
    spec: Path, *, master: str | None, parameters: Mapping[str, str], short: bool, verbose: bool
) -> PipelineFace:
    """The pipeline of a spec file, for real."""
    # PySpark is imported here: a command line that is wrong, or asks for help, needs none.
    from framework.pipeline import Pipeline

    if not verbose:
        from framework.session.query_log import silence_query_log

        silence_query_log()
    return Pipeline.from_spec(spec, master=master, parameters=parameters, short=short, verbose=verbose)
