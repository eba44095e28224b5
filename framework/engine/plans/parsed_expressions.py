"""Expressions parsed by Spark: detection of parts that need more than one row."""

from __future__ import annotations

from typing import Any

from framework.engine.jvm.java import java_class, scala_items, scala_object

_CATALYST = "org.apache.spark.sql.catalyst"
_GROUPS = {"agg_funcs": "an aggregate", "window_funcs": "a window function", "generator_funcs": "a generator"}
_NODES = {
    "AggregateExpression": "an aggregate",
    "WindowExpression": "a window function",
    "UnresolvedWindowExpression": "a window function",
    "Exists": "a subquery",
    "ScalarSubquery": "a subquery",
    "ListQuery": "a subquery",
    "UnresolvedStar": "a star",
}


def part_beyond_one_row(text: str) -> str | None:
    """Return the first part of an expression that needs more than one row; None if there is none.

    Raises:
        pyspark.errors.ParseException: the text is not an expression.
    """
    return _beyond_one_row(scala_object(f"{_CATALYST}.parser.CatalystSqlParser").parseExpression(text))


def _beyond_one_row(expression: Any) -> str | None:
    kind = expression.getClass().getSimpleName()
    found = _NODES.get(kind)
    if kind == "UnresolvedFunction":
        found = _group_of(expression.nameParts().last())
    if found is not None:
        return f"{found} ({expression.sql()})"
    return next(filter(None, map(_beyond_one_row, scala_items(expression.children()))), None)


def _group_of(function: str) -> str | None:
    """Return the kind of a built-in function that needs more than one row; None for any other function."""
    identifier = java_class(f"{_CATALYST}.FunctionIdentifier")(function)
    info = java_class(f"{_CATALYST}.analysis.FunctionRegistry").builtin().lookupFunction(identifier)
    return _GROUPS.get(info.get().getGroup()) if info.isDefined() else None
