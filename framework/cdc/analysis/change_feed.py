"""Flows that read the change data feed of a Delta table.

After a commit, the table has exactly one state: a row that the commit inserts exists, whatever else the commit deletes.
So if a sequence contains the commit version, deletes are ordered before upserts ([ADR 59]).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from framework.cdc.model.columns import find_field
from framework.engine.jvm.java_errors import Py4JError
from framework.engine.plans.expressions import identity, parts_of
from framework.engine.plans.plans import analysed_plan, leaves_of, node_name, parts_of_plan, selected_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from framework.cdc.analysis.flow_input import CdcInput

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
PREIMAGE = "update_preimage"

_OF_COMMIT = frozenset({COMMIT_VERSION, COMMIT_TIMESTAMP})


def reads_feed(flow: CdcInput) -> bool:
    """Return whether a flow reads rows of a change data feed, directly or from a table that stored them."""
    return any(COMMIT_VERSION in str(leaf.output().mkString(" ")) for leaf in leaves_of(flow.source))


def is_sequenced_by_commit(flow: CdcInput) -> bool:
    """Return whether a flow's events with equal sequences belong to one commit of its change data feed.

    This holds if the sequence is the version or the time of the commit, or a struct that contains one of them, under
    any name in the flow's query and the views in between.
    """
    if flow.versions is not None or not reads_feed(flow):
        return False
    try:
        plan = analysed_plan(flow.source.select(F.expr(flow.spec.sequence_by)))
    except PySparkException:  # the sequence is a function of the columns by name, as in a batch
        return False
    (sequence,) = selected_columns(plan)
    try:
        return _Sequence(dict(_definitions(plan))).is_of_commit(sequence)
    except Py4JError:  # a node or an expression without the usual parts
        return False


def is_of_feed(schema: StructType) -> bool:
    """Return whether rows have the columns of a change data feed under their own names."""
    kind = find_field(schema, CHANGE_TYPE)
    return kind is not None and isinstance(kind.dataType, StringType) and find_field(schema, COMMIT_VERSION) is not None


class _Sequence:
    """The expressions of a query, by the identifiers of the columns that they define."""

    def __init__(self, definitions: dict[int, Any]) -> None:
        self._definitions = definitions

    def is_of_commit(self, expression: Any) -> bool:
        """Return whether equal values of an expression belong to one commit."""
        name = node_name(expression)
        if name == "AttributeReference":
            defined = self._definitions.get(identity(expression))
            if defined is not None:
                return self.is_of_commit(defined)
            return str(expression.name()).lower() in _OF_COMMIT
        parts = parts_of(expression)
        if name == "CreateNamedStruct":
            return any(self.is_of_commit(part) for part in parts)
        found = [self.is_of_commit(part) for part in parts if not part.foldable()]
        return bool(found) and all(found)


def _definitions(plan: Any) -> Iterator[tuple[int, Any]]:
    """Yield the columns that the nodes of a plan define, and their expressions."""
    expressions, children = parts_of_plan(plan)
    for expression in expressions:
        if node_name(expression) == "Alias":
            yield identity(expression), expression.child()
    for child in children:
        yield from _definitions(child)
