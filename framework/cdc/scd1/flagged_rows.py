"""SCD type 1 with soft deletes: a delete flags its row, which keeps its values.

A row is the newest upsert of its key, even if a delete or a truncate undoes it; the flag is true if one does. Row and
flag are functions of the set of events, so they do not depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.cdc.delta.target_write import CHANGE, FLAGGED, INSERTED, SOURCE, TARGET, UPDATED, same_key
from framework.cdc.events.normalize import ORDER
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import is_undone, point_of, row_order
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.scd1.latest_events import DELETED, IS_DELETED, flag_of, hidden_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.model.target_plan import TargetPlan

_OLD_ORDER = "__sluice_old_order"


def is_flagged(target: TargetPlan, *, of: str | None = None) -> Column:
    """Return whether a row of a target is flagged as deleted; a manually inserted row without a flag is not."""
    return F.expr("false") if target.flag is None else F.coalesce(column(target.flag, of=of), F.expr("false"))


def decide_rows(
    latest: DataFrame,
    rows: DataFrame,
    target: CdcTarget,
    *,
    how: str,
    carried: Sequence[str] = (),
    floor: Column | None = None,
) -> DataFrame:
    """Decide the change of each row that latest events or a truncate affect; no row is removed.

    Args:
        latest: the latest events, one row per key.
        rows: rows of the target.
        target: the target, whose rows have one author each.
        how: the type of the join of latest events with rows.
        carried: further columns of either side that the result keeps.
        floor: the literal of a truncate in the batch.

    Returns:
        `CHANGE`, null where nothing changes; the carried columns; the columns of the target's table.
    """
    known = rows.withColumn(_OLD_ORDER, row_order(column(HIDDEN_COLUMN), target.hidden_type)).alias(TARGET)
    # The latest events are sorted by key, so the merge join of a left join only sorts the rows.
    joined = latest.alias(SOURCE).join(known.hint("merge") if how == "left" else known, same_key(target), how)
    upsert, old = column(ORDER, of=SOURCE), column(_OLD_ORDER, of=TARGET)
    is_newer = F.coalesce(upsert > old, upsert.isNotNull())
    undone = is_undone(
        point_of(old, target.order_type),
        deleted=column(DELETED, of=SOURCE),
        floor=floor,
        deletes_first=target.deletes_first,
    )
    was = is_flagged(target, of=TARGET)
    change = F.when(is_newer, F.when(old.isNull(), F.lit(INSERTED)).otherwise(F.lit(UPDATED))).when(
        old.isNotNull() & undone & ~was, F.lit(FLAGGED)
    )
    keys = {key: F.coalesce(column(key, of=SOURCE), column(key, of=TARGET)) for key in target.keys}
    # A manually inserted row has no hidden column, and gets none.
    new = _values(target) | flag_of(target, column(IS_DELETED, of=SOURCE))
    kept = {name: column(name, of=TARGET) for name in new} | flag_of(target, was | undone)
    row = keys | {name: F.when(is_newer, new[name]).otherwise(kept[name]) for name in new}
    names = target.table_schema.fieldNames()
    return joined.select(change.alias(CHANGE), *map(column, carried), *(row[name].alias(name) for name in names))


def new_rows(latest: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the rows of keys that have no row yet."""
    row = {key: column(key, of=SOURCE) for key in target.keys} | _values(target)
    row |= flag_of(target, column(IS_DELETED, of=SOURCE))
    upserts = latest.alias(SOURCE).where(column(ORDER, of=SOURCE).isNotNull())
    return upserts.select(*(row[name].alias(name) for name in target.table_schema.fieldNames()))


def _values(target: CdcTarget) -> dict[str, Column]:
    """Return the values of an upsert, and the hidden column of its row."""
    values = {field.name: column(field.name, of=SOURCE) for field in target.value_fields}
    return values | {HIDDEN_COLUMN: hidden_column(target, column(ORDER, of=SOURCE))}
