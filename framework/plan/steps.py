"""The steps of an update: a closed union that the executor executes and the explainer prints."""

from __future__ import annotations

from dataclasses import dataclass

from framework.foundation.display import Displayed
from framework.foundation.errors import OperationError, SluiceError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.graph.graph import DataflowGraph
from framework.plan.state import StateFault, TableKind
from framework.schema.change import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """Create the target table, or change it to its current definition; with `rebuild`, the rebuild's copy of it.

    Args:
        history: the columns that identify a row, () for all columns or the keys of AUTO CDC. The table is backed up
            before the rebuild, and rows that the rebuild lacks are put back. None: no row is put back.
        change: the columns that the table gets, and no others; None if it is created, or if its columns are unknown.
    """

    dataset: QualifiedName
    reason: str
    rebuild: int | None = None
    history: tuple[str, ...] | None = None
    change: SchemaChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginGeneration:
    """Begin a new generation of a flow's checkpoint; the old one is kept for a roll-back.

    A generation of a `rebuild` becomes current when the rebuild is published.

    Args:
        start: where its sources start, as stored in the manifest; None: as in the flow's code.
    """

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    reason: str
    rebuild: int | None = None
    start: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """The reason why a flow can't continue from its checkpoint.

    Args:
        condition: the condition that Spark or Delta raises.
        problem: what differs between the checkpoint and the flow, as a sentence.
        ways: the ways to repair it, best first, as lines of a remedy.
    """

    condition: str
    problem: str
    ways: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Read all data that is available at the start, then end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Keep reading; end the query when all data is read, and restart it when there is new data.

    Args:
        interval_seconds: the shortest time between two micro-batches of the flow.
        idle_seconds: the time without data after which the query ends; None: it never ends by itself.
    """

    interval_seconds: float = 0.0
    idle_seconds: float | None = 5.0


Trigger = AvailableNow | Continuous


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlow:
    """Run one flow into its target until its trigger ends.

    Args:
        trigger: when the flow reads, and when it ends.
        after: datasets whose steps end before this one starts.
        rebuild: the rebuild whose copy it writes to; None: the table itself.
        check: run only if its sources have new data at the start of the step.
        broken: why the flow would fail; it is not started.
        finds_columns: whether its sources may have new columns, which are unknown until they are read. The flow stops
            for new columns, and a new plan with them continues.
    """

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    after: tuple[QualifiedName, ...]
    reason: str
    rebuild: int | None = None
    check: bool = False
    trigger: Trigger = AvailableNow()
    broken: Breakage | None = None
    finds_columns: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRebuild:
    """Replace a table's rows with the rows of its rebuild in one commit, after all flows of the rebuild are done.

    `change`: how the columns of the table change; None if unknown.
    """

    dataset: QualifiedName
    rebuild: int
    reason: str
    change: SchemaChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView:
    """Compute a materialized view and replace its rows in one commit.

    `check`: compute it only if its inputs have changed at the start of the step.
    `change`: how its columns change; None if it is created, or if its columns are unknown.
    """

    dataset: QualifiedName
    flow: QualifiedName
    after: tuple[QualifiedName, ...]
    reason: str
    check: bool = False
    change: SchemaChange | None = None


NOT_SELECTED = "not selected"
"""The reason to skip a dataset that the request leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipStep:
    """Skip a flow or a dataset, with the reason.

    Args:
        excluded: whether it is not a part of the update.
        waits_for: the datasets whose faults keep the flow from running; with any, the update fails.
    """

    dataset: QualifiedName
    flow: QualifiedName | None
    reason: str
    excluded: bool = False
    waits_for: tuple[QualifiedName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseTable:
    """Fail the flows of a dataset whose table has another owner or a fault; the table is not changed.

    Args:
        flows: the flows into the dataset.
        path: the folder of the table.
        owner: the other owner as text; None if this pipeline owns the table.
        advice: further remedies, as a sentence after a blank; empty if there are none.
        elsewhere: the folder of the other table that the flows have last written to; empty without one.
        other_storage: another storage that writes to the table, as text; empty without one.
        storage: the root of the storage of this pipeline.
        stored: the kind of the table, if its rows do not fit the declared kind.
        declared: the declared kind in that case.
        append_only: whether the table is append-only, so that a full refresh can't replace its rows.
        held: why an operator has paused flows that the requested full refresh needs; empty if they may run.
        fault: why the table or a checkpoint of its flows can't be read or written; None if they can.
    """

    dataset: QualifiedName
    flows: tuple[QualifiedName, ...]
    path: str
    owner: str | None
    reason: str
    elsewhere: str = ""
    other_storage: str = ""
    storage: str = ""
    stored: TableKind | None = None
    declared: TableKind | None = None
    append_only: bool = False
    held: str = ""
    fault: StateFault | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepStored:
    """Keep a table that no module declares any more, or `columns` of a table that no flow writes any more."""

    dataset: QualifiedName
    reason: str
    columns: tuple[str, ...] = ()


Step = CreateTable | BeginGeneration | RunFlow | PublishRebuild | RefreshView | SkipStep | RefuseTable | KeepStored


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Displayed):
    """The steps of one update, in dependency order.

    Args:
        pipeline: the pipeline's name.
        steps: the steps.
        fault: why the storage can't be written, so that no step can run; None if it can.
        warnings: faults that stop no step.
    """

    pipeline: str
    steps: tuple[Step, ...]
    fault: StateFault | None = None
    warnings: tuple[StateFault, ...] = ()


_DOUBLED = "Its flows would append rows to the table that the view has written already."
_REPLACED = "A refresh would delete all its rows, also those that the sources no longer have."
_UNMERGED = "Its flows would append events beside the rows of their keys."
_WOULD = {
    (TableKind.MATERIALIZED_VIEW, TableKind.STREAMING_TABLE): _DOUBLED,
    (TableKind.STREAMING_TABLE, TableKind.MATERIALIZED_VIEW): _REPLACED,
    (TableKind.AUTO_CDC_TARGET, TableKind.MATERIALIZED_VIEW): _REPLACED,
    (TableKind.AUTO_CDC_TARGET, TableKind.STREAMING_TABLE): _UNMERGED,
}
"""What would happen to the rows if a table changes its kind. `check_drift` refuses other tables as CDC targets."""


def has_other_rows(stored: TableKind | None, declared: TableKind) -> bool:
    """Whether the rows of a stored table do not fit the kind that the code declares now."""
    return (stored, declared) in _WOULD


def refusal(graph: DataflowGraph, step: RefuseTable) -> SluiceError:
    """Return the error of one refused table, at the declaration of its dataset."""
    dataset = graph.dataset(step.dataset)
    location = dataset.spec.location if dataset is not None else None
    if step.fault is not None:
        return step.fault.error(location)
    if step.other_storage:
        return OperationError(
            "TABLE_OF_OTHER_STORAGE",
            location=location,
            dataset=step.dataset,
            path=step.path,
            other=step.other_storage,
            root=step.storage,
            statement=TableAddress(path=step.path).given_to(step.storage),
        )
    if dataset is not None and dataset.fault is not None and step.owner is None:
        return dataset.fault
    if step.elsewhere:
        return OperationError(
            "TABLE_WITHOUT_LATEST_ROWS",
            location=location,
            dataset=step.dataset,
            path=step.path,
            elsewhere=step.elsewhere,
        )
    if step.stored is not None and step.declared is not None:
        return OperationError(
            "DATASET_TYPE_CHANGED",
            location=location,
            dataset=step.dataset,
            stored=step.stored,
            declared=step.declared,
            would=_WOULD[step.stored, step.declared],
        )
    return _refused_refresh(step, location) or OperationError(
        "TABLE_NOT_OWNED", location=location, dataset=step.dataset, path=step.path, owner=step.owner, advice=step.advice
    )


def _refused_refresh(step: RefuseTable, location: SourceLocation | None) -> SluiceError | None:
    """Return the error of a full refresh that can't run; None if the table is refused for another reason."""
    if step.append_only:
        return OperationError(
            "FULL_REFRESH_OF_APPEND_ONLY_TABLE",
            location=location,
            dataset=step.dataset,
            table=TableAddress(path=step.path).sql,
        )
    if step.held:
        return OperationError("FULL_REFRESH_OF_PAUSED_TABLE", location=location, dataset=step.dataset, reason=step.held)
    return None


def refusals(graph: DataflowGraph, plan: Plan) -> tuple[SluiceError, ...]:
    """Return the errors of the storage and of all refused tables, in the plan's order; a shared error appears once."""
    found = [] if plan.fault is None else [plan.fault.error()]
    refused = (refusal(graph, step) for step in plan.steps if isinstance(step, RefuseTable))
    return tuple({error.render(): error for error in (*found, *refused)}.values())


def breakages(graph: DataflowGraph, plan: Plan) -> tuple[OperationError, ...]:
    """Return the errors of all flows that can't continue from their checkpoints, in the plan's order."""
    return tuple(
        breakage_error(graph, step.flow, step.broken)
        for step in plan.steps
        if isinstance(step, RunFlow) and step.broken is not None
    )


def breakage_error(graph: DataflowGraph, name: QualifiedName, broken: Breakage) -> OperationError:
    """Return the error of a flow that can't continue from its checkpoint, at its declaration."""
    flow = graph.flow(name)
    location = flow.spec.location if flow is not None else None
    return OperationError(broken.condition, location=location, flow=name, problem=broken.problem, ways=broken.ways)
