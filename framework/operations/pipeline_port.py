"""The interface of a pipeline for operations and commands, so that tests can replace the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.plan.request import RequestOptions
from framework.record.events import Event
from framework.recovery.request import ComparisonOptions

if TYPE_CHECKING:
    from framework.checkpoints.rewinds import StoredRewind
    from framework.declare.pipeline_spec import PipelineSpec
    from framework.declare.specs import IngestedGateway, IngestionSpec
    from framework.graph.graph import DataflowGraph
    from framework.plan.steps import Plan
    from framework.recovery.comparison import Comparison
    from framework.recovery.doctor.finding import Examination, Finding, Repair
    from framework.recovery.flow_lag import FlowLag
    from framework.recovery.quarantine.results import QuarantinedRows, Replay
    from framework.recovery.rewind.plan import Abandonment, RewindPlan
    from framework.run.tables.left_tables import LeftTable
    from framework.run.update.control.identity import UpdateIdentity
    from framework.run.update.results import UpdateResult

Observer = Callable[[Event], None]


class Rows(Protocol):
    """The part of a DataFrame that operations and commands use."""

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


class FirstRows(Rows, Protocol):
    """The first rows of a table."""

    @property
    def declared_keys(self) -> tuple[str, ...]:
        """The declared PRIMARY KEY and FOREIGN KEY constraints."""
        ...


class QuarantinePort(Protocol):
    """The part of a quarantine that operations and commands call."""

    def list(self) -> tuple[QuarantinedRows, ...]:
        """Return the numbers of rows."""
        ...

    def rows(self, flow: str | None = None, *, reason: str | None = None) -> Rows:
        """Return the rows."""
        ...

    def replay(self, flow: str, *, reason: str | None = None, dry_run: bool = False) -> Replay:
        """Check rows again, and write those that pass."""
        ...

    def drop(self, flow: str, *, reason: str | None = None, replayed: bool = False) -> int:
        """Delete rows."""
        ...


class DoctorPort(Protocol):
    """The part of `framework.recovery.doctor.doctor.Doctor` that operations and commands call."""

    def examine(self, flows: Sequence[str] = ()) -> Examination:
        """Return the faults of flows, and their ways out."""
        ...

    def treat(self, finding: Finding, number: int, *, reason: str = "", observers: Sequence[Observer] = ()) -> Repair:
        """Apply a way out of a finding."""
        ...


class RewindPort(Protocol):
    """The part of `framework.recovery.rewind.rewinder.Rewinder` that operations and commands call."""

    def plan(self, to: str, datasets: Sequence[str] = ()) -> RewindPlan:
        """Return the plan of a rewind."""
        ...

    def rewind(self, plan: RewindPlan, reason: str = "") -> StoredRewind:
        """Execute a rewind."""
        ...

    def finish(self) -> StoredRewind | None:
        """Finish an interrupted rewind."""
        ...

    def plan_abandonment(self) -> Abandonment | None:
        """Return the effect of giving up an interrupted rewind."""
        ...

    def abandon(self, abandonment: Abandonment) -> None:
        """Give up an interrupted rewind."""
        ...


class PipelinePort(Protocol):
    """The part of `framework.pipeline.Pipeline` that operations and commands call."""

    @property
    def name(self) -> str:
        """The pipeline's name."""
        ...

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        ...

    @property
    def spec(self) -> PipelineSpec:
        """The configuration of the pipeline."""
        ...

    @property
    def ingestions(self) -> tuple[IngestionSpec, ...]:
        """The declared ingestions."""
        ...

    @property
    def gateways(self) -> tuple[IngestedGateway, ...]:
        """The ingestions with their tables."""
        ...

    @property
    def graph(self) -> DataflowGraph:
        """The analysed graph."""
        ...

    def validate(self) -> DataflowGraph:
        """Check all rules and return the graph."""
        ...

    def foretell(self) -> tuple[OperationError, ...]:
        """Return the errors of flows that can't continue from their checkpoints."""
        ...

    def starts_of(self, flow: QualifiedName, starts: Sequence[str]) -> str | None:
        """Return the starts of a flow's sources, as the manifest of its checkpoint stores them."""
        ...

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """Return the plan of the update that `run` would run."""
        ...

    def run(
        self,
        *,
        observers: Sequence[Observer] = (),
        identity: UpdateIdentity | None = None,
        **request: Unpack[RequestOptions],
    ) -> UpdateResult:
        """Run an update."""
        ...

    def stop(self) -> None:
        """Request a running update to stop."""
        ...

    def left_tables(self) -> tuple[LeftTable, ...]:
        """Return the tables that the code no longer declares."""
        ...

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Drop tables that the code no longer declares."""
        ...

    def preview(self, name: str, limit: int = 10) -> FirstRows:
        """Return some rows of a table."""
        ...

    def sql(self, query: str) -> Rows:
        """Return the rows of a query."""
        ...

    def reconcile(self, first: str, second: str, **options: Unpack[ComparisonOptions]) -> Comparison:
        """Compare two tables."""
        ...

    @property
    def quarantine(self) -> QuarantinePort:
        """The rows that flows could not write."""
        ...

    def lag(self, flow: str | None = None) -> tuple[FlowLag, ...]:
        """Return the lag of each flow."""
        ...

    @property
    def doctor(self) -> DoctorPort:
        """Examines and repairs flows."""
        ...

    @property
    def rewinds(self) -> RewindPort:
        """Rewinds tables and flows to an earlier time."""
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
        local: Path | None,
        master: str | None,
        parameters: Mapping[str, str],
        short: bool | None,
        verbose: bool,
        cold: bool,
    ) -> PipelinePort:
        """Open the pipeline of a spec file; `short` marks a short-running command, `cold` always starts Spark."""
        ...


def open_pipeline(
    spec: Path,
    *,
    local: Path | None,
    master: str | None,
    parameters: Mapping[str, str],
    short: bool | None,
    verbose: bool,
    cold: bool,
) -> PipelinePort:
    """Open the real pipeline of a spec file."""
    # PySpark is imported here, because an invalid command line and `--help` do not need it.
    from framework.pipeline import Pipeline

    if not verbose:
        from framework.session.query_log import silence_query_log

        silence_query_log()
    return Pipeline.from_spec(
        spec, local=local, master=master, parameters=parameters, short=short, verbose=verbose, cold=cold
    )
