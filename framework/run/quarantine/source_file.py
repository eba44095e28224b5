"""The file that a row of a streaming query was read from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from framework.engine.plans.plans import analysed_plan
from framework.run.quarantine.table import FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# In any other plan, a further column of the source could change the result, as it does under DISTINCT.
_ROW_BY_ROW = frozenset({"Project", "Filter", "SubqueryAlias", "Generate", "CollectMetrics"})
_FILES = "FileSource["


def with_file(frame: DataFrame) -> DataFrame:
    """Return a query's rows with `FILE`: the path of the file, NULL if the query does not read files row by row."""
    unknown = F.lit(None).cast("string").alias(FILE)
    if not _reads_files(frame):
        return frame.select("*", unknown)
    try:
        return frame.select("*", F.col("_metadata.file_path").alias(FILE))
    except AnalysisException:  # the query has a column of its own with this name
        return frame.select("*", unknown)


def _reads_files(frame: DataFrame) -> bool:
    node = analysed_plan(frame)
    while node.nodeName() in _ROW_BY_ROW:
        node = node.children().head()
    return bool(node.nodeName() == "StreamingRelation" and str(node.sourceName()).startswith(_FILES))
