"""Data sources in Python, registered in one session; Spark's own registration asks the active one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.udf import _wrap_function

from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_python_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Make a format known to a session and to the sessions that are cloned from it, unless it has one of this name."""
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(source.name()):
        make = java_class("org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource")
        manager.registerDataSource(source.name(), make(_wrap_function(spark.sparkContext, source)))
