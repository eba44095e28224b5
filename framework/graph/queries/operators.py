"""The stateful operators and the sources of a streaming query, from its plan; nothing is started.

The operators are those of the physical plan that `explain` of a stream shows: Spark numbers them there, and compares
number and name with the checkpoint when the stream starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from framework.checkpoints.operators import StatefulOperator, types_only
from framework.declare.specs import FlowSpec
from framework.foundation.errors import UserError
from framework.foundation.jvm_cache import java_class, scala_object
from framework.graph.queries.calls import SPARK_ERRORS, first_words
from framework.graph.reading.relations import analysed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NODE = re.compile(r"^[\s:+\-~|]*([A-Za-z0-9]+)", re.MULTILINE)
_MAY_KEEP_STATE = re.compile(r"Aggregate|Distinct|Dedup|Join|WithState|Limit|Intersect|Except")
# Rules on limits depend on the number of rows, and a stand-in has none.
_UNCERTAIN = re.compile(r"Limit|Intersect|Except|Offset")
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_OFFSETS = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata"
_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_NO_OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful"
_WITH_KEYS = frozenset({"StateStoreSaveExec", "StreamingDeduplicateExec"})
_MAX_FIELDS = 1_000


def count_sources(frame: DataFrame) -> int | None:
    """Return the number of streaming leaves of a query's plan, stand-ins included.

    None if the query has a `WITH`: Spark decides later how often it reads a source in there.
    """
    found: Any = analysed_plan(frame).collectLeaves()
    leaves = [found.apply(index) for index in range(found.size())]
    if any(leaf.nodeName() == "CTERelationRef" for leaf in leaves):
        return None
    return sum(bool(leaf.isStreaming()) for leaf in leaves)


def check_streaming(frame: DataFrame, flow: FlowSpec) -> None:
    """Check that Spark can run a query as a stream that appends, as it does when the stream starts.

    Raises:
        UserError: STREAMING_AGGREGATION_WITHOUT_WATERMARK, STREAMING_QUERY_NOT_SUPPORTED.
    """
    if frame.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck", "true") != "true":
        return
    append = java_class("org.apache.spark.sql.streaming.OutputMode").Append()
    try:
        scala_object(_CHECKER).checkForStreaming(analysed_plan(frame), append)
    except AnalysisException as error:
        cause = first_words(error)
        if "streaming aggregations without watermark" in cause:
            raise UserError(
                "STREAMING_AGGREGATION_WITHOUT_WATERMARK", location=flow.location, flow=flow.name, dataset=flow.target
            ) from error
        raise UserError("STREAMING_QUERY_NOT_SUPPORTED", location=flow.location, flow=flow.name, cause=cause) from error


def stateful_operators(frame: DataFrame) -> tuple[StatefulOperator, ...] | None:
    """Return the stateful operators of a streaming query, sorted by number; None if they are unknown."""
    plan = analysed_plan(frame)
    text = plan.treeString(True, False, _MAX_FIELDS, False, False)  # noqa: FBT003 - a Java call
    nodes = set(_NODE.findall(text))
    if not any(_MAY_KEEP_STATE.search(node) for node in nodes):
        return ()
    if any(_UNCERTAIN.search(node) for node in nodes):
        return None
    try:
        return _planned(frame.sparkSession, plan)
    except SPARK_ERRORS:  # a query that Spark can't plan fails when it starts, for a reason of its own
        return None


def _planned(spark: SparkSession, plan: Any) -> tuple[StatefulOperator, ...]:
    """Plan the query as Spark's `explain` does, and return the operators that have a state."""
    nodes = _nodes(_execution(spark, plan).executedPlan())
    found = [_operator(node) for node in nodes if _has_state(node)]
    return tuple(sorted(found, key=lambda operator: operator.number))


def _execution(spark: SparkSession, plan: Any) -> Any:
    execution = scala_object(f"{_RUNTIME}.IncrementalExecution")

    def default(number: int) -> Any:
        return getattr(execution, f"$lessinit$greater$default${number}")()

    new_id = java_class("java.util.UUID").randomUUID
    offsets = scala_object(_OFFSETS).apply(_NO_OFFSETS)
    watermarks = scala_object(f"{_RUNTIME}.WatermarkPropagator").noop()
    mode = java_class("org.apache.spark.sql.streaming.OutputMode").Append()
    constructor = java_class(f"{_RUNTIME}.IncrementalExecution")
    first_batch = False  # of the first batch, Spark would write the operators' metadata
    return constructor(
        spark._jsparkSession, plan, mode, "<unknown>", new_id(), new_id(), 0, java_class("scala.Option").empty(),
        offsets, watermarks, first_batch, *(default(number) for number in range(12, 16)),
    )  # fmt: skip


def _nodes(plan: Any) -> list[Any]:
    """Return all nodes of a physical plan."""
    found, children = [plan], plan.children()
    for index in range(children.size()):
        found += _nodes(children.apply(index))
    return found


def _has_state(node: Any) -> bool:
    gateway: Any = SparkContext._gateway
    return bool(is_instance_of(gateway, node, f"{_STATEFUL}.StateStoreWriter"))


def _operator(node: Any) -> StatefulOperator:
    name, kind = str(node.shortName()), node.getClass().getSimpleName()
    key, value = None, None
    if kind in _WITH_KEYS:
        types = scala_object("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        key = types_only(str(types.fromAttributes(node.keyExpressions()).json()))
    if kind == "StateStoreSaveExec":
        value = types_only(str(node.stateManager().getStateValueSchema().json()))
    return StatefulOperator(
        number=int(node.stateInfo().get().operatorId()), name=name, key_types=key, value_types=value
    )
