"""Spark's checks of streaming queries, and the stateful operators in their physical plans.

Nothing is started. The operators are taken from the physical plan that `explain` of a stream shows. Spark numbers them
there, and compares number and name with the checkpoint when the stream starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext

from framework.engine.jvm.java import java_class, scala_object
from framework.engine.plans.plans import analysed_plan, nodes_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_OFFSETS = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata"
_CHECKER = "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker"
_NO_OFFSETS = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful"
_WITH_KEYS = frozenset({"StateStoreSaveExec", "StreamingDeduplicateExec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOperator:
    """A stateful operator.

    Args:
        number: its number in the plan.
        name: its short name.
        keys: the schema of its keys as JSON; None for another kind of operator.
        values: the schema of its values as JSON; None for another kind of operator.
    """

    number: int
    name: str
    keys: str | None
    values: str | None


def check_appending(frame: DataFrame) -> None:
    """Check that Spark can run a query as a stream that appends; its `AnalysisException` is not caught."""
    append = java_class("org.apache.spark.sql.streaming.OutputMode").Append()
    scala_object(_CHECKER).checkForStreaming(analysed_plan(frame), append)


def planned_operators(frame: DataFrame) -> list[PlannedOperator]:
    """Plan a streaming query as Spark's `explain` does, and return the stateful operators."""
    physical = _execution(frame.sparkSession, analysed_plan(frame)).executedPlan()
    return [_operator(node) for node in nodes_of(physical) if _has_state(node)]


def _execution(spark: SparkSession, plan: Any) -> Any:
    execution = scala_object(f"{_RUNTIME}.IncrementalExecution")

    def default(number: int) -> Any:
        return getattr(execution, f"$lessinit$greater$default${number}")()

    new_id = java_class("java.util.UUID").randomUUID
    offsets = scala_object(_OFFSETS).apply(_NO_OFFSETS)
    watermarks = scala_object(f"{_RUNTIME}.WatermarkPropagator").noop()
    mode = java_class("org.apache.spark.sql.streaming.OutputMode").Append()
    constructor = java_class(f"{_RUNTIME}.IncrementalExecution")
    first_batch = False  # in the first batch, Spark would write the operators' metadata
    return constructor(
        spark._jsparkSession,
        plan,
        mode,
        "<unknown>",
        new_id(),
        new_id(),
        0,
        java_class("scala.Option").empty(),
        offsets,
        watermarks,
        first_batch,
        *(default(number) for number in range(12, 16)),
    )


def _has_state(node: Any) -> bool:
    gateway: Any = SparkContext._gateway
    return bool(is_instance_of(gateway, node, f"{_STATEFUL}.StateStoreWriter"))


def _operator(node: Any) -> PlannedOperator:
    kind, keys, values = node.getClass().getSimpleName(), None, None
    if kind in _WITH_KEYS:
        types = scala_object("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        keys = str(types.fromAttributes(node.keyExpressions()).json())
    if kind == "StateStoreSaveExec":
        values = str(node.stateManager().getStateValueSchema().json())
    number = int(node.stateInfo().get().operatorId())
    return PlannedOperator(number=number, name=str(node.shortName()), keys=keys, values=values)
