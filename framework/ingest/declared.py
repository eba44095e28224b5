"""Merges the tables that the pipeline code declares into the recorded state of a gateway."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from framework.declare.copy_definition import CopyDefinition, StagedForm
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.names import QualifiedName
from framework.ingest.drift import drift_error, is_replaceable
from framework.ingest.state import GatewayState, GatewayStore, SnapshotGeneration, TableState


def refreshed(
    state: GatewayState | None,
    gateway: IngestedGateway,
    *,
    next_checkpoint: Callable[[IngestedTable], int] = lambda _: 1,
) -> GatewayState:
    """Return the state with the tables that are declared now.

    A table is marked as missed if changes may have been staged in a form that does not fit its copy: changes lack the
    names, keys and columns of the table while it is not declared, and while its copy has another name. Changes that are
    staged for another copy have another form, unless the key, the text columns and the SCD type are the same.

    Args:
        state: the recorded state; None before the first update.
        gateway: the gateway with its present tables.
        next_checkpoint: returns the number of the next checkpoint generation of a table's snapshot flow.
    """
    base = state or GatewayState(gateway=gateway)
    forms = _forms(base)
    known = {} if state is None else {each.table.key: each for each in state.tables}
    copied = {(each.source, each.identity) for each in gateway.tables if each.identity}
    staged_before = {each.table.source for each in base.tables}
    tables = []
    for table in _each_once(gateway.tables, known):
        before = known.pop(table.key, None)
        declared = replace(table, definition=None)
        if before is None:
            # Changes that were staged for another copy of the table are older than the rows of this copy.
            is_missed = table.source in staged_before
            tables.append(TableState(table=declared, staged=_staged(table, forms), is_missed=is_missed))
            continue
        was_staged = before.staged or forms.get((before.table.source, before.table.target))
        staged = _staged(table, forms, was_staged)
        if before.table.target != table.target:
            before = replace(before, generations=_in_another_copy(before.generations, next_checkpoint(table)))
        is_renamed = any(source != table.source and identity == before.identity for source, identity in copied)
        is_missed = before.is_missed or (not table.identity and is_renamed)
        is_missed = is_missed or (was_staged is not None and staged != was_staged)
        known_now = replace(before, table=declared, is_declared=True, is_missed=is_missed, staged=staged)
        tables.append(replace(known_now, named_continuity=table.named_continuity))
    left = (replace(each, is_declared=False, is_missed=True) for each in known.values())
    return replace(base, gateway=gateway, tables=(*tables, *left), is_declared=True)


def reads_altered(table: TableState, before: CopyDefinition, now: CopyDefinition) -> bool:
    """Return whether the first snapshot of a missed table may replace its rows although columns may have changed.

    It may not if the change comes from the code, or if a history would begin again: an operator decides these cases.

    Args:
        table: the recorded state of the table.
        before: how the rows of its copy were made.
        now: how they are made now.
    """
    if not table.is_missed:
        return False
    error = drift_error(before, now)
    is_altered = error is None or error.condition == "INGESTION_COLUMNS_CHANGED"
    return is_altered and (now.scd_type == 1 or is_replaceable(before, now))


def _each_once(tables: Sequence[IngestedTable], known: Mapping[str, TableState]) -> tuple[IngestedTable, ...]:
    """Return each table once; of a table that is declared twice, prefer the recorded copy if it is one of the two."""
    found: dict[str, IngestedTable] = {}
    for table in tables:
        before = known.get(table.key)
        if table.key not in found or (before is not None and before.table.target == table.target):
            found[table.key] = table
    return tuple(found.values())


def staged_for_copies(state: GatewayState) -> GatewayState:
    """Return the state in which changes are staged in the form of the recorded rows of the copies.

    Changes of a table with an error are staged as before. All copies of a table follow the same staged changes, so they
    need the same key and text columns: if one copy begins with other columns, the other copy is missed.
    """
    forms = _forms(state)
    found = [
        replace(each, staged=forms.get((each.table.source, each.table.target), each.staged))
        if each.is_declared and each.table.identity
        else each
        for each in state.tables
    ]
    new = {each.table.source: each.staged for each, before in zip(found, state.tables, strict=True) if each != before}
    return replace(state, tables=tuple(_as_staged(each, new.get(each.table.source)) for each in found))


def _as_staged(table: TableState, form: StagedForm | None) -> TableState:
    """Return the state of a table whose changes are staged in the new form of another copy of the same table."""
    if form is None or table.staged is None or not table.is_declared:
        return table
    wanted = replace(form, is_history=table.staged.is_history)
    return table if wanted == table.staged else replace(table, staged=wanted, is_missed=True)


def forget_moved(gateways: Sequence[IngestedGateway], store: GatewayStore) -> None:
    """Remove the records of copies that another ingestion makes now, so that the former ingestion does not resume them.

    After a crash before this step the next update does it; no flow has run with the new record.
    """
    declared = {gateway.name: {each.target for each in gateway.tables} for gateway in gateways}
    states = store.read_all()
    taken = {
        each.target for state in states for each in state.copies if each.target in declared.get(state.gateway.name, ())
    }
    for state in states:
        moved = taken - declared.get(state.gateway.name, set())
        kept = tuple(each for each in state.copies if each.target not in moved)
        if kept != state.copies:
            store.write(replace(state, copies=kept))


def record_undeclared(names: Collection[str], store: GatewayStore) -> None:
    """Record each gateway that the pipeline code no longer declares, for example after a rename, as undeclared.

    Its state is kept: copies that no other ingestion makes still belong to its tables.

    Args:
        names: the declared gateways, including gateways whose databases can't be read now.
        store: the states.
    """
    for state in store.read_all():
        if state.is_declared and state.gateway.name not in names:
            store.write(replace(state, is_declared=False))


def _staged(
    table: IngestedTable, forms: Mapping[tuple[str, QualifiedName], StagedForm], before: StagedForm | None = None
) -> StagedForm | None:
    """Return how changes are staged now: in the form of the present rows of the copy, even if they will be replaced."""
    if table.definition is None:  # it can't be copied now
        return before
    return forms.get((table.source, table.target), table.definition.staged)


def _forms(state: GatewayState) -> dict[tuple[str, QualifiedName], StagedForm]:
    """Return the form of staged changes that fits the recorded rows of each copy, by source table and copy."""
    return {(each.definition.source, each.target): each.definition.staged for each in state.copies}


def _in_another_copy(generations: tuple[SnapshotGeneration, ...], checkpoint: int) -> tuple[SnapshotGeneration, ...]:
    """Return the generations of a table whose copy was renamed, so that all rows are read into the new copy.

    The new copy has no rows, or rows from an earlier time under this name. So it begins a checkpoint of its own and
    needs no empty table; changes before a rebuild are still skipped.
    """
    whole = [
        replace(each, where=None, is_rebuild=False, skips_earlier=each.skips_earlier or each.is_rebuild)
        for each in generations
    ]
    if whole:
        whole[-1] = replace(whole[-1], checkpoint=checkpoint)
    return tuple(whole)
