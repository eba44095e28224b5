"""Table references in a SQL text, found by Spark's own parser, and their replacement.

Used by the interception of `spark.sql` in query functions. Spark's parser provides the relations and
their positions. A common table expression hides a table of the same name by the scoping rules of SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.foundation.jvm_cache import built_once, java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAM = re.compile(r"\s*STREAM\s*\(?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRelation:
    """One table reference: its name parts, and the position of its identifier in the text.

    `aliased` is whether the query gives it an alias.
    """

    parts: tuple[str, ...]
    streaming: bool
    aliased: bool
    start: int
    stop: int
    end: int

    @property
    def text(self) -> str:
        """The name as SQL, each part in backticks."""
        return ".".join(f"`{part.replace('`', '``')}`" for part in self.parts)


def parse(spark: SparkSession, query: str) -> Any:
    """Parse a query to its unresolved plan; exceptions of Spark's parser are not caught."""
    return spark._jsparkSession.sessionState().sqlParser().parsePlan(query)


def is_command(plan: Any) -> bool:
    """Whether a parsed statement is a command and not a query."""
    return any(_plan_class(name).isInstance(plan) for name in ("Command", "ParsedStatement"))


@built_once
def _plan_class(name: str) -> Any:
    loader = java_class("java.lang.Thread").currentThread().getContextClassLoader()
    full_name = f"org.apache.spark.sql.catalyst.plans.logical.{name}"
    return java_class("java.lang.Class").forName(full_name, True, loader)  # noqa: FBT003 - a Java call


def find_relations(plan: Any) -> tuple[SqlRelation, ...]:
    """Every table reference of a parsed plan that no common table expression hides."""
    return tuple(_walk(plan, frozenset(), aliased=False))


def replace_relations(query: str, replacements: Mapping[SqlRelation, str]) -> str:
    """Replace the identifiers in a query; a relation without an alias gets its table's name as alias."""
    for relation in sorted(replacements, key=lambda found: found.start, reverse=True):
        alias = "" if relation.aliased else f" AS `{relation.parts[-1].replace('`', '``')}`"
        after = query[relation.stop : relation.end]
        query = query[: relation.start] + replacements[relation] + after + alias + query[relation.end :]
    return query


def _walk(plan: Any, hidden: frozenset[str], *, aliased: bool) -> Iterator[SqlRelation]:
    kind = plan.nodeName()
    if kind == "UnresolvedWith":
        yield from _walk_with(plan, hidden)
        return
    if kind == "UnresolvedRelation":
        relation = _relation(plan, aliased=aliased)
        if relation is not None and not (len(relation.parts) == 1 and relation.parts[0].lower() in hidden):
            yield relation
    below = kind == "SubqueryAlias" or (aliased and kind == "NamedStreamingRelation")
    for child in (*_sequence(plan.children()), *_sequence(plan.innerChildren())):
        yield from _walk(child, hidden, aliased=below)


def _walk_with(plan: Any, hidden: frozenset[str]) -> Iterator[SqlRelation]:
    """Walk a WITH: a common table expression can refer to earlier ones, and to itself only in a recursive WITH."""
    for entry in _sequence(plan.cteRelations()):
        name, body = entry._1().lower(), entry._2()
        yield from _walk(body.child(), hidden | {name} if plan.allowRecursion() else hidden, aliased=False)
        hidden |= {name}
    yield from _walk(plan.child(), hidden, aliased=False)


def _relation(plan: Any, *, aliased: bool) -> SqlRelation | None:
    """The reference with its position, or None if the node has no position in the text."""
    origin = plan.origin()
    if origin.startIndex().isEmpty() or origin.sqlText().isEmpty():
        return None
    query = origin.sqlText().get()
    first, end = origin.startIndex().get(), origin.stopIndex().get() + 1
    if plan.isStreaming() and (stream := _STREAM.match(query, first)):
        first = stream.end()
    parts = tuple(_sequence(plan.multipartIdentifier()))
    pattern = r"\s*\.\s*".join(rf"(?:`{re.escape(part.replace('`', '``'))}`|{re.escape(part)})" for part in parts)
    found = re.compile(pattern, re.IGNORECASE).search(query, first, end)
    if found is None:
        return None
    return SqlRelation(
        parts=parts,
        streaming=bool(plan.isStreaming()),
        aliased=aliased,
        start=found.start(),
        stop=found.end(),
        end=end,
    )


def _sequence(found: Any) -> list[Any]:
    """A Scala Seq as a list."""
    return [found.apply(index) for index in range(found.size())]
