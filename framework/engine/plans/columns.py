"""Columns as equivalent SQL text, so that specs can hold them.

PySpark's own `Column` text loses names with spaces, timestamps and casts to structs. This module walks the
column's nodes instead and refuses, with a reason, columns that SQL text cannot express.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONSTANTS = frozenset(
    {"null", "true", "false", "not", "case", "when", "interval", "exists", "cast", "struct"}
    | {"current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user", "session_user"}
)
_INFIX = frozenset({"=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "and", "or"})
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class NotSqlError(Exception):
    """A column, or a part of it, that SQL text cannot express; the message names the part."""


def quote_column(name: str) -> str:
    """Return a column name as SQL, in backticks unless it is a plain identifier and not a keyword.

    Examples:
        >>> quote_column("userId"), quote_column("a b"), quote_column("null")
        ('userId', '`a b`', '`null`')
    """
    if _PLAIN.fullmatch(name) and name.lower() not in _CONSTANTS:
        return name
    return "`" + name.replace("`", "``") + "`"


def render_column(column: Any) -> str:
    """Return SQL text that `F.expr` parses to an equal column; an outermost alias is dropped.

    Args:
        column: a `pyspark.sql.Column` of a classic session.

    Raises:
        NotSqlError: the column contains a Python function, a window, a column of a specific DataFrame, ….
    """
    node = column._jc.node()
    while _kind(node) == "Alias":
        node = node.child()
    return str(node.expression()).strip() if _kind(node) == "SqlExpression" else _Renderer().render(node)


def is_classic(column: Any) -> bool:
    """Return whether a column belongs to a classic session, not to Spark Connect."""
    return hasattr(column, "_jc")


def identifier_parts(column: Any) -> list[str] | None:
    """Return the name parts of a plain column reference; None for any other column."""
    node = column._jc.node()
    return list(_items(node.nameParts())) if _kind(node) == "UnresolvedAttribute" else None


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Renders one column; lambda variables are renumbered, because PySpark numbers them per process."""

    variables: dict[str, str] = field(default_factory=dict)

    def render(self, node: Any) -> str:
        kind = _kind(node)
        leaf = _LEAVES.get(kind)
        if leaf is None:
            raise NotSqlError(_REASONS.get(kind, f"{kind} cannot be written as SQL"))
        return leaf(self, node)

    def literal(self, node: Any) -> str:
        expression = _catalyst(node)
        kind = expression.dataType().sql()
        if kind == "TIMESTAMP" and expression.value() is not None:
            # The text includes a zone. Without it, the text depends on the session's zone, and is ambiguous in the hour
            # that repeats when daylight saving time ends.
            instant = _EPOCH + dt.timedelta(microseconds=expression.value())
            return f"TIMESTAMP_LTZ '{instant.replace(tzinfo=None).isoformat(sep=' ')} UTC'"
        return str(expression.sql())

    def attribute(self, node: Any) -> str:
        if node.planId().isDefined() or node.isMetadataColumn():
            msg = 'it contains a column of a specific DataFrame; use col("name")'
            raise NotSqlError(msg)
        return ".".join(quote_column(part) for part in _items(node.nameParts()))

    def alias(self, node: Any) -> str:
        return self.render(node.child())

    def cast(self, node: Any) -> str:
        mode = node.evalMode()
        verb = "TRY_CAST" if mode.isDefined() and "TRY" in mode.get().toString().upper() else "CAST"
        return f"{verb}({self.render(node.child())} AS {node.dataType().sql()})"

    def sql_expression(self, node: Any) -> str:
        text = str(node.expression()).strip()
        return f"({text}\n)" if "--" in text else f"({text})"

    def case(self, node: Any) -> str:
        branches = [f"WHEN {self.render(pair._1())} THEN {self.render(pair._2())}" for pair in _items(node.branches())]
        other = [f"ELSE {self.render(node.otherwise().get())}"] if node.otherwise().isDefined() else []
        return " ".join(["CASE", *branches, *other, "END"])

    def extract(self, node: Any) -> str:
        return f"{self.render(node.child())}[{self.render(node.extraction())}]"

    def variable(self, node: Any) -> str:
        name = str(node.name())
        return self.variables.setdefault(name, f"lambda_{len(self.variables) + 1}")

    def function_of_lambda(self, node: Any) -> str:
        names = [self.variable(variable) for variable in _items(node.arguments())]
        listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{listed} -> {self.render(node.function())}"

    def function(self, node: Any) -> str:
        name = str(node.functionName())
        if node.isInternal():
            msg = f"`{name}` is an internal function of PySpark"
            raise NotSqlError(msg)
        arguments = list(_items(node.arguments()))
        if name == "struct":
            return f"struct({', '.join(self._field(argument) for argument in arguments)})"
        texts = [self.render(argument) for argument in arguments]
        if node.isDistinct():
            texts[:1] = [f"DISTINCT {texts[0]}"]
        return _apply(name, texts, quoted=not node.isUserDefinedFunction())

    def _field(self, node: Any) -> str:
        if _kind(node) != "Alias":
            return self.render(node)
        name = "".join(_items(node.name()))
        return f"{self.render(node.child())} AS {quote_column(name)}"


def _apply(name: str, arguments: list[str], *, quoted: bool) -> str:
    """Render an infix operator in parentheses or a function call, so that precedence does not matter."""
    lowered = name.lower()
    if lowered in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {name.upper()} {arguments[1]})"
    if lowered == "!" and len(arguments) == 1:
        return f"(NOT {arguments[0]})"
    if lowered in {"isnull", "isnotnull"} and len(arguments) == 1:
        return f"({arguments[0]} IS {'NOT ' if lowered == 'isnotnull' else ''}NULL)"
    if lowered == "in" and len(arguments) > 1:
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    plain = _PLAIN.fullmatch(name) is not None or not quoted
    return f"{name if plain else quote_column(name)}({', '.join(arguments)})"


def _catalyst(node: Any) -> Any:
    """Return the Catalyst expression of a node; its text is exact for literals."""
    from framework.engine.jvm.java import scala_object

    return scala_object("org.apache.spark.sql.classic.ColumnNodeToExpressionConverter").apply(node)


_LEAVES: dict[str, Callable[[_Renderer, Any], str]] = {
    "Literal": _Renderer.literal,
    "UnresolvedAttribute": _Renderer.attribute,
    "Alias": _Renderer.alias,
    "Cast": _Renderer.cast,
    "SqlExpression": _Renderer.sql_expression,
    "CaseWhenOtherwise": _Renderer.case,
    "UnresolvedExtractValue": _Renderer.extract,
    "UnresolvedNamedLambdaVariable": _Renderer.variable,
    "LambdaFunction": _Renderer.function_of_lambda,
    "UnresolvedFunction": _Renderer.function,
}

_REASONS = {
    "ExpressionColumnNode": "it contains a Python function or a column of a specific DataFrame",
    "InvokeInlineUserDefinedFunction": "it contains a user-defined function",
    "UpdateFields": "withField and dropFields cannot be written as SQL; build the struct with struct(...)",
    "Window": "it contains a window function",
    "SortOrder": "it contains a sort order",
    "SubqueryExpression": "it contains a subquery",
    "LazyExpression": "it contains an outer reference",
    "UnresolvedStar": "it contains a star; list the columns",
    "UnresolvedRegex": "it contains a column pattern; list the columns",
}
