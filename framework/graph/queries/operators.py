"""The stateful operators and the sources of a streaming query, from its plan; nothing is started.

The operators are those in the physical plan that `explain` shows for a stream. Spark numbers them there. When the
stream starts, Spark compares number and name with the checkpoint.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from framework.checkpoints.operators import StatefulOperator, types_only
from framework.declare.specs import FlowSpec
from framework.engine.plans.plans import analysed_plan, is_streaming, leaves_of, node_name, tree_text
from framework.engine.plans.stateful_operators import PlannedOperator, check_appending, planned_operators
from framework.foundation.errors import UserError
from framework.graph.queries.calls import SPARK_ERRORS, first_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NODE = re.compile(r"^[\s:+\-~|]*([A-Za-z0-9]+)", re.MULTILINE)
_MAY_KEEP_STATE = re.compile(r"Aggregate|Distinct|Dedup|Join|WithState|Limit|Intersect|Except")
# The plan of a limit depends on the number of rows, and stand-ins have no rows.
_UNCERTAIN = re.compile(r"Limit|Intersect|Except|Offset")
_MAX_FIELDS = 1_000


def count_sources(frame: DataFrame) -> int | None:
    """Return the number of streaming leaves of a query's plan, stand-ins included.

    None if the query has a `WITH`, because Spark decides later how often it reads the sources in it.
    """
    leaves = leaves_of(frame)
    if any(node_name(leaf) == "CTERelationRef" for leaf in leaves):
        return None
    return sum(is_streaming(leaf) for leaf in leaves)


def check_streaming(frame: DataFrame, flow: FlowSpec) -> None:
    """Check that Spark can run a query as a stream in append mode; Spark does the same check when the stream starts.

    Raises:
        UserError: STREAMING_AGGREGATION_WITHOUT_WATERMARK, STREAMING_QUERY_NOT_SUPPORTED.
    """
    if frame.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck", "true") != "true":
        return
    try:
        check_appending(frame)
    except AnalysisException as error:
        cause = first_words(error)
        if "streaming aggregations without watermark" in cause:
            raise UserError(
                "STREAMING_AGGREGATION_WITHOUT_WATERMARK", location=flow.location, flow=flow.name, dataset=flow.target
            ) from error
        raise UserError("STREAMING_QUERY_NOT_SUPPORTED", location=flow.location, flow=flow.name, cause=cause) from error


def stateful_operators(frame: DataFrame) -> tuple[StatefulOperator, ...] | None:
    """Return the stateful operators of a streaming query, sorted by number; None if unknown."""
    nodes = set(_NODE.findall(tree_text(analysed_plan(frame), most_fields=_MAX_FIELDS)))
    if not any(_MAY_KEEP_STATE.search(node) for node in nodes):
        return ()
    if any(_UNCERTAIN.search(node) for node in nodes):
        return None
    try:
        found = [_operator(each) for each in planned_operators(frame)]
    except SPARK_ERRORS:  # a query that Spark can't plan fails at its start, with its own reason
        return None
    return tuple(sorted(found, key=lambda operator: operator.number))


def _operator(found: PlannedOperator) -> StatefulOperator:
    keys = None if found.keys is None else types_only(found.keys)
    values = None if found.values is None else types_only(found.values)
    return StatefulOperator(number=found.number, name=found.name, key_types=keys, value_types=values)
