"""Analysis of SQL expressions over one row of a flow's source.

AUTO CDC evaluates an expression again when a batch is replayed, and on batches of any size. So an
expression may only depend on the values of its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.cdc.spark.expression_cache import java_class

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_CATALYST = "org.apache.spark.sql.catalyst"
# Tree patterns of Catalyst, and the dependency of an expression with the pattern, besides its row.
_DEPENDENCIES = {
    "WINDOW_EXPRESSION": "a window function reads other rows",
    "AGGREGATE_EXPRESSION": "an aggregate reads other rows",
    "AGGREGATE": "an aggregate reads other rows",
    "GENERATE": "a generator returns several rows for one",
    "PLAN_EXPRESSION": "a subquery reads other rows",
    "CURRENT_LIKE": "its value depends on the time, the session or the user of the update",
    "VARIABLE_REFERENCE": "a session variable can have a different value in each session",
}
_NOT_DETERMINISTIC = "it is not deterministic, so a retried micro-batch would get different values"
_ROW_NODES = frozenset({"Project", "LocalRelation", "SubqueryAlias"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression:
    """An analysed expression.

    Args:
        data_type: the type of its value.
        is_constant: whether it reads no column.
        dependency: its dependency besides the row; None if it is a function of the row.
    """

    data_type: DataType
    is_constant: bool
    dependency: str | None


def analyse_row_expression(session: SparkSession, schema: StructType, text: str) -> RowExpression:
    """Analyse an expression over rows of a schema.

    The rows have the schema's columns and nothing else: a micro-batch has no metadata columns, and its
    columns have no qualifiers.

    Args:
        session: the session that resolves functions.
        schema: the schema of the rows.
        text: the expression.

    Raises:
        pyspark.errors.AnalysisException: it can't be resolved.
    """
    struct = java_class(f"{_CATALYST}.types.DataTypeUtils").toAttributes(
        java_class("org.apache.spark.sql.types.DataType").fromJson(schema.json())
    )
    no_rows = getattr(java_class("scala.collection.immutable.Nil$"), "MODULE$")
    none = java_class("scala.Option").empty()
    relation = java_class(f"{_CATALYST}.plans.logical.LocalRelation")(struct, no_rows, False, none)  # noqa: FBT003 - a JVM call
    rows = DataFrame(
        java_class("org.apache.spark.sql.classic.Dataset").ofRows(session._jsparkSession, relation), session
    )
    analysed = rows.select(F.expr(text))
    plan = analysed._jdf.queryExecution().analyzed()
    return RowExpression(
        data_type=analysed.schema.fields[0].dataType,
        is_constant=bool(plan.expressions().head().references().isEmpty()),
        dependency=_dependency(plan),
    )


def _dependency(plan: Any) -> str | None:
    """Return the dependency of the only column of an analysed plan, besides its row; None if there is none."""
    patterns = java_class(f"{_CATALYST}.trees.TreePattern")
    for pattern, dependency in _DEPENDENCIES.items():
        if plan.containsPattern(getattr(patterns, pattern)()):
            return dependency
    if not plan.deterministic():
        return _NOT_DETERMINISTIC
    others = [name for name in _node_names(plan) if name not in _ROW_NODES]
    if others or plan.output().size() != 1:
        return f"it adds, drops or reads rows or columns ({', '.join(others) or 'a star'})"
    return None


def _node_names(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for index in range(children.size()):
        yield from _node_names(children.apply(index))
