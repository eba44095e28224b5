"""Row-by-row queries over one streaming source, which can also be applied to other rows.

For runners that get a micro-batch in a different form than from the source's reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql.types import StructType

from framework.engine.jvm.java import java_class, scala_items, scala_seq, text_map
from framework.engine.plans.plans import analysed_plan, of_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SOURCE = "StreamingRelationV2"
# Each has one input, and does not depend on state, order or the number of rows.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "Generate", "CollectMetrics"})
_UNCHANGED = frozenset({"Project", "SubqueryAlias"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowQuery:
    """A deterministic row-by-row query over one streaming source.

    Args:
        format: the name of the source's format.
        options: the options of the source.
        schema: the columns of the source.
        returns_source: whether the query returns the rows of the source unchanged.
    """

    format: str
    options: Mapping[str, str]
    schema: StructType
    returns_source: bool
    _nodes: tuple[Any, ...]
    """The nodes from the top of the plan down to the source."""

    @classmethod
    def of(cls, frame: DataFrame) -> Self | None:
        """Return the query of a DataFrame; None if it is not a deterministic row-by-row query.

        The current time or a random number would differ each time the query is computed, not only per micro-batch.
        """
        plan = analysed_plan(frame)
        pattern = java_class("org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()
        if not plan.deterministic() or plan.containsPattern(pattern) or plan.subqueriesAll().nonEmpty():
            return None
        nodes = [plan]
        while nodes[-1].nodeName() in _ROW_BY_ROW:
            nodes.append(nodes[-1].children().head())
        source = nodes[-1]
        if source.nodeName() != _SOURCE:
            return None
        return cls(
            format=str(source.sourceName()).lower(),
            options=text_map(source.extraOptions().asCaseSensitiveMap()),
            schema=StructType.fromJson(json.loads(source.schema().json())),
            returns_source=_returns_source(nodes),
            _nodes=tuple(nodes),
        )

    def over(self, rows: DataFrame) -> DataFrame:
        """Return the query over other rows with the source's columns, in the session of these rows."""
        source = self._nodes[-1]
        plan = _renumbered(analysed_plan(rows), source)
        for node in reversed(self._nodes[:-1]):
            plan = node.withNewChildren(scala_seq([plan]))
        return of_plan(rows.sparkSession, plan)


def _returns_source(nodes: list[Any]) -> bool:
    """Return whether a plan returns exactly the source's columns in order; an alias counts as a new column."""
    source, top = nodes[-1], nodes[0]
    if any(node.nodeName() not in _UNCHANGED for node in nodes[:-1]):
        return False
    return list(map(_identity, scala_items(top.output()))) == list(map(_identity, scala_items(source.output())))


def _identity(attribute: Any) -> tuple[str, int]:
    return str(attribute.name()), int(attribute.exprId().id())


def _renumbered(plan: Any, source: Any) -> Any:
    """Return a plan whose columns have the expression ids of the source, to which the query refers."""
    none, nothing = java_class("scala.Option").empty(), scala_seq([])
    alias = java_class("org.apache.spark.sql.catalyst.expressions.Alias")
    columns = [
        alias(new, old.name(), old.exprId(), nothing, none, nothing)
        for new, old in zip(scala_items(plan.output()), scala_items(source.output()), strict=True)
    ]
    return java_class("org.apache.spark.sql.catalyst.plans.logical.Project")(scala_seq(columns), plan)
