"""The tables of a gateway that the modules declare now, beside those that are recorded."""

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

    Changes that an update stages without a table among the declared ones have none of its names, keys and columns. So
    have those of a table that is a copy of another name meanwhile. Those that are staged for another copy have another
    form, unless its key, text columns and SCD type are the same. The table is marked as missed.

    Args:
        state: the recorded state; None before the first update.
        gateway: the gateway with the tables of now.
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
            # Changes that were staged for another copy of the table are older than the rows of this one.
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
    """Return whether the snapshot with which a missed table begins replaces its rows, whose columns may have changed.

    Not if the code makes the rows in another way, or if a history would begin again: an operator decides this.

    Args:
        table: what is recorded of the table.
        before: how the rows of its copy were made.
        now: how they are made now.
    """
    if not table.is_missed:
        return False
    error = drift_error(before, now)
    is_altered = error is None or error.condition == "INGESTION_COLUMNS_CHANGED"
    return is_altered and (now.scd_type == 1 or is_replaceable(before, now))


def _each_once(tables: Sequence[IngestedTable], known: Mapping[str, TableState]) -> tuple[IngestedTable, ...]:
    """Return the tables, one that is declared twice with the copy that it had, if it is one of both."""
    found: dict[str, IngestedTable] = {}
    for table in tables:
        before = known.get(table.key)
        if table.key not in found or (before is not None and before.table.target == table.target):
            found[table.key] = table
    return tuple(found.values())


def staged_for_copies(state: GatewayState) -> GatewayState:
    """Return the state in which changes are staged for the recorded rows of the copies, which may be new ones.

    Those of a table with a fault are staged as before. The copies of one table can follow changes of the same key and
    text columns only: if one of them has others now, the other one is missed.
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
    """Return the state of a table whose changes are staged in the form that another copy of it has begun."""
    if form is None or table.staged is None or not table.is_declared:
        return table
    wanted = replace(form, is_history=table.staged.is_history)
    return table if wanted == table.staged else replace(table, staged=wanted, is_missed=True)


def forget_moved(gateways: Sequence[IngestedGateway], store: GatewayStore) -> None:
    """Remove the records of copies that another ingestion makes now, so that the one before does not go on with them.

    A crash before it: the next update does it, and no flow has run with the new record.
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
    """Record of each gateway that the modules do not declare now, such as one that has another name, that it is none.

    Its state stays: the copies that another ingestion does not make are still those of its tables.

    Args:
        names: the declared ones, also those whose databases can't be read now.
        store: the states.
    """
    for state in store.read_all():
        if state.is_declared and state.gateway.name not in names:
            store.write(replace(state, is_declared=False))


def _staged(
    table: IngestedTable, forms: Mapping[tuple[str, QualifiedName], StagedForm], before: StagedForm | None = None
) -> StagedForm | None:
    """Return how changes are staged now: for the rows that the copy has, also if they have to be replaced."""
    if table.definition is None:  # it can't be copied now
        return before
    return forms.get((table.source, table.target), table.definition.staged)


def _forms(state: GatewayState) -> dict[tuple[str, QualifiedName], StagedForm]:
    """Return how changes are staged that the recorded rows of copies follow, by source table and copy."""
    return {(each.definition.source, each.target): each.definition.staged for each in state.copies}


def _in_another_copy(generations: tuple[SnapshotGeneration, ...], checkpoint: int) -> tuple[SnapshotGeneration, ...]:
    """Return the generations of a table whose copy has another name: all rows are read into it.

    The other copy has no rows yet, or those of the time when it had the name before. So it begins a checkpoint of its
    own, and needs no empty table; the changes before a rebuild are still passed over.
    """
    whole = [
        replace(each, where=None, is_rebuild=False, skips_earlier=each.skips_earlier or each.is_rebuild)
        for each in generations
    ]
    if whole:
        whole[-1] = replace(whole[-1], checkpoint=checkpoint)
    return tuple(whole)
