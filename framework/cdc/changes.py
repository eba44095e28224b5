"""What the facts of a batch do to the rows of an SCD type 1 target: pure expressions for a merge."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.cdc.authorship import authors_to_keep, kept_authors
from framework.cdc.columns import column, struct_of
from framework.cdc.events import ORDER
from framework.cdc.expressions import built_once
from framework.cdc.facts import AUTHORS, DELETED
from framework.cdc.leaves import assemble
from framework.cdc.order import is_dead, point_of, row_order, row_point
from framework.cdc.reserved import AUTHORS as KEPT_AUTHORS
from framework.cdc.reserved import HIDDEN_COLUMN
from framework.cdc.target import CdcTarget

SOURCE = "__sluice_source"
TARGET = "__sluice_target"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changes:
    """The clauses of a merge of `SOURCE` (facts) into `TARGET`.

    Args:
        delete: a matched row goes.
        update: a matched row that does not go becomes `updated`.
        insert: a key without a row gets `inserted`.
        sweep: a row that no fact is about goes, for a truncate undoes it.
        trim: a row that no fact is about becomes `trimmed`, for a truncate undoes parts of it.
    """

    delete: Column
    update: Column
    updated: Mapping[str, Column]
    insert: Column
    inserted: Mapping[str, Column]
    sweep: Column | None = None
    trim: Column | None = None
    trimmed: Mapping[str, Column] | None = None


def changes_to(target: CdcTarget, *, floor: Column | None) -> Changes:
    """What facts do to rows: a delete removes what is up to its point, an upsert replaces what is older.

    Applying the same facts again changes nothing, for each clause asks for something newer.

    Args:
        target: the target.
        floor: the literal of a truncate in the batch, by which rows without facts go too.
    """
    return _changes_without_floor(target) if floor is None else _changes(target, floor)


@built_once
def _changes_without_floor(target: CdcTarget) -> Changes:
    return _changes(target, None)


def _changes(target: CdcTarget, floor: Column | None) -> Changes:
    return _authored_changes(target, floor) if target.is_authored else _whole_changes(target, floor)


def _whole_changes(target: CdcTarget, floor: Column | None) -> Changes:
    upsert, hidden = column(ORDER, of=SOURCE), column(HIDDEN_COLUMN, of=TARGET)
    point = row_point(hidden, target.hidden_type)
    row = {field.name: column(field.name, of=SOURCE) for field in target.value_fields}
    row[HIDDEN_COLUMN] = _hidden(target, upsert, None)
    keys = {key: column(key, of=SOURCE) for key in target.keys}
    return Changes(
        delete=upsert.isNull() & is_dead(point, deleted=column(DELETED, of=SOURCE), floor=floor),
        update=upsert > row_order(hidden, target.hidden_type),
        updated=row,
        insert=upsert.isNotNull(),
        inserted=keys | row,
        sweep=None if floor is None else point < floor,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """Per leaf, its value and the order of its author (null: nobody)."""

    values: Sequence[Column]
    authors: Sequence[Column]


def _authored_changes(target: CdcTarget, floor: Column | None) -> Changes:
    upsert, hidden = column(ORDER, of=SOURCE), column(HIDDEN_COLUMN, of=TARGET)
    deleted = column(DELETED, of=SOURCE)
    dead = is_dead(row_point(hidden, target.hidden_type), deleted=deleted, floor=floor)
    theirs = F.when(~dead, row_order(hidden, target.hidden_type))
    kept, lost = _surviving(target, deleted=deleted, floor=floor)
    come = _Parts(
        values=[leaf.of(SOURCE) for leaf in target.leaves],
        authors=[column(AUTHORS, of=SOURCE).getField(leaf.name) for leaf in target.leaves],
    )
    takes = [
        new.isNotNull() & (old.isNull() | (new > old)) for new, old in zip(come.authors, kept.authors, strict=True)
    ]
    merged = _Parts(values=_choose(takes, come.values, kept.values), authors=_choose(takes, come.authors, kept.authors))
    is_newer = F.coalesce(upsert > theirs, upsert.isNotNull())
    keys = {key: column(key, of=SOURCE) for key in target.keys}
    sweep, trim, trimmed = _authored_floor(target, floor)
    return Changes(
        delete=upsert.isNull() & dead,
        update=reduce(operator.or_, [is_newer, *takes, lost]),
        updated=_row(target, merged, F.greatest(upsert, theirs)),
        insert=upsert.isNotNull(),
        inserted=keys | _row(target, come, upsert),
        sweep=sweep,
        trim=trim,
        trimmed=trimmed,
    )


def _authored_floor(
    target: CdcTarget, floor: Column | None
) -> tuple[Column | None, Column | None, Mapping[str, Column] | None]:
    """What a truncate does to rows that no fact is about: older ones go, older leaves of newer ones too."""
    if floor is None:
        return None, None, None
    hidden = column(HIDDEN_COLUMN, of=TARGET)
    kept, lost = _surviving(target, deleted=None, floor=floor)
    return (
        row_point(hidden, target.hidden_type) < floor,
        lost,
        _row(target, kept, row_order(hidden, target.hidden_type)),
    )


def _surviving(target: CdcTarget, *, deleted: Column | None, floor: Column | None) -> tuple[_Parts, Column]:
    """The leaves of a target's row that are not undone, and whether any is."""
    hidden = column(HIDDEN_COLUMN, of=TARGET)
    values = [leaf.of(TARGET) for leaf in target.leaves]
    authors = kept_authors(hidden, target.hidden_type, target.leaves, values)
    gone = [is_dead(point_of(author, target.order_type), deleted=deleted, floor=floor) for author in authors]
    parts = _Parts(
        values=[F.when(~dead, value) for dead, value in zip(gone, values, strict=True)],
        authors=[F.when(~dead, author) for dead, author in zip(gone, authors, strict=True)],
    )
    return parts, reduce(operator.or_, gone, F.expr("false"))


def _choose(takes: Sequence[Column], come: Sequence[Column], kept: Sequence[Column]) -> list[Column]:
    return [F.when(take, new).otherwise(old) for take, new, old in zip(takes, come, kept, strict=True)]


def _row(target: CdcTarget, parts: _Parts, newest: Column) -> dict[str, Column]:
    """The columns of a row with these leaves and this newest event."""
    row = {field.name: assemble(field, target.leaves, parts.values) for field in target.value_fields}
    authors_type = struct_of(target.hidden_type, KEPT_AUTHORS)
    authors = authors_to_keep(target.leaves, parts.values, parts.authors, newest, authors_type)
    return row | {HIDDEN_COLUMN: _hidden(target, newest, authors)}


def _hidden(target: CdcTarget, order: Column, authors: Column | None) -> Column:
    """The hidden column, its fields in the table's order."""
    made = {name: order.getField(name) for name in target.order_type.names}
    if authors is not None:
        made[KEPT_AUTHORS] = authors
    fields = target.hidden_type.fields
    return F.struct(*(made.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in fields))
