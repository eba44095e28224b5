"""Plans the rewinds of a pipeline, and has them executed under the update lock."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from framework.checkpoints.rewinds import RewindStore, StoredRewind
from framework.foundation.clock import Clock, SystemClock, timestamp_text
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.processes import user_name
from framework.graph.graph import DataflowGraph
from framework.recovery.rewind.abandonment import abandonment_of
from framework.recovery.rewind.decision import Decision
from framework.recovery.rewind.plan import Abandonment, RewindPlan
from framework.recovery.rewind.point_in_time import parse_point_in_time
from framework.recovery.rewind.scope import chosen_tables
from framework.run.tables.table_store import TableStore
from framework.run.update.lock import update_lock
from framework.run.update.rewind_refusals import check_no_rewind
from framework.run.update.rewinds import Rewinds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rewinder:
    """Rewinds of one pipeline.

    Args:
        graph: returns its graph.
        store: its tables.
        complete: completes the name of a dataset.
        clock: the present time.
    """

    graph: Callable[[], DataflowGraph]
    store: TableStore
    complete: Callable[[str], QualifiedName]
    clock: Clock = SystemClock()  # noqa: RUF009 - it has no state

    def plan(self, to: str, datasets: Sequence[str] = ()) -> RewindPlan:
        """Return the plan of a rewind; nothing is written.

        Args:
            to: a time in ISO 8601 with a zone, or the id of an update, to rewind to its end.
            datasets: names of streaming tables; () for all of them. Tables that read them are rewound too.

        Raises:
            UserError: the time or a name is invalid; REWIND_TOO_EARLY, REWIND_CLOCK_SET_BACK, REWIND_FILES_MISDATED,
                REWIND_NOT_CONSISTENT, REWIND_REACHES_SINK, REWIND_NOT_A_STREAMING_TABLE; required data is missing;
                several as RequestErrors.
            OperationError: TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE; REWIND_UNFINISHED, REWIND_NOT_FINISHABLE.
        """
        check_no_rewind(self.store)
        moment = parse_point_in_time(to, self.store.storage, self.clock)
        graph = self.graph()
        chosen = chosen_tables(graph, [self.complete(name) for name in datasets])
        return Decision(graph=graph, store=self.store, moment=moment).plan(chosen)

    def rewind(self, plan: RewindPlan, reason: str = "") -> StoredRewind:
        """Execute a rewind, and record the user and the reason.

        Args:
            plan: the result of `plan` that the user has seen.
            reason: why, in the user's words.

        Raises:
            UserError: as of `plan`; REWIND_CHANGED if the plan is no longer current.
            OperationError: an update is running.
        """
        rewind_id, now = str(uuid.uuid4()), timestamp_text(self.clock.now())
        with update_lock(self.store.storage, rewind_id):
            present = self.plan(plan.moment.request, [str(name) for name in plan.chosen])
            if present != plan:
                raise UserError("REWIND_CHANGED", to=plan.moment.text)
            rewind = StoredRewind(
                rewind_id=rewind_id,
                to=plan.moment.request,
                begun_at=now,
                user=user_name(),
                why=reason,
                tables=plan.stored_tables,
                flows=tuple(each.flow for each in plan.flows),
                replays=plan.replays,
            )
            if not plan.is_empty:
                Rewinds(store=self.store, clock=self.clock).execute(rewind)
            return rewind

    def finish(self) -> StoredRewind | None:
        """Finish an interrupted rewind and return it; None if there is none.

        Raises:
            OperationError: an update is running; REWIND_OF_OTHER_STORAGE, REWIND_NOT_FINISHABLE.
        """
        if RewindStore(self.store.storage).read() is None:
            return None
        with update_lock(self.store.storage, str(uuid.uuid4())):
            return Rewinds(store=self.store, clock=self.clock).finish_begun()

    def plan_abandonment(self) -> Abandonment | None:
        """Return the effect of giving up the interrupted rewind; None if there is none.

        Raises:
            UserError: TABLE_NOT_RESETTABLE; several as RequestErrors.
            OperationError: REWIND_OF_OTHER_PIPELINE.
        """
        rewind = RewindStore(self.store.storage).read()
        return None if rewind is None else abandonment_of(self.graph(), self.store, rewind)

    def abandon(self, abandonment: Abandonment) -> None:
        """Give up the interrupted rewind, if it can't be finished.

        Args:
            abandonment: the result of `plan_abandonment` that the user has seen.

        Raises:
            UserError: REWIND_CHANGED if the abandonment is no longer current.
            OperationError: an update is running.
        """
        with update_lock(self.store.storage, str(uuid.uuid4())):
            if self.plan_abandonment() != abandonment:
                raise UserError("REWIND_CHANGED", to=abandonment.rewind.to)
            Rewinds(store=self.store, clock=self.clock).abandon(abandonment.rewind, abandonment.rest)
