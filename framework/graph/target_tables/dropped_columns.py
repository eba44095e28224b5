"""Expectations over columns that a query drops or renames in its last step.

A filter on top of the query still finds such a column, because Spark adds missing attributes to the projection below.
Databricks filters by expectations in the same way. Counting violations needs the conditions as columns of that
projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from framework.cdc.model.columns import column
from framework.declare.specs import ExpectationSpec
from framework.engine.plans.plans import analysed_plan, of_plan
from framework.graph.queries.calls import SPARK_ERRORS

_MET = "__sluice_met"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckedRows:
    """The rows of a query with all columns that its expectations need.

    Args:
        frame: the rows, with the columns `added`.
        expectations: the expectations, over columns of `frame`.
        added: the columns that the query does not have; to drop after the checks.
    """

    frame: DataFrame
    expectations: tuple[ExpectationSpec, ...]
    added: tuple[str, ...] = ()

    def of_query(self, checked: DataFrame) -> DataFrame:
        """Return checked rows with only the columns of the query."""
        return checked.drop(*self.added) if self.added else checked


def finds_dropped(frame: DataFrame, condition: str) -> bool:
    """Whether a condition that can't be resolved on a query's columns refers to columns that the query has dropped."""
    return not _fits(frame, condition) and _is_filter(frame, condition)


def with_dropped(frame: DataFrame, expectations: Sequence[ExpectationSpec]) -> CheckedRows:
    """Return the rows of a query with a boolean column for each condition over dropped columns.

    Args:
        frame: the query.
        expectations: valid expectations.
    """
    conditions = [each for each in expectations if each.unique is None]
    if _fits(frame, *(each.condition for each in conditions)):
        return CheckedRows(frame=frame, expectations=(*expectations,))
    lacking = [each for each in conditions if not _fits(frame, each.condition)]
    names = {each.name: f"{_MET}_{number}" for number, each in enumerate(lacking)}
    added = [sql.expr(each.condition).alias(names[each.name]) for each in lacking]
    own = [column(name) for name in frame.columns]
    return CheckedRows(
        frame=_before_dropping(frame, (each.condition for each in lacking)).select(*own, *added),
        expectations=tuple(
            replace(each, condition=names[each.name]) if each.name in names else each for each in expectations
        ),
        added=(*names.values(),),
    )


def _before_dropping(frame: DataFrame, conditions: Iterable[str]) -> DataFrame:
    """Return the rows of a query with the columns that conditions need from below its last step."""
    filtered = frame.where(reduce(and_, map(sql.expr, conditions)))
    # For a filter on such columns, Spark plans: the query's columns <- the filter <- the query with further columns.
    return of_plan(frame.sparkSession, analysed_plan(filtered).child().child())


def _fits(frame: DataFrame, *conditions: str) -> bool:
    try:
        frame.select(*map(sql.expr, conditions))
    except SPARK_ERRORS:
        return False
    return True


def _is_filter(frame: DataFrame, condition: str) -> bool:
    try:
        frame.where(sql.expr(condition))
    except SPARK_ERRORS:
        return False
    return True
