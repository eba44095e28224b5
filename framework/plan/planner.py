"""The planner: a pure function of graph, request and stored state. A dry run shows the steps that an update runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from framework.declare.specs import DatasetKind
from framework.foundation.errors import OperationError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.foretelling import foretell, foretell_rebuild
from framework.plan.reasons import (
    anew,
    beside_former,
    changed_kind,
    compared,
    declared_kind,
    joined,
    listed,
    reason_to_read,
)
from framework.plan.request import UpdateRequest
from framework.plan.selection import Selection, select
from framework.plan.state import FlowState, StateFault, StoredState, TableState
from framework.plan.steps import (
    NOT_SELECTED,
    AvailableNow,
    BeginGeneration,
    Continuous,
    CreateTable,
    KeepStored,
    Plan,
    PublishRebuild,
    RefreshView,
    RefuseTable,
    RunFlow,
    SkipStep,
    Step,
    Trigger,
    breakages,
    has_other_rows,
)
from framework.plan.unwritten_columns import unwritten_columns
from framework.sources.starts import parse_starts

_LEFT = "no longer declared, table kept; {}"
_PRUNED = "`sluice prune` drops it"
_COPIED = "a copy of the table is kept, and "
_REBUILT = "all flows of the rebuild have completed"
_PUT_BACK = ", and the rows that its sources no longer have are put back"
_FIRST_RUN = "first run"
_UNREAD = "waits for {}, whose columns are unknown"
_UNREAD_TABLE = "waits for {}, whose table can't be read"
_NOT_COMPLETE = "its single run is not complete"
_WITHHELD = "it has to be read anew, and that could not begin"
_CONTINUOUS = "keeps running until the update is stopped"


def make_plan(graph: DataflowGraph, request: UpdateRequest, state: StoredState) -> Plan:
    """Return the steps that bring the requested datasets up to date, each with its reason.

    Every step comes after the steps that it depends on. A flow or view with unchanged inputs is skipped, unless the
    same plan updates a dataset that it reads. In that case its step has `check` set: the executor checks the inputs
    again before it runs the step.

    Raises:
        UserError: the request names a dataset or flow that the graph does not have, or that may not be reset.
            FULL_REFRESH_UNFINISHED: it resets a flow whose table has an unfinished full refresh.
    """
    planning = _Planning(graph=graph, request=request, state=state, selection=select(graph, request), moving=set())
    steps = [step for name in graph.order() for step in planning.dataset_steps(name)]
    steps += [KeepStored(dataset=name, reason=_LEFT.format(why or _PRUNED)) for name, why in state.left.items()]
    return Plan(pipeline=graph.pipeline, steps=tuple(steps), fault=state.fault, warnings=state.warnings)


def foretold(graph: DataflowGraph, state: StoredState) -> tuple[OperationError, ...]:
    """Return the errors with which the next update certainly fails: unreadable tables, then broken checkpoints."""
    unread = (fault.error() for fault in state.unread.values())
    return (*unread, *breakages(graph, make_plan(graph, UpdateRequest(), state)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planning:
    """The state of planning; `moving` has the datasets that the steps so far may change."""

    graph: DataflowGraph
    request: UpdateRequest
    state: StoredState
    selection: Selection
    moving: set[QualifiedName]

    def dataset_steps(self, name: QualifiedName) -> Iterator[Step]:
        dataset = self.graph.dataset(name)
        if dataset is None or dataset.kind is DatasetKind.TEMPORARY_VIEW:
            return
        table = self.state.table(name)
        if name not in self.selection.selected:
            reason = _WITHHELD if name in self.request.withheld else NOT_SELECTED
            yield SkipStep(dataset=name, flow=None, reason=reason, excluded=True)
            return
        if dataset.waits_for:
            yield from self._waiting_steps(dataset, dataset.waits_for, _UNREAD)
            return
        if name in self.state.waits and dataset.fault is None:
            yield from self._waiting_steps(dataset, self.state.waits[name], _UNREAD_TABLE)
            return
        unread = self.state.unread.get(name)
        if unread is not None:
            yield replace(self._refused(name, table, f"it can't be read, {unread.condition}"), fault=unread)
            return
        refused = self._refusal(dataset, table)
        if refused is not None:
            yield refused
            return
        yield from self._writing_steps(dataset, table)

    def _writing_steps(self, dataset: GraphDataset, table: TableState) -> Iterator[Step]:
        """Yield the steps of a dataset; refuse it if a step would write a table that this process can't write."""
        name, unwritable = dataset.name, self.state.unwritable.get(dataset.name)
        steps = list(self._own_steps(dataset, table))
        if unwritable is None or all(isinstance(step, SkipStep | KeepStored | RefuseTable) for step in steps):
            yield from steps
            return
        yield replace(self._refused(name, table, f"it can't be written, {unwritable.condition}"), fault=unwritable)

    def _own_steps(self, dataset: GraphDataset, table: TableState) -> Iterator[Step]:
        name = dataset.name
        if self._is_rebuild_held(dataset):
            yield from self._held_steps(dataset)
            return
        unwritten = unwritten_columns(self.graph, dataset) if table.exists else ()
        if unwritten and name not in self.selection.rebuilt:
            yield KeepStored(
                dataset=name,
                columns=unwritten,
                reason="no flow writes it" if len(unwritten) == 1 else "no flow writes them",
            )
        if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
            yield from self._view_steps(dataset)
        elif dataset.kind is DatasetKind.STREAMING_TABLE and self._rebuild_reason(dataset):
            yield from self._rebuild_steps(dataset, self._rebuild_reason(dataset))
        else:
            yield from self._table_steps(dataset)

    def _waiting_steps(self, dataset: GraphDataset, names: tuple[QualifiedName, ...], why: str) -> Iterator[Step]:
        """Yield a step for each flow of a dataset that can't be analysed or planned because others have faults."""
        self.moving.add(dataset.name)  # its readers wait, too
        reason = why.format(listed(names))
        for flow in self.graph.flows_into(dataset.name):
            yield SkipStep(dataset=dataset.name, flow=flow.spec.name, reason=reason, waits_for=names)

    def _refusal(self, dataset: GraphDataset, table: TableState) -> RefuseTable | None:
        """Return why no step may change the table; None if steps may."""
        name, declared = dataset.name, declared_kind(dataset)
        if table.other_owner is not None:
            refused = self._refused(name, table, f"its table belongs to {table.other_owner}", owner=table.other_owner)
            return replace(refused, advice=table.advice)
        if table.other_storage:
            reason = f"its table belongs to the storage {table.other_storage}"
            refused = self._refused(name, table, reason)
            return replace(refused, other_storage=table.other_storage, storage=self.state.root)
        if self._has_left(dataset, table):
            reason = f"its flows have written to {table.elsewhere} since"
            return self._refused(name, table, reason, elsewhere=table.elsewhere)
        if dataset.fault is not None:
            return self._refused(name, table, f"its flows have an error, {dataset.fault.condition}")
        if has_other_rows(table.kind, declared) and not self._is_begun_anew(dataset, table):
            reason = f"it was declared as {table.kind}, and is declared as {declared} now"
            return replace(self._refused(name, table, reason), stored=table.kind, declared=declared)
        return self._retyped(dataset, table)

    def _retyped(self, dataset: GraphDataset, table: TableState) -> RefuseTable | None:
        """Refuse a streaming table whose columns somebody gave types that can't hold the values of its flows."""
        change, is_stream = table.change, dataset.kind is DatasetKind.STREAMING_TABLE
        if change is None or not is_stream or self._is_begun_anew(dataset, table):
            return None
        conflict = next(iter(change.conflicts(widens=dataset.widens)), None)
        if conflict is None:
            return None
        fields = {"dataset": dataset.name, "column": conflict.name, "stored": conflict.before, "found": conflict.after}
        fault = StateFault(condition="SCHEMA_CANNOT_EVOLVE", fields=tuple((key, str(fields[key])) for key in fields))
        reason = f"column {conflict.name} of its table has type {conflict.before}, and its flows have {conflict.after}"
        return replace(self._refused(dataset.name, table, reason), fault=fault)

    def _refused(
        self, name: QualifiedName, table: TableState, reason: str, *, owner: str | None = None, elsewhere: str = ""
    ) -> RefuseTable:
        self.moving.add(name)  # its readers wait for it, and are skipped if it fails
        return RefuseTable(
            dataset=name,
            flows=tuple(flow.spec.name for flow in self.graph.flows_into(name)),
            path=table.path,
            owner=owner,
            reason=reason,
            elsewhere=elsewhere,
        )

    def _has_left(self, dataset: GraphDataset, table: TableState) -> bool:
        """Whether the flows would continue in this table after writing rows to another table, which this one lacks.

        A full refresh reads those rows again. The flows of a newly created table have no checkpoint yet.
        """
        begun = any(self.state.flow(each.spec.name).generation for each in self.graph.flows_into(dataset.name))
        is_stream = dataset.kind is DatasetKind.STREAMING_TABLE
        is_left = bool(table.elsewhere) and is_stream and begun and dataset.fault is None
        return is_left and not self._is_begun_anew(dataset, table)

    def _is_begun_anew(self, dataset: GraphDataset, table: TableState) -> bool:
        """Whether this update replaces the table's rows with the rows that the sources have now."""
        goes_on = table.rebuilding is not None and dataset.kind is DatasetKind.STREAMING_TABLE
        return dataset.name in self.selection.rebuilt or goes_on

    def _view_steps(self, dataset: GraphDataset) -> Iterator[Step]:
        name, flow = dataset.name, self.graph.flows_into(dataset.name)[0]
        after = self._after(flow)
        table = self.state.table(name)
        present = self.state.computable_from.get(name)
        if name in self.selection.rebuilt:
            reason, check = "full refresh requested", False
        elif not table.exists:
            reason, check = "first computation", False
        elif present is None:
            reason, check = "its query is not deterministic, or reads data without a version", False
        elif table.definition != self.state.wanted_definitions.get(name):
            reason, check = "its definition changed", False
        elif table.computed_from is None:
            reason, check = "its rows may not be those of its query", False
        elif after:
            reason, check = f"if {listed(after)} changed", table.computed_from == present
        elif table.computed_from != present:
            reason, check = "its inputs or its code changed", False
        elif self.request.continuous:
            reason, check = "refreshed whenever its inputs change", True
        else:
            yield SkipStep(dataset=name, flow=flow.spec.name, reason="its inputs and its code have not changed")
            return
        self.moving.add(name)
        change = table.change if table.exists else None
        yield RefreshView(dataset=name, flow=flow.spec.name, after=after, reason=reason, check=check, change=change)

    def _rebuild_reason(self, dataset: GraphDataset) -> str:
        """Return why the table is rebuilt; empty if it is not rebuilt."""
        table = self.state.table(dataset.name)
        if dataset.name in self.selection.rebuilt and table.exists:
            return "full refresh requested"
        if table.rebuilding is not None:
            return f"full refresh {table.rebuilding} was not finished"
        return ""

    def _is_rebuild_held(self, dataset: GraphDataset) -> bool:
        """Whether a rebuild waits because an operator has paused the flows."""
        flows = self.graph.flows_into(dataset.name)
        is_held = bool(flows) and all(self.state.flow(each.spec.name).held for each in flows)
        return is_held and dataset.kind is DatasetKind.STREAMING_TABLE and bool(self._rebuild_reason(dataset))

    def _held_steps(self, dataset: GraphDataset) -> Iterator[Step]:
        """Yield the steps of a waiting rebuild; refuse one that the request names, as the request is not remembered."""
        name, flows = dataset.name, self.graph.flows_into(dataset.name)
        reasons = [self.state.flow(flow.spec.name).held for flow in flows]
        if name in self.request.full_refresh:
            yield replace(self._refused(name, self.state.table(name), reasons[0]), held=reasons[0])
            return
        for flow, reason in zip(flows, reasons, strict=True):
            yield SkipStep(dataset=name, flow=flow.spec.name, reason=reason, excluded=True)

    def _rebuild_steps(self, dataset: GraphDataset, reason: str) -> Iterator[Step]:
        """Yield the steps of a rebuild.

        A requested one starts over, because the code may have changed. An interrupted one continues.
        """
        name, flows = dataset.name, self.graph.flows_into(dataset.name)
        if self.state.table(name).append_only:
            refused = self._refused(name, self.state.table(name), "no row of an append-only table can be replaced")
            yield replace(refused, append_only=True)
            return
        begun = self.state.table(name).rebuilding
        goes_on = begun is not None and name not in self.selection.rebuilt
        rebuild = begun if begun is not None and goes_on else 1 + (self.state.table(name).last_rebuild)
        keeps = self.state.table(name).keeps_history if goes_on else self.request.keep_history
        reset = [flow.spec.name for flow in flows if flow.spec.name in self.selection.reset_flows]
        if goes_on and reset:  # a reset flow reads from the start, and its generation would not belong to the rebuild
            raise UserError("FULL_REFRESH_UNFINISHED", location=dataset.spec.location, dataset=name)
        history = () if dataset.cdc is not None else self.request.history_keys
        change = self.state.table(name).change
        left = "" if change is None else ", ".join(map(str, change.dropped))
        without = f"; the new ones lack columns that the code does not have: {left}" if left else ""
        yield CreateTable(
            dataset=name,
            rebuild=rebuild,
            history=history if keeps and not goes_on else None,
            reason=f"{reason}; {_COPIED if keeps else ''}the current rows stay readable{without}",
        )
        self.moving.add(name)
        for flow in flows:
            state = self.state.flow(flow.spec.name)
            generation = state.building if goes_on and state.building else state.latest + 1
            if generation != state.building:
                yield BeginGeneration(
                    flow=flow.spec.name,
                    dataset=name,
                    generation=generation,
                    reason=anew(reason, state),
                    rebuild=rebuild,
                )
            yield RunFlow(
                flow=flow.spec.name,
                dataset=name,
                generation=generation,
                after=self._after(flow),
                reason=reason,
                rebuild=rebuild,
                check=False,
                broken=foretell_rebuild(dataset, state) if generation == state.building else None,
            )
        yield PublishRebuild(
            dataset=name, rebuild=rebuild, reason=f"{_REBUILT}{_PUT_BACK if keeps else ''}", change=change
        )

    def _table_steps(self, dataset: GraphDataset) -> Iterator[Step]:
        name = dataset.name
        steps = [step for flow in self.graph.flows_into(name) for step in self._flow_steps(dataset, flow)]
        if dataset.is_table:
            table = self.state.table(name)
            if not table.exists:
                yield CreateTable(dataset=name, reason="it does not exist")
            elif table.definition != self.state.wanted_definitions.get(name):
                gained = None if table.change is None else table.change.gained(widens=dataset.widens)
                yield CreateTable(dataset=name, reason="its definition changed", change=gained)
        if any(isinstance(step, RunFlow) for step in steps):
            self.moving.add(name)
        yield from steps

    def _flow_steps(self, dataset: GraphDataset, flow: GraphFlow) -> Iterator[Step]:
        name, state = flow.spec.name, self.state.flow(flow.spec.name)
        if state.held:
            yield SkipStep(dataset=dataset.name, flow=name, reason=state.held, excluded=True)
            return
        lost = dataset.is_table and not self.state.table(dataset.name).exists and state.generation is not None
        begin = self._begin_reason(dataset, flow, state, lost=lost)
        if begin:
            generation = state.latest + 1
            start = self.selection.starts.get(name)
            reason = anew(begin, state)
            yield BeginGeneration(flow=name, dataset=dataset.name, generation=generation, reason=reason, start=start)
            # A flow that reads partitions of a table may have no data to start with.
            check = begin.startswith(_FIRST_RUN) and not flow.spec.once and any(read.only for read in flow.reads)
            yield self._run(dataset, flow, generation, reason=begin, check=check)
            return
        generation = state.generation or 1
        after, beside = self._after(flow), beside_former(dataset, state)
        broken = foretell(dataset, flow, state)
        if broken is not None:
            # Also without new data: the flow would fail as soon as data arrives, so the plan reports it now.
            step = self._run(dataset, flow, generation, reason="its checkpoint does not fit its query", check=False)
            yield replace(step, broken=broken)
        elif flow.spec.once and state.completed:
            yield SkipStep(dataset=dataset.name, flow=name, reason=f"ran once, in generation {generation}")
        elif flow.spec.once:
            yield self._run(dataset, flow, generation, reason=f"{_NOT_COMPLETE}{beside}", check=False)
        elif self.request.continuous:
            yield self._run(dataset, flow, generation, reason=f"{_CONTINUOUS}{beside}", check=state.drained)
        elif not state.drained:
            yield self._run(dataset, flow, generation, reason=f"{reason_to_read(flow.spec)}{beside}", check=False)
        elif after:
            moved = "changed" if flow.spec.from_snapshots else "received new rows"
            yield self._run(dataset, flow, generation, reason=f"if {listed(after)} {moved}", check=True)
        else:
            yield SkipStep(dataset=dataset.name, flow=name, reason=self._reason_to_skip(flow))

    def _reason_to_skip(self, flow: GraphFlow) -> str:
        """Return why a flow with nothing to read is skipped, with the partition conditions on its only stream."""
        if flow.spec.from_snapshots:
            return "no change since the last snapshot"
        datasets = [(read, self.graph.dataset(read.dataset) if read.dataset else None) for read in flow.reads]
        tables = [read for read, found in datasets if found is None or found.kind is not DatasetKind.TEMPORARY_VIEW]
        conditions = {read.only for read in tables if read.streaming}
        only = next(iter(conditions)) if len(conditions) == 1 and not flow.sources else ()
        return f"no new data in {', '.join(map(str, only))}" if only else "no new data to read"

    def _begin_reason(self, dataset: GraphDataset, flow: GraphFlow, state: FlowState, *, lost: bool) -> str:
        """Return why the flow begins a new generation; empty if it continues its current one."""
        is_reset = flow.spec.name in self.selection.reset_flows
        if state.generation is None:
            return self._first_run_reason(dataset, state, is_reset=is_reset)
        if is_reset:
            return self._reset_reason(flow.spec.name, lost=lost)
        if lost:
            return "its table no longer exists"
        if dataset.name in self.selection.rebuilt and dataset.is_table:
            return "full refresh requested"
        if state.changed_kind:
            return changed_kind(dataset, flow)
        # An AUTO CDC flow that reads all its changes can apply them again; `foretell` handles other flows.
        can_repeat = dataset.cdc is not None and not state.begins_late
        return "files of its checkpoint were deleted" if state.deleted and can_repeat else ""

    def _first_run_reason(self, dataset: GraphDataset, state: FlowState, *, is_reset: bool) -> str:
        """Return the reason for a first run; empty if it may append rows that the table has (see `foretell`)."""
        is_there = dataset.is_sink or self.state.table(dataset.name).exists
        if is_there and (state.unknown_rows or state.went_back) and not is_reset:
            return ""
        late = "; its query begins with new rows only" if state.begins_late and not is_reset else ""
        return f"{_FIRST_RUN}{late}{beside_former(dataset, state) if is_there else ''}"

    def _reset_reason(self, name: QualifiedName, *, lost: bool) -> str:
        """Return the reason for a reset, including where the flow starts."""
        start = self.selection.starts.get(name)
        texts = [each.text for each in parse_starts(start).values()]
        kept = "its table no longer exists" if lost else "the rows it wrote are kept"
        return f"its checkpoint is reset{f' to {joined(texts)}' if texts else ''}; {kept}"

    def _run(self, dataset: GraphDataset, flow: GraphFlow, generation: int, *, reason: str, check: bool) -> RunFlow:
        return RunFlow(
            flow=flow.spec.name,
            dataset=dataset.name,
            generation=generation,
            after=self._after(flow),
            reason=f"{reason}{compared(dataset, self.state.table(dataset.name))}",
            check=check,
            trigger=self._trigger(flow),
            finds_columns=self.state.flow(flow.spec.name).finds_columns,
        )

    def _trigger(self, flow: GraphFlow) -> Trigger:
        if self.request.continuous and flow.streaming and not flow.spec.once:
            return Continuous(interval_seconds=self.request.trigger_interval_seconds)
        return AvailableNow()

    def _after(self, flow: GraphFlow) -> tuple[QualifiedName, ...]:
        """Return the datasets that the flow reads and earlier steps may change."""
        reads = (read.dataset for read in flow.reads)
        return tuple(dict.fromkeys(name for name in reads if name in self.moving and name is not None))
