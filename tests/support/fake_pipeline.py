"""A pipeline without Spark, for tests of the layers above the facade."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from framework.checkpoints.rewinds import StoredRewind
from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.specs import (
    DatasetKind,
    DatasetSpec,
    FlowSpec,
    IngestedGateway,
    IngestionSpec,
    ViolationAction,
)
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.operations.pipeline_port import Observer, QuarantinePort
from framework.plan.steps import Plan, RunFlow, SkipStep
from framework.record import drafts
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.recovery.comparison import ComparedTable, Comparison, Totals
from framework.recovery.doctor.finding import Examination, Finding, Position, Repair
from framework.recovery.flow_lag import FlowLag
from framework.recovery.quarantine.waiting import WaitingRows
from framework.recovery.request import ComparisonOptions
from framework.recovery.rewind.plan import Abandonment, RewindPlan
from framework.recovery.rewind.point_in_time import PointInTime
from framework.run.flows.quality_counts import ExpectationCount
from framework.run.tables.left_tables import LeftTable
from framework.run.update.control.identity import UpdateIdentity
from framework.run.update.control.stop_requests import StopRequest, stop_event
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState
from framework.testing.manual_clock import ManualClock


def name(table: str) -> QualifiedName:
    """A name of `main.shop`."""
    return QualifiedName(catalog="main", schema="shop", table=table)


def graph() -> DataflowGraph:
    """Orders from an external table, and a view over them."""
    schema = json.dumps(
        {"type": "struct", "fields": [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]}
    )

    def dataset(table: str, kind: DatasetKind) -> GraphDataset:
        return GraphDataset(spec=DatasetSpec(name=name(table), kind=kind), kind=kind, schema=schema)

    orders = FlowSpec(name=name("load"), target=name("orders"), once=True)
    by_day = FlowSpec(name=name("by_day"), target=name("by_day"))
    return DataflowGraph(
        pipeline="shop",
        datasets=(dataset("orders", DatasetKind.STREAMING_TABLE), dataset("by_day", DatasetKind.MATERIALIZED_VIEW)),
        flows=(
            GraphFlow(spec=orders, reads=(Read(text="raw.orders", streaming=True),), streaming=True),
            GraphFlow(spec=by_day, reads=(Read(text="orders", streaming=False, dataset=name("orders")),)),
        ),
    )


PLAN = Plan(
    pipeline="shop",
    steps=(
        RunFlow(flow=name("load"), dataset=name("orders"), generation=1, after=(), reason="first run"),
        SkipStep(dataset=name("by_day"), flow=name("by_day"), reason="its inputs and its code have not changed"),
    ),
)
LOADED = FlowResult(
    flow=name("load"),
    dataset=name("orders"),
    state=FlowState.COMPLETED,
    reason="",
    rows_written=1200,
    rows_dropped=3,
    seconds=2.5,
    expectations=(
        ExpectationCount(name="has an id", dataset=name("orders"), action=ViolationAction.DROP, passed=1197, failed=3),
    ),
)
IDLE = FlowResult(
    flow=name("by_day"), dataset=name("by_day"), state=FlowState.IDLE, reason="its inputs and its code have not changed"
)


COMPLETED = UpdateResult(update_id="u-1", state=UpdateState.COMPLETED, flows=(LOADED, IDLE), duration_seconds=3.25)


EQUAL = Comparison(
    first=ComparedTable(name="orders", rows=1200, version=3),
    second=ComparedTable(name="by_day", rows=1200, version=4),
    keys=("id",),
    columns=("city", "total"),
    findings=(),
    totals=Totals(),
    differences=(),
)


def failed(error: SluiceError) -> FlowResult:
    """The view's flow, failed."""
    return FlowResult(
        flow=name("by_day"), dataset=name("by_day"), state=FlowState.FAILED, reason="it failed", error=error
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRows:
    """Rows without Spark."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    declared_keys: tuple[str, ...] = ()

    def limit(self, num: int) -> FakeRows:
        """At most that many rows."""
        return FakeRows(columns=self.columns, rows=self.rows[:num])

    def collect(self) -> Sequence[Any]:
        """The rows."""
        return self.rows


@dataclass(slots=True, kw_only=True)
class FakeRewinds:
    """Rewinds that are recorded and not done.

    Args:
        found: what a rewind would do.
        unfinished: a rewind that was interrupted.
        abandonment: what becomes of it if it is given up.
    """

    found: RewindPlan = field(
        default_factory=lambda: RewindPlan(
            moment=PointInTime(request="", text="", time_ms=0), chosen=(), tables=(), flows=()
        )
    )
    unfinished: StoredRewind | None = None
    abandonment: Abandonment | None = None
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def plan(self, to: str, datasets: Sequence[str] = ()) -> RewindPlan:
        """The plan."""
        self.calls.append(("plan", (to, tuple(datasets))))
        return self.found

    def rewind(self, plan: RewindPlan, reason: str = "") -> StoredRewind:
        """Record the call."""
        self.calls.append(("rewind", reason))
        return StoredRewind(
            rewind_id="r", to=plan.moment.request, begun_at="", user=None, why=reason, tables=(), flows=()
        )

    def finish(self) -> StoredRewind | None:
        """Record the call."""
        self.calls.append(("finish", None))
        return self.unfinished

    def plan_abandonment(self) -> Abandonment | None:
        """The abandonment."""
        return self.abandonment

    def abandon(self, abandonment: Abandonment) -> None:
        """Record the call."""
        self.calls.append(("abandon", abandonment))


@dataclass(slots=True, kw_only=True)
class FakePipeline:
    """A pipeline that records the calls and real events, and never starts Spark.

    Args:
        result: the result of an update.
        fault: raised by each call.
        during_run: called in the middle of an update.
        request: asks the update to stop, in the middle of it.
    """

    storage: LocalStorage
    name: str = "shop"
    result: UpdateResult = COMPLETED
    fault: Exception | None = None
    during_run: Callable[[], None] = lambda: None
    request: StopRequest | None = None
    rows: FakeRows = field(default_factory=lambda: FakeRows(columns=["id", "city"], rows=[(1, "Łódź"), (2, None)]))
    left: tuple[LeftTable, ...] = ()
    changed: tuple[LeftTable, ...] = ()
    comparison: Comparison = EQUAL
    flow_lag: tuple[FlowLag, ...] = ()
    foretold: tuple[OperationError, ...] = ()
    warnings: tuple[SluiceError, ...] = ()
    findings: tuple[Finding, ...] = ()
    rewinds: FakeRewinds = field(default_factory=FakeRewinds)
    quarantined: tuple[WaitingRows, ...] = ()
    ingestions: tuple[IngestionSpec, ...] = ()
    calls: list[tuple[str, Any]] = field(default_factory=list)
    stops: int = 0
    closed: bool = False

    def _call(self, method: str, value: Any = None) -> None:
        self.calls.append((method, value))
        if self.fault is not None:
            raise self.fault

    @property
    def spec(self) -> PipelineSpec:
        """A spec without files."""
        return PipelineSpec(name=self.name, storage=self.storage.root)

    @property
    def gateways(self) -> tuple[IngestedGateway, ...]:
        """None."""
        return ()

    @property
    def graph(self) -> DataflowGraph:
        """The graph."""
        self._call("graph")
        return replace(graph(), warnings=self.warnings)

    def validate(self) -> DataflowGraph:
        """The graph."""
        self._call("validate")
        return replace(graph(), warnings=self.warnings)

    def foretell(self) -> tuple[OperationError, ...]:
        """The flows that would fail."""
        self._call("foretell")
        return self.foretold

    def starts_of(self, flow: QualifiedName, starts: Sequence[str]) -> str | None:
        """The starts as text."""
        self._call("starts_of", (flow, tuple(starts)))
        return "\n".join(starts) or None

    def plan(self, **request: Any) -> Plan:
        """Always the same plan."""
        self._call("plan", request)
        return PLAN

    def run(
        self, *, observers: Sequence[Observer] = (), identity: UpdateIdentity | None = None, **request: Any
    ) -> UpdateResult:
        """Record the events of an update, with the times of a manual clock."""
        self._call("run", request if identity is None else request | {"identity": identity})
        clock = ManualClock()
        origin = Origin(pipeline_id="shop", pipeline_name="shop", update_id=self.result.update_id)
        with EventLog(self.storage, origin, clock) as log:
            for observer in observers:
                log.subscribe(observer)
            log.record(drafts.update_progress(state="RUNNING"))
            for flow in self.result.flows:
                flow_name, dataset = str(flow.flow), str(flow.dataset)
                if flow.state is not FlowState.IDLE:
                    log.record(drafts.flow_progress(flow=flow_name, dataset=dataset, status="RUNNING"))
                clock.sleep(flow.seconds)
                metrics = None if flow.rows_written is None else {"num_output_rows": flow.rows_written}
                log.record(
                    drafts.flow_progress(flow=flow_name, dataset=dataset, status=flow.state.value, metrics=metrics)
                )
            self.during_run()
            if self.request is not None:
                log.record(stop_event(self.request))
            log.record(drafts.update_progress(state=self.result.state.value))
        return self.result

    def stop(self) -> None:
        """Count the calls."""
        self.stops += 1

    def left_tables(self) -> tuple[LeftTable, ...]:
        """The undeclared tables."""
        self._call("left_tables")
        return self.left

    def prune(self, tables: Sequence[LeftTable]) -> tuple[LeftTable, ...]:
        """Record the tables and drop none; return those that are not in `changed`."""
        self._call("prune", tuple(tables))
        return tuple(table for table in tables if table not in self.changed)

    def preview(self, name: str, limit: int = 10) -> FakeRows:
        """Some rows."""
        self._call("preview", (name, limit))
        return self.rows.limit(limit)

    def sql(self, query: str) -> FakeRows:
        """The rows, for any query."""
        self._call("sql", query)
        return self.rows

    def reconcile(self, first: str, second: str, **options: Unpack[ComparisonOptions]) -> Comparison:
        """The comparison."""
        self._call("reconcile", (first, second, options))
        return self.comparison

    def lag(self, flow: str | None = None) -> tuple[FlowLag, ...]:
        """The lag of the flows."""
        self._call("lag", flow)
        return self.flow_lag

    @property
    def quarantine(self) -> QuarantinePort:
        """Missing: the page docs/quarantine.md is tested with a real pipeline."""
        raise NotImplementedError

    @property
    def doctor(self) -> FakePipeline:
        """This object."""
        return self

    def examine(self, flows: Sequence[str] = ()) -> Examination:
        """The findings."""
        self._call("examine", tuple(flows))
        return Examination(flows=2, findings=self.findings, quarantined=self.quarantined)

    def treat(self, finding: Finding, number: int, *, reason: str = "", observers: Sequence[Observer] = ()) -> Repair:
        """Record the call; the flow is in the next generation."""
        self._call("treat", (finding.flow, number, reason))
        for observer in observers:
            del observer
        return Repair(
            finding=finding, way=finding.ways[number - 1], before=finding.position, after=Position(generation=2),
            result=self.result,
        )  # fmt: skip

    def close(self) -> None:
        """Record the call."""
        self.closed = True
