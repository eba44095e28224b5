"""Row filters of tables that are copied from a database: conditions in Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.plans.plans import analysed_plan, runs_python_function
from framework.foundation.wording import exception_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fault_of_filter(spark: SparkSession, schema: str, text: str) -> str | None:
    """Return why a text is no row filter for rows of a schema, as a sentence; None if it is one.

    The definition of a copy has the text only (ADR 46): of a Python function, rows by two codes would be mixed.
    """
    from pyspark.errors import PySparkException

    try:
        kept = spark.createDataFrame([], schema).where(text)
    except PySparkException as error:
        return exception_text(error).splitlines()[0]
    runs_python = runs_python_function(analysed_plan(kept))
    return "it calls a Python function, whose changes would not be seen." if runs_python else None
