"""SCD type 2 as a pure function: from the events of keys to the rows of their histories.

A row represents a run of upserts with equal tracked columns and no delete between them. It begins at
the first event of the run, holds the values of the last event, and ends at the next event after the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from framework.cdc.events.normalize import DELETE, OPERATION, UPSERT
from framework.cdc.model.columns import column
from framework.cdc.model.equality import comparable
from framework.cdc.scd2.displayed_sequence import displayed_point
from framework.cdc.scd2.timeline import FRESH, IS_INNER, KNOWN, OLD_ROWS, POINT, build_timeline, key_columns
from framework.engine.jvm.java import built_once

if TYPE_CHECKING:
    from framework.cdc.analysis.target_schema import CdcTarget

STARTS = "__sluice_started"
ENDS = "__sluice_ended"
ENDS_BY_DELETE = "__sluice_deleted"
IS_ROW = "__sluice_is_row"
"""The entry is the newest event of a row."""
IS_UNRECORDED = "__sluice_is_unrecorded"
"""No row represents the event, and the auxiliary table does not record it yet."""

IS_DUPLICATE = "__sluice_is_duplicate"
"""Several rows of the target belong to the entry; it represents one, and the others were inserted manually."""

_PREVIOUS = "__sluice_previous"
_FOLLOWING = "__sluice_following"
_PASSING = (_PREVIOUS, _FOLLOWING, FRESH, KNOWN, OLD_ROWS)


def compute_intervals(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Compute the histories of keys from all of their relevant events.

    Args:
        events: in the shape of `read_events`, with `ORIGIN` and `OLD`; an event may occur several times.
        target: the target.

    Returns:
        The timeline entries of `build_timeline`, with `STARTS`, `ENDS` and `ENDS_BY_DELETE` of the row that each
        entry belongs to, and the flags `IS_ROW`, `IS_UNRECORDED` and `IS_DUPLICATE`.
    """
    entries = build_timeline(events, target).select("*", _previous(target))
    return entries.select("*", *_links(target)).select("*", *_bounds(target)).drop(*_PASSING)


@built_once
def _ordered(target: CdcTarget) -> WindowSpec:
    """Return the window over a key's timeline; entries overridden at their own point have a separate partition."""
    apart = [column(IS_INNER)] if target.is_authored else []
    return Window.partitionBy(*key_columns(target), *apart).orderBy(POINT)


@built_once
def _tracked(target: CdcTarget) -> Column:
    values = (comparable(column(name), target.row_schema[name].dataType).alias(name) for name in target.tracked)
    return F.struct(F.lit(0).alias(IS_ROW), *values)


@built_once
def _previous(target: CdcTarget) -> Column:
    """Return the columns that an entry needs of the previous entry."""
    seen = F.struct(
        column(OPERATION).alias("operation"), _tracked(target).alias("tracked"), column(OLD_ROWS).alias("old_rows")
    )
    return F.lag(seen).over(_ordered(target)).alias(_PREVIOUS)


def _comes_after_upsert() -> Column:
    return F.coalesce(column(_PREVIOUS).getField("operation") == F.lit(UPSERT), F.expr("false"))


@built_once
def _links(target: CdcTarget) -> list[Column]:
    """Return the start of an entry's run, and the columns that the entry needs of the next entry."""
    ordered, point, is_upsert = _ordered(target), column(POINT), column(OPERATION) == F.lit(UPSERT)
    goes_on = _comes_after_upsert() & (column(_PREVIOUS).getField("tracked") == _tracked(target))
    begins = is_upsert & ~goes_on
    upto = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    follows = F.struct(column(OPERATION).alias("operation"), point.alias("point"), begins.alias("begins"))
    return [
        F.last(F.when(begins, point), ignorenulls=True).over(upto).alias(STARTS),
        F.lead(follows).over(ordered).alias(_FOLLOWING),
    ]


@built_once
def _bounds(target: CdcTarget) -> list[Column]:
    """Return the bounds of each row, which entries make rows, and which events must be recorded.

    A run with an empty displayed interval makes no row (a once flow's literal equal to the first event's sequence).
    """
    following, stands = column(_FOLLOWING), ~column(IS_INNER)
    is_upsert, end = column(OPERATION) == F.lit(UPSERT), following.getField("point")
    is_ended = F.coalesce(following.getField("operation") == F.lit(DELETE), F.expr("false"))
    is_closed = F.coalesce(following.getField("operation") != F.lit(UPSERT), F.expr("false"))
    ends = following.isNull() | is_closed | following.getField("begins")
    is_row = is_upsert & ends & stands & _has_width(target, end)
    # For a delete, `STARTS` is the start of the last run before it, which it ends.
    is_represented_end = _comes_after_upsert() & stands & _has_width(target, column(POINT))
    is_represented = F.when(is_upsert, is_row).otherwise(is_represented_end)
    return [
        end.alias(ENDS),
        is_ended.alias(ENDS_BY_DELETE),
        is_row.alias(IS_ROW),
        (column(FRESH) & ~is_represented & ~column(KNOWN)).alias(IS_UNRECORDED),
        (column(OLD_ROWS) - _old_rows_before(target) > F.lit(1)).alias(IS_DUPLICATE),
    ]


def _old_rows_before(target: CdcTarget) -> Column:
    none = F.lit(0)
    return none if target.is_authored else F.coalesce(column(_PREVIOUS).getField("old_rows"), none)


def _has_width(target: CdcTarget, end: Column) -> Column:
    """Return whether the displayed interval from `STARTS` to `end` is not empty; a null `end` is an open interval."""
    return F.coalesce(displayed_point(target, column(STARTS)) < displayed_point(target, end), F.expr("true"))
