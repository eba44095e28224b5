"""Reasons why an interrupted rewind can't be finished: something that it needs was removed after the decision.

Before the next update finishes the rewind, users may delete a table, VACUUM its old files, or restore an older copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.rewinds import RewindRefusal, RewindStore, RewoundFlow, RewoundTable, StoredRewind
from framework.checkpoints.truncation import missing_for
from framework.engine.delta.stored_version import restored_rows
from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.run.flows.state.generation_numbers import names_rewind
from framework.run.tables.table_store import TableStore
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import read_tip


def restore_version(storage: Storage, table: RewoundTable, rewind: StoredRewind) -> int | None:
    """Return the version of the commit in which a rewind restored a table; None if it is not restored."""
    history = CommitHistory(storage, table.path)
    later = (version for version in history.versions if version > table.before)
    return next((each for each in later if history.commit(each).mark.get("rewind") == rewind.rewind_id), None)


def has_begun(storage: Storage, table: RewoundTable, rewind: StoredRewind) -> bool:
    """Whether a rewind has restored a table, or has committed to it the generations that continue it."""
    tip = None if table.auxiliary else read_tip(storage, table.path)
    flows = (flow for flow in rewind.flows if flow.dataset == table.dataset)
    is_named = tip is not None and any(names_rewind(flow.flow, flow.generation, tip) for flow in flows)
    return is_named or restore_version(storage, table, rewind) is not None


def obstacles(store: TableStore, rewind: StoredRewind) -> tuple[RewindRefusal, ...]:
    """Return the reasons why a rewind can't be finished; () if it can.

    Args:
        store: the tables; two jobs read the log of each table that is not restored yet.
        rewind: the rewind.
    """
    tables = ((each.dataset, _of_table(store, each, rewind)) for each in rewind.tables)
    flows = ((each.dataset, _of_flow(store.storage, each)) for each in rewind.flows)
    return tuple(_found([*tables, *flows]))


def tables_elsewhere(store: TableStore, rewind: StoredRewind) -> tuple[RewindRefusal, ...]:
    """Return a rewind's tables that belong to another storage: this storage is a copy and must not restore them."""
    found = ((each, store.other_storage(each.dataset, each.path)) for each in rewind.tables)
    return tuple(
        RewindRefusal(dataset=table.dataset, problem=f"{table.path} belongs to the storage {other}")
        for table, other in found
        if other
    )


def check_no_rewind(store: TableStore) -> None:
    """Check that no rewind is in progress.

    Raises:
        OperationError: REWIND_NOT_FINISHABLE, REWIND_UNFINISHED.
    """
    stored = RewindStore(store.storage)
    rewind = stored.read()
    if rewind is not None:
        check_finishable(store, rewind)
        stored.check_none()


def check_finishable(store: TableStore, rewind: StoredRewind) -> None:
    """Check that a rewind can be finished.

    Raises:
        OperationError: REWIND_NOT_FINISHABLE.
    """
    found = obstacles(store, rewind)
    if found:
        problems = "; ".join(f"{each.dataset}: {each.problem}" for each in found)
        raise OperationError("REWIND_NOT_FINISHABLE", to=rewind.to, begun_at=rewind.begun_at, problems=problems)


def _found(pairs: list[tuple[QualifiedName, str | None]]) -> Iterator[RewindRefusal]:
    for dataset, problem in pairs:
        if problem is not None:
            yield RewindRefusal(dataset=dataset, problem=problem)


def _of_table(store: TableStore, table: RewoundTable, rewind: StoredRewind) -> str | None:
    tip = read_tip(store.storage, table.path)
    if tip is None:
        return f"there is no table at {table.path} any more"
    if tip.table_id != table.table_id and None not in {tip.table_id, table.table_id}:
        return f"another table is at {table.path}"
    restored = restore_version(store.storage, table, rewind)
    if restored is not None:
        # Users, or a copy of this storage that finished the rewind and continued to write.
        is_changed = CommitHistory(store.storage, table.path).changes_between(restored, tip.version)
        return f"{table.path} was changed after version {restored}, which restored it" if is_changed else None
    if tip.version < table.before:
        return f"an older copy is at {table.path}, of version {tip.version} in place of {table.before}"
    return None if table.version is None else _of_version(store, table.path, table.version)


def _of_version(store: TableStore, path: str, version: int) -> str | None:
    rows = restored_rows(store.spark, store.storage, path, version)
    if rows is None:
        return f"Delta no longer restores version {version} of {path}"
    if not rows.missing:
        return None
    return f"version {version} of {path} has {len(rows.missing)} files that are gone, such as {rows.missing[0]}"


def _of_flow(storage: Storage, flow: RewoundFlow) -> str | None:
    """Return what the old checkpoint lacks; it is no longer needed once the new generation has begun."""
    generations = GenerationStore(storage)
    if flow.batch is None or flow.origin is None:
        return None
    if generations.manifest(flow.dataset, flow.flow).find(flow.generation) is not None:
        return None
    missing = missing_for(storage, generations.path(flow.dataset, flow.flow, flow.origin), flow.batch)
    return None if missing is None else f"the checkpoint of flow {flow.flow} no longer has {missing}"
