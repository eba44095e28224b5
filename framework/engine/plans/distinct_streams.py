"""`SELECT DISTINCT` and `UNION` over a stream as deduplication, which appends each row on first arrival.

Spark plans them as an aggregation, which can't append without a watermark. `DataFrame.distinct` is a deduplication.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import java_class, scala_items
from framework.engine.plans.plans import analysed_plan, of_plan
from framework.engine.plans.sql_relations import transformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WORDS = re.compile(r"\b(?:DISTINCT|UNION)\b", re.IGNORECASE)
_DEDUPLICATE = "org.apache.spark.sql.catalyst.plans.logical.Deduplicate"
_WATERMARK = "spark.watermarkDelayMs"


def deduplicated(frame: DataFrame, text: str) -> DataFrame:
    """Return a query in which each DISTINCT over a stream without a watermark is a deduplication.

    With a watermark, Spark's aggregation appends rows, and flows that already have its state continue with it.

    Args:
        frame: the query.
        text: its text.
    """
    if not _WORDS.search(text) or not frame.isStreaming:
        return frame
    changed: list[Any] = []

    def replaced(node: Any) -> Any:
        if node.nodeName() != "Distinct" or not node.isStreaming() or _has_watermark(node):
            return node
        changed.append(node)
        return java_class(_DEDUPLICATE)(node.child().output(), node.child())

    plan = transformed(analysed_plan(frame), replaced)
    return of_plan(frame.sparkSession, plan) if changed else frame


def _has_watermark(plan: Any) -> bool:
    return any(column.metadata().contains(_WATERMARK) for column in scala_items(plan.output()))
