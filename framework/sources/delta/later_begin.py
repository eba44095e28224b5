"""Delta sources that begin at a version not committed yet, in a query whose other sources already have rows.

Delta refuses such a version unless a setting of the source's session allows it. This is the session in which the query
was built, which all flows share. Replacing the version by `latest` is not equivalent: a commit between a look at the
log and the start of the query would be skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from framework.engine.plans.plans import analysed_plan, of_plan, replaced_leaves
from framework.engine.plans.relations import of_own_session, option_of_stream
from framework.engine.sessions.session import set_setting
from framework.sources.port import is_same_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ALLOWED = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


def beginning_later(frame: DataFrame, paths: Collection[str]) -> DataFrame:
    """Return a streaming query that may begin to read some Delta tables at a version that is not committed yet.

    Args:
        frame: the query, in the session that will run it; no other query uses this session.
        paths: the folders of the tables.
    """
    spark = frame.sparkSession

    def in_own_session(leaf: Any) -> Any:
        path = option_of_stream(leaf, "path")
        if path is None or not any(is_same_location(path, each) for each in paths):
            return None
        return of_own_session(leaf, spark)

    set_setting(spark, _ALLOWED, "true")
    return of_plan(spark, replaced_leaves(analysed_plan(frame), in_own_session))
