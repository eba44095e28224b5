"""The result values of an update and its flows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from framework.foundation.display import Displayed
from framework.foundation.errors import SluiceError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.run.flows.quality_counts import ExpectationCount, QualityCounts


class UpdateState(StrEnum):
    """The states of an update, with Lakeflow's names."""

    QUEUED = "QUEUED"
    CREATED = "CREATED"
    INITIALIZING = "INITIALIZING"
    RESETTING = "RESETTING"
    SETTING_UP_TABLES = "SETTING_UP_TABLES"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class FlowState(StrEnum):
    """The states of a flow, with Lakeflow's names."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    STOPPED = "STOPPED"
    IDLE = "IDLE"
    EXCLUDED = "EXCLUDED"


_GOOD = frozenset({FlowState.COMPLETED, FlowState.IDLE, FlowState.EXCLUDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowResult:
    """The result of one flow of an update.

    Args:
        rows_written: rows written to the target; None if the target does not report them.
        rows_upserted: rows that an AUTO CDC flow inserted or updated.
        rows_deleted: rows that an AUTO CDC flow deleted.
        rows_dropped: rows that expectations dropped.
        error: why it failed; None unless `state` is FAILED.
        may_heal: whether a retry may succeed.
    """

    flow: QualifiedName
    dataset: QualifiedName
    state: FlowState
    reason: str
    rows_written: int | None = None
    rows_upserted: int = 0
    rows_deleted: int = 0
    rows_dropped: int = 0
    seconds: float = 0.0
    error: SluiceError | None = None
    may_heal: bool = False
    expectations: tuple[ExpectationCount, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether readers of its dataset may continue."""
        return self.state in _GOOD

    def plus(self, later: FlowResult) -> FlowResult:
        """Return both runs as one: the sums of rows, seconds and counts, and the final state of the later run."""
        counts = QualityCounts(expectations=self.expectations).plus(QualityCounts(expectations=later.expectations))
        known = [rows for rows in (self.rows_written, later.rows_written) if rows is not None]
        return replace(
            later,
            rows_written=sum(known) if known else None,
            rows_upserted=self.rows_upserted + later.rows_upserted,
            rows_deleted=self.rows_deleted + later.rows_deleted,
            rows_dropped=self.rows_dropped + later.rows_dropped,
            seconds=self.seconds + later.seconds,
            expectations=counts.expectations,
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class UpdateResult(Displayed):
    """The result of an update, with one result per flow in the order in which they ended.

    Args:
        graph: the graph of the update, for its diagram.
        refused: why tables could not be read again from the start; the next update retries. Each reason occurs once.
    """

    update_id: str
    state: UpdateState
    flows: tuple[FlowResult, ...]
    duration_seconds: float
    graph: DataflowGraph | None = field(default=None, compare=False)
    refused: tuple[SluiceError, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether the update had nothing to do."""
        return all(flow.state in {FlowState.IDLE, FlowState.EXCLUDED} for flow in self.flows)
