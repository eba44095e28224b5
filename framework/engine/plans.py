"""DataFrames from Catalyst plans, for which PySpark has no public call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from framework.engine.jvm import scala_object, scala_seq

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame of `spark` from a Catalyst plan; it is analysed at once and not run."""
    dataset = scala_object("org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)


def replaced_leaves(plan: Any, replace: Callable[[Any], Any]) -> Any:
    """The plan with each leaf replaced by `replace(leaf)`; None keeps it. Subqueries are left as they are.

    A leaf's replacement must have the same output attributes.
    """
    children = plan.children()
    count = children.size()
    if count == 0:
        return replace(plan) or plan
    old = [children.apply(index) for index in range(count)]
    new = [replaced_leaves(child, replace) for child in old]
    if all(before is after for before, after in zip(old, new, strict=True)):
        return plan
    return plan.withNewChildren(scala_seq(new))
