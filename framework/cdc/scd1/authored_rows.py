"""SCD type 1 with authors: the effect of the latest events on the rows of a target, leaf by leaf.

If deleted rows stay, a delete flags a row and clears no leaf.

Each step names the columns that the next step uses several times, so the size of a plan grows with the number of leaves
and not with the size of each leaf's expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.delta.target_write import CHANGE, FLAGGED, INSERTED, REMOVED, SOURCE, TARGET, UPDATED, same_key
from framework.cdc.events.leaf_columns import aliased, assembled, author_names, flat_row, numbered, value_names
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.authorship import authors_to_keep
from framework.cdc.model.columns import column, struct_of
from framework.cdc.model.event_order import is_undone, point_of, row_order
from framework.cdc.model.reserved_names import AUTHORS, HIDDEN_COLUMN
from framework.cdc.scd1.flagged_rows import is_flagged
from framework.cdc.scd1.latest_events import DELETED, IS_DELETED, flag_of, hidden_column
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget

_OLD = "__sluice_old"
_OLD_ORDER = "__sluice_old_order"
_WAS_FLAGGED = "__sluice_was_flagged"
_IS_UNDONE = "__sluice_is_undone"
_IS_LEAF_UNDONE = "__sluice_is_leaf_undone"
_IS_NEWER = "__sluice_is_newer"
_NEWEST = "__sluice_newest"


def decide_rows(
    latest: DataFrame,
    rows: DataFrame,
    target: CdcTarget,
    *,
    how: str,
    carried: Sequence[str] = (),
    floor: Column | None = None,
) -> DataFrame:
    """Decide the change of each row that latest events or a truncate affect.

    Args:
        latest: the latest events without undone values, one row per key.
        rows: rows of the target.
        target: the target.
        how: the type of the join of latest events with rows.
        carried: further columns of either side that the result keeps.
        floor: the literal of a truncate in the batch.

    Returns:
        `CHANGE`, null where nothing changes; the carried columns; the columns of the target's table.
    """
    steps = _steps_without_floor(target) if floor is None else _steps(target, floor)
    row_columns = [name for name in carried if name in rows.columns]
    flat = rows.select(*map(column, (*target.keys, *row_columns)), *steps.flat).alias(TARGET)
    keys = [F.coalesce(column(key, of=SOURCE), column(key, of=TARGET)).alias(key) for key in target.keys]
    # The latest events are sorted by key, so the merge join of a left join only sorts the rows.
    joined = latest.alias(SOURCE).join(flat.hint("merge") if how == "left" else flat, same_key(target), how)
    decided = (
        joined.select(*keys, *map(column, carried), *steps.joined).select("*", *steps.undone).select("*", *steps.newer)
    )
    kept = map(column, (*target.keys, *carried))
    return decided.select(*kept, *steps.becomes).select(CHANGE, *map(column, carried), *_row(target))


def new_rows(latest: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    named = {_NEWEST: column(ORDER)} | flag_of(target, column(IS_DELETED))
    return latest.where(column(ORDER).isNotNull()).withColumns(named).select(*_row(target))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Steps:
    """The columns that each step adds for the next step.

    Args:
        flat: the order of a target row, and the value and author of each of its leaves.
        joined: the columns of latest events and of their row, and whether the row is undone.
        undone: whether each leaf of the row is undone.
        newer: whether each leaf of the latest events is newer than the row's leaf.
        becomes: the leaves of the resulting row, and its change.
    """

    flat: Sequence[Column]
    joined: Sequence[Column]
    undone: Sequence[Column]
    newer: Sequence[Column]
    becomes: Sequence[Column]


@built_once
def _steps_without_floor(target: CdcTarget) -> _Steps:
    return _steps(target, None)


def _steps(target: CdcTarget, floor: Column | None) -> _Steps:
    values, authors = value_names(target), author_names(target)
    old_order, deleted = column(_OLD_ORDER), column(DELETED)
    old_values, old_authors = [f"{_OLD}{name}" for name in values], [f"{_OLD}{name}" for name in authors]
    newer, undone = numbered(_IS_NEWER, target), numbered(_IS_LEAF_UNDONE, target)
    flat = [row_order(column(HIDDEN_COLUMN), target.hidden_type), *flat_row(target)]
    flags = [] if target.flag is None else [is_flagged(target).alias(_WAS_FLAGGED)]
    pairs = zip(authors, old_authors, undone, strict=True)
    return _Steps(
        flat=[*aliased([_OLD_ORDER, *old_values, *old_authors], flat), *flags],
        joined=[
            *map(column, (ORDER, DELETED, _OLD_ORDER, *values, *authors, *old_values, *old_authors)),
            _is_undone(target, old_order, deleted, floor).alias(_IS_UNDONE),
            *map(column, () if target.flag is None else (IS_DELETED, _WAS_FLAGGED)),
        ],
        undone=aliased(undone, [_is_leaf_undone(target, column(author), deleted, floor) for author in old_authors]),
        newer=[
            *aliased(newer, [_is_newer(column(new), column(old), column(lost)) for new, old, lost in pairs]),
            F.greatest(column(ORDER), _surviving_order(target)).alias(_NEWEST),
        ],
        becomes=[
            _change_of(target, map(column, newer), map(column, undone)).alias(CHANGE),
            column(_NEWEST),
            *(value.alias(name) for name, value in flag_of(target, _flag()).items()),
            *aliased(values, _chosen(newer, undone, values, old_values)),
            *aliased(authors, _chosen(newer, undone, authors, old_authors)),
        ],
    )


def _is_undone(target: CdcTarget, author: Column, deleted: Column, floor: Column | None) -> Column:
    point = point_of(author, target.order_type)
    return is_undone(point, deleted=deleted, floor=floor, deletes_first=target.deletes_first)


def _is_leaf_undone(target: CdcTarget, author: Column, deleted: Column, floor: Column | None) -> Column:
    return F.expr("false") if target.flag is not None else _is_undone(target, author, deleted, floor)


def _flag() -> Column:
    """Return whether a row is deleted: its newest upsert is undone."""
    is_newer = F.coalesce(column(ORDER) > column(_OLD_ORDER), column(ORDER).isNotNull())
    return F.when(is_newer, column(IS_DELETED)).otherwise(column(_WAS_FLAGGED) | column(_IS_UNDONE))


def _is_newer(new: Column, old: Column, is_cleared: Column) -> Column:
    return new.isNotNull() & (old.isNull() | is_cleared | (new > old))


def _surviving_order(target: CdcTarget) -> Column:
    """Return the order of the row's newest event; null if there is no row, or it is undone and removed."""
    return F.when(~column(_IS_UNDONE), column(_OLD_ORDER)) if target.flag is None else column(_OLD_ORDER)


def _change_of(target: CdcTarget, newer: Iterable[Column], undone: Iterable[Column]) -> Column:
    """Return the change of a row: an undone row without a new upsert is removed, newer or undone parts update it."""
    upsert, old = column(ORDER), column(_OLD_ORDER)
    is_newer = F.coalesce(upsert > _surviving_order(target), upsert.isNotNull())
    is_updated = F.greatest(is_newer, *newer, *undone)
    change = F.when(old.isNull(), F.when(upsert.isNotNull(), F.lit(INSERTED)))
    if target.flag is None:
        return change.when(upsert.isNull() & column(_IS_UNDONE), F.lit(REMOVED)).when(is_updated, F.lit(UPDATED))
    is_flagged_now = column(_IS_UNDONE) & ~column(_WAS_FLAGGED)
    return change.when(is_updated, F.lit(UPDATED)).when(is_flagged_now, F.lit(FLAGGED))


def _chosen(newer: Sequence[str], undone: Sequence[str], new: Sequence[str], old: Sequence[str]) -> list[Column]:
    """Return, per leaf, the new value, or else the value that the row keeps."""
    return [
        F.when(column(taken), column(value)).when(~column(lost), column(kept))
        for taken, lost, value, kept in zip(newer, undone, new, old, strict=True)
    ]


@built_once
def _row(target: CdcTarget) -> list[Column]:
    """Return the columns of a row from its keys, the flat columns of its leaves, and the order of its newest event."""
    newest, values = column(_NEWEST), [column(name) for name in value_names(target)]
    authors = [column(name) for name in author_names(target)]
    kept = authors_to_keep(target.leaves, values, authors, newest, struct_of(target.hidden_type, AUTHORS))
    row = assembled(target, values) | {HIDDEN_COLUMN: hidden_column(target, newest, kept)}
    return [row.get(name, column(name)).alias(name) for name in target.table_schema.fieldNames()]
