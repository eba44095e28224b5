"""Table references in SQL text, found and replaced in the plan of Spark's parser.

Used by the interception of `spark.sql` in query functions. The text stays as it is, so clauses, qualified columns and
the positions in Spark's errors keep their meaning. A common table expression hides a table of the same name by the
scoping rules of SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.errors import PySparkException

from framework.engine.jvm.callbacks import accept_callbacks
from framework.engine.jvm.java import (
    built_once,
    java_class,
    scala_items,
    scala_seq,
    text_map,
)
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.sessions.execution import active_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RELATION = "UnresolvedRelation"
_IDENTIFIER = re.compile(r"\bIDENTIFIER\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRelation:
    """One table reference: its name parts, its options (`WITH (…)`), and the position of its start in the text."""

    parts: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    streaming: bool
    start: int

    @property
    def text(self) -> str:
        """The name as SQL, each part in backticks."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.parts)


def parse(spark: SparkSession, query: str) -> Any:
    """Parse a query to its unresolved plan; exceptions of Spark's parser are not caught.

    The parser uses the settings of the thread's active session, regardless of `spark`.
    """
    with active_session(spark):
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    return _with_identifiers(spark, plan) if _IDENTIFIER.search(query) else plan


def is_command(plan: Any) -> bool:
    """Return whether a parsed statement is a command or a script, and not a query."""
    commands = ("Command", "ParsedStatement", "CompoundBody", "InsertIntoDir")
    return any(_plan_class(name).isInstance(plan) for name in commands)


def holds_command(plan: Any) -> bool:
    """Return whether a parsed statement is a command, also one after WITH, or several after FROM."""
    wrapped = plan.nodeName() in {"UnresolvedWith", "Union"}
    return any(holds_command(each) for each in scala_items(plan.children())) if wrapped else is_command(plan)


@built_once
def _plan_class(name: str) -> Any:
    loader = java_class("java.lang.Thread").currentThread().getContextClassLoader()
    full_name = f"org.apache.spark.sql.catalyst.plans.logical.{name}"
    return java_class("java.lang.Class").forName(full_name, True, loader)  # noqa: FBT003 - a Java call


def find_relations(plan: Any) -> tuple[SqlRelation, ...]:
    """Return every table reference of a parsed plan that no common table expression hides."""
    return tuple(_walk(plan, frozenset()))


def replace_relations(plan: Any, replacements: Mapping[SqlRelation, Any]) -> Any:
    """Replace relations of a parsed plan by analysed plans, including in subqueries."""
    at = {relation.start: replacement for relation, replacement in replacements.items()}
    return transformed(plan, lambda node: at.get(_start(node), node) if node.nodeName() == _RELATION else node)


def _with_identifiers(spark: SparkSession, plan: Any) -> Any:
    """Return the parsed plan with the relations that `IDENTIFIER(…)` names by an expression."""
    session = spark._jsparkSession
    parser = session.sessionState().sqlParser()

    def replaced(node: Any) -> Any:
        if node.nodeName() != "PlanWithUnresolvedIdentifier":
            return node
        try:
            constant = session.sql(f"SELECT {node.identifierExpr().sql()}").queryExecution().optimizedPlan()
            name = constant.expressions().head().child().value()
            parts = None if name is None else parser.parseMultipartIdentifier(str(name))
        except (PySparkException, Py4JError):
            parts = None
        # Spark's analysis reports an expression that is NULL or not constant.
        return node if parts is None else node.planBuilder().apply(parts, node.children())

    return transformed(plan, replaced)


def transformed(plan: Any, replaced: Callable[[Any], Any]) -> Any:
    """Return a plan with each node replaced, including in subqueries and common table expressions."""
    accept_callbacks()

    def applied(node: Any) -> Any:
        if node.nodeName() != "UnresolvedWith":
            return replaced(node)
        entries = scala_seq(  # the expressions are no children of the node
            java_class("scala.Tuple3")(each._1(), each._2().transformUpWithSubqueries(rule), each.productElement(2))
            for each in scala_items(node.cteRelations())
        )
        return node.copy(node.child(), entries, node.allowRecursion())

    rule = _Rule(applied)
    return plan.transformUpWithSubqueries(rule)


class _Rule:
    """A function of plans for the JVM; Scala defines its method names."""

    def __init__(self, replaced: Callable[[Any], Any]) -> None:
        self._replaced = replaced

    def applyOrElse(self, node: Any, _default: Any) -> Any:
        return self._replaced(node)

    class Java:
        """The implemented interface, for Py4J."""

        implements: ClassVar = ["scala.PartialFunction"]


def _walk(plan: Any, hidden: frozenset[str]) -> Iterator[SqlRelation]:
    kind = plan.nodeName()
    if kind == "UnresolvedWith":
        yield from _walk_with(plan, hidden)
        return
    if kind == _RELATION:
        relation = _relation(plan)
        if not (len(relation.parts) == 1 and relation.parts[0].lower() in hidden):
            yield relation
    for child in (*scala_items(plan.children()), *scala_items(plan.innerChildren())):
        yield from _walk(child, hidden)


def _walk_with(plan: Any, hidden: frozenset[str]) -> Iterator[SqlRelation]:
    """Walk a WITH: a common table expression can refer to earlier ones, and to itself only in a recursive WITH."""
    for entry in scala_items(plan.cteRelations()):
        name, body = entry._1().lower(), entry._2()
        yield from _walk(body.child(), hidden | {name} if plan.allowRecursion() else hidden)
        hidden |= {name}
    yield from _walk(plan.child(), hidden)


def _relation(plan: Any) -> SqlRelation:
    options = text_map(plan.options().asCaseSensitiveMap())
    return SqlRelation(
        parts=tuple(scala_items(plan.multipartIdentifier())),
        options=tuple((name.lower(), value) for name, value in options.items()),
        streaming=bool(plan.isStreaming()),
        start=_start(plan),
    )


def _start(plan: Any) -> int:
    return int(plan.origin().startIndex().get())
