"""Python data sources, registered in a given session; Spark's own registration uses the active session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.udf import _wrap_function

from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register_python_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a format in a session, and in sessions cloned from it later, unless the name is taken."""
    manager: Any = spark._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(source.name()):
        make = java_class("org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource")
        manager.registerDataSource(source.name(), make(_wrap_function(spark.sparkContext, source)))
