"""Delta sources of a query that begin at a version that is not committed yet, while other sources have rows already.

Delta refuses such a version, unless a setting of the session that the source belongs to allows it. That is the session
in which the query was built, which all flows share. `latest` in place of the version would not be the same: a commit
between a look at the log and the start of the query would not be read.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from framework.engine.plans import of_plan, replaced_leaves
from framework.sources.port import is_same_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALLOWED = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
_PARTS = range(2, 10)
"""The parameters of Spark's `DataSource` besides its session."""


def beginning_later(frame: DataFrame, paths: Collection[str]) -> DataFrame:
    """Return a streaming query that may begin to read some Delta tables at a version that is not committed yet.

    Args:
        frame: the query, in the session that will run it, which no other query has.
        paths: the folders of the tables.
    """
    spark = frame.sparkSession
    session: Any = spark._jsparkSession

    def in_own_session(leaf: Any) -> Any:
        if leaf.nodeName() != "StreamingRelation":
            return None
        source = leaf.dataSource()
        path = source.options().get("path")
        if not path.isDefined() or not any(is_same_location(str(path.get()), each) for each in paths):
            return None
        parts = [getattr(source, f"copy$default${number}")() for number in _PARTS]
        others = [getattr(leaf, f"copy$default${number}")() for number in range(2, 5)]
        return leaf.copy(source.copy(session, *parts), *others)

    session.conf().set(_ALLOWED, "true")
    plan: Any = frame._jdf.queryExecution().analyzed()
    return of_plan(spark, replaced_leaves(plan, in_own_session))
