"""SCD type 2 as a pure function: from the events of keys to the rows of their histories.

A row stands for a run of upserts whose tracked columns are equal, with no delete between them. It
begins at the run's first event, shows the values of its last, and ends at whatever comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from framework.cdc.columns import column, is_orderable
from framework.cdc.events import DELETE, OPERATION, UPSERT
from framework.cdc.moments import FRESH, IS_INNER, KNOWN, POINT, gather_moments, identity, key_columns
from framework.cdc.shown import shown_point

if TYPE_CHECKING:
    from framework.cdc.target import CdcTarget

STARTS = "__sluice_started"
ENDS = "__sluice_ended"
ENDS_BY_DELETE = "__sluice_deleted"
IS_ROW = "__sluice_is_row"
"""The event is the newest of a row."""
IS_LOST = "__sluice_is_lost"
"""No row tells of the event, and it is not remembered yet."""

_TRACKED = "__sluice_tracked"
_FOLLOWS = "__sluice_follows"
_PREVIOUS = "__sluice_previous"
_NEXT = "__sluice_next"


def write_history(events: DataFrame, target: CdcTarget) -> DataFrame:
    """The histories of keys from all of their events that matter.

    Args:
        events: in the shape of `read_events`, with `ORIGIN` and `OLD`; each event any number of times.
        target: the target.

    Returns:
        The moments of `gather_moments`, with `STARTS`, `ENDS` and `ENDS_BY_DELETE` of the row that each
        belongs to, and whether it `IS_ROW` and `IS_LOST`.
    """
    return _judge(_bound(gather_moments(events, target), target), target)


def _ordered(target: CdcTarget) -> WindowSpec:
    """A key's moments in order; those that another at their own point overrides stand apart."""
    apart = [column(IS_INNER)] if target.is_authored else []
    return Window.partitionBy(*key_columns(target), *apart).orderBy(POINT)


def _bound(moments: DataFrame, target: CdcTarget) -> DataFrame:
    """Which events begin a run, which are the newest of one, and what each row's bounds are."""
    ordered = _ordered(target)
    tracked = F.struct(F.lit(0).alias("_"), *(comparable(target, name) for name in target.tracked))
    is_upsert = column(OPERATION) == F.lit(UPSERT)
    seen = F.struct(column(OPERATION).alias("operation"), tracked.alias("tracked"))
    before = moments.withColumns({_TRACKED: tracked, _PREVIOUS: F.lag(seen).over(ordered)})
    previous = column(_PREVIOUS)
    goes_on = (previous.getField("operation") == F.lit(UPSERT)) & (previous.getField("tracked") == column(_TRACKED))
    begins = is_upsert & ~F.coalesce(goes_on, F.expr("false"))
    follows = F.struct(column(OPERATION).alias("operation"), column(POINT).alias("point"), begins.alias("begins"))
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    starts = F.last(F.when(begins, column(POINT)), ignorenulls=True).over(upto)
    linked = before.withColumns({STARTS: starts, _FOLLOWS: follows})
    linked = linked.withColumn(_NEXT, F.lead(_FOLLOWS).over(ordered))
    following = column(_NEXT)
    is_delete = F.coalesce(following.getField("operation") == F.lit(DELETE), F.expr("false"))
    ends = following.isNull() | is_delete | following.getField("begins")
    bounded = linked.withColumns(
        {ENDS: following.getField("point"), ENDS_BY_DELETE: is_delete, IS_ROW: is_upsert & ~column(IS_INNER) & ends}
    )
    return bounded.drop(_TRACKED, _FOLLOWS, _PREVIOUS, _NEXT)


def comparable(target: CdcTarget, name: str) -> Column:
    """A tracked column as something that can be compared: maps by their text."""
    field = target.row_schema[name]
    value = column(name) if is_orderable(field.dataType) else F.to_json(F.struct(column(name)))
    return value.alias(name)


def _judge(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Which events rows are made of, and which would be forgotten if they were not remembered.

    A row that shows no width (a snapshot's literal beside a first event of the same number) is none.
    """
    shows = shown_point(target, column(STARTS)) < shown_point(target, column(ENDS))
    marked = events.withColumn(IS_ROW, column(IS_ROW) & F.coalesce(shows, F.expr("true")))
    is_told_end = F.coalesce(F.lag(IS_ROW).over(_ordered(target)), F.expr("false"))
    told = F.when(column(OPERATION) == F.lit(DELETE), is_told_end).otherwise(column(IS_ROW))
    lost = column(FRESH) & ~told & ~F.array_contains(column(KNOWN), identity(target))
    return marked.withColumn(IS_LOST, lost).drop(FRESH, KNOWN)
