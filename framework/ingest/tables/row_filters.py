"""Row filters of tables that are copied from a database: conditions in Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.plans.plans import analysed_plan, runs_python_function
from framework.foundation.wording import exception_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fault_of_filter(spark: SparkSession, schema: str, text: str) -> str | None:
    """Return why a text is not a valid row filter for a schema, as a sentence; None if it is valid.

    Python functions are refused: the definition of a copy records the text only (ADR 46), so rows of two versions of
    the function could be mixed.
    """
    from pyspark.errors import PySparkException

    try:
        kept = spark.createDataFrame([], schema).where(text)
    except PySparkException as error:
        return exception_text(error).splitlines()[0]
    runs_python = runs_python_function(analysed_plan(kept))
    return "it calls a Python function, whose changes would not be seen." if runs_python else None
