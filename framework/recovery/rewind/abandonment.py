"""The effect of giving up an interrupted rewind, because one of its tables can no longer be restored.

Before the first table names its new generations, nothing has changed and nothing has to be done. Afterwards the
checkpoint of such a table can't continue, so the other tables are restored as decided. A table that can't be restored
would keep its later rows beside a restored auxiliary table or restored inputs, so it is fully refreshed, and so are the
tables that read it as a stream.
"""

from __future__ import annotations

from dataclasses import replace

from framework.checkpoints.rewinds import StoredRewind
from framework.declare.specs import DatasetKind
from framework.foundation.errors import OperationError, RequestErrors, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph
from framework.plan.selection import is_resettable
from framework.plan.state import TableKind
from framework.recovery.rewind.plan import Abandonment
from framework.recovery.rewind.scope import with_readers
from framework.run.tables.table_store import TableStore
from framework.run.update.rewind_refusals import has_begun, obstacles, tables_elsewhere


def abandonment_of(graph: DataflowGraph, store: TableStore, rewind: StoredRewind) -> Abandonment:
    """Plan how to give up a rewind.

    Args:
        graph: the pipeline's graph.
        store: its tables.
        rewind: the stored rewind.

    Raises:
        UserError: TABLE_NOT_RESETTABLE; several as RequestErrors.
        OperationError: REWIND_OF_OTHER_PIPELINE.
    """
    found = (*tables_elsewhere(store, rewind), *obstacles(store, rewind))
    # Without a table to restore, the first effects are on the quarantine and checkpoints, where they can't be detected.
    is_begun = bool(rewind.refreshed) or not rewind.tables
    if not is_begun and not any(has_begun(store.storage, each, rewind) for each in rewind.tables):
        return Abandonment(rewind=rewind, obstacles=found, rest=None)
    _check_pipeline(graph, store, rewind)
    paths = {store.path(each.spec): each.name for each in graph.datasets if each.is_table}
    lost = with_readers(graph, {*rewind.refreshed, *(each.dataset for each in found)}, paths)
    rest = replace(
        rewind,
        tables=tuple(each for each in rewind.tables if each.dataset not in lost),
        flows=tuple(each for each in rewind.flows if each.dataset not in lost),
        refreshed=tuple(sorted(name for name in lost if _has_flows(graph, store, name))),
    )
    _check_resettable(graph, rest.refreshed)
    return Abandonment(rewind=rewind, obstacles=found, rest=rest)


def _has_flows(graph: DataflowGraph, store: TableStore, name: QualifiedName) -> bool:
    """Whether a full refresh replaces a table's rows: views are recomputed. Undeclared tables may be declared again."""
    dataset, record = graph.dataset(name), store.record(name)
    if dataset is not None:
        return dataset.kind is DatasetKind.STREAMING_TABLE
    return record is None or record.kind is not TableKind.MATERIALIZED_VIEW


def _check_pipeline(graph: DataflowGraph, store: TableStore, rewind: StoredRewind) -> None:
    """Check that the tables belong to this pipeline, not to another one in the storage: its graph has their readers."""
    names = [*(each.dataset for each in rewind.tables), *(each.dataset for each in rewind.flows)]
    for name in dict.fromkeys(name for name in names if graph.dataset(name) is None):
        record = store.record(name)
        if record is not None and record.pipeline != store.pipeline:
            raise OperationError("REWIND_OF_OTHER_PIPELINE", to=rewind.to, dataset=name, pipeline=record.pipeline)


def _check_resettable(graph: DataflowGraph, names: tuple[QualifiedName, ...]) -> None:
    datasets = [dataset for name in names if (dataset := graph.dataset(name)) is not None]
    faults = [
        UserError("TABLE_NOT_RESETTABLE", location=each.spec.location, dataset=each.name)
        for each in datasets
        if not is_resettable(each)
    ]
    if faults:
        raise faults[0] if len(faults) == 1 else RequestErrors(faults)
