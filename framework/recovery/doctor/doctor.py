"""Examines the flows of one pipeline, and repairs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import OperationError, UserError, UserErrors
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.request import RequestOptions
from framework.record.events import Event
from framework.recovery.doctor.broken_flow import BrokenFlow
from framework.recovery.doctor.finding import Examination, Finding, Position, Repair
from framework.recovery.doctor.findings import examine, position_of, unplannable
from framework.recovery.doctor.repair import chosen_way, treat
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.table_store import TableStore
from framework.run.update.results import UpdateResult
from framework.run.update.rewind_refusals import check_no_rewind

Observer = Callable[[Event], None]


class RunUpdate(Protocol):
    """Runs an update, as `Pipeline.run` does."""

    def __call__(
        self, check: Callable[[], None] | None, *, observers: Sequence[Observer], **request: Unpack[RequestOptions]
    ) -> UpdateResult:
        """Run an update and return its result; `check` is called under the update lock, before anything is written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doctor:
    """The doctor of one pipeline.

    Args:
        name: the pipeline's name.
        graph: returns its graph.
        store: its tables.
        run: runs an update of it.
        clock: the present time.
    """

    name: str
    graph: Callable[[], DataflowGraph]
    store: TableStore
    run: RunUpdate
    clock: Clock = SystemClock()  # noqa: RUF009 - it has no state

    def examine(self, flows: Sequence[str] = ()) -> Examination:
        """Return the faults of flows, with explanations and ways out; no stream is started.

        Args:
            flows: names of the flows to examine, full or their last parts; () for all.

        An interrupted rewind is also a finding. If the code has errors, they are the findings, and no flow is examined.

        Raises:
            UserError: FLOW_NOT_FOUND.
        """
        try:
            check_no_rewind(self.store)
            graph = self.graph()
        except UserErrors as error:
            return unplannable(error.errors, self.store.storage)
        except (OperationError, UserError) as error:
            return unplannable([error], self.store.storage)
        try:
            return examine(graph, self.store, clock=self.clock, flows=flows)
        except OperationError as error:  # a file of the storage can't be read
            return unplannable([error], self.store.storage)

    def treat(self, finding: Finding, number: int, *, reason: str = "", observers: Sequence[Observer] = ()) -> Repair:
        """Apply a way out of a finding, and record the user, the reason, and the flow's position before and after.

        Args:
            finding: a finding of `examine`.
            number: the number of the way out, from 1.
            reason: why, in the user's words.
            observers: called with each event of the update that the way out runs.

        Raises:
            UserError: DOCTOR_WAY_UNKNOWN, DOCTOR_WAY_FOR_PERSON; DOCTOR_FINDING_CHANGED since `examine`.
            OperationError: another update is running.
        """
        way = chosen_way(finding, number)
        before = None if finding.flow is None else self._position(finding.flow)
        present = self.examine([str(finding.flow)]).findings
        if not any(way in each.ways and each.position == finding.position for each in present):
            raise UserError("DOCTOR_FINDING_CHANGED", flow=finding.flow)

        def check() -> None:
            # Another process may have applied a way out before this one acquired the lock.
            if finding.flow is not None and self._position(finding.flow) != before:
                raise UserError("DOCTOR_FINDING_CHANGED", flow=finding.flow)

        return treat(
            finding,
            way,
            storage=self.store.storage,
            pipeline=self.name,
            reason=reason,
            run=lambda request, check: self.run(check, observers=observers, **request),
            position=self._position,
            check=check,
        )

    def _position(self, name: QualifiedName) -> Position:
        graph = self.graph()
        flow = graph.flow(name)
        dataset = None if flow is None else graph.dataset(flow.spec.target)
        if flow is None or dataset is None:
            return Position()
        states = StateReader(graph=graph, store=self.store)
        state = states.flow_state(flow)
        return position_of(BrokenFlow(graph=graph, dataset=dataset, flow=flow, states=states, state=state))
