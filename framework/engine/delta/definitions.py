"""Delta's own checks of table definitions: properties, features and generated columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.engine.jvm.java import java_class, scala_map, scala_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_DELTA = "org.apache.spark.sql.delta"


def has_feature(name: str) -> bool:
    """Return whether Delta has a table feature with a name."""
    return not scala_object(f"{_DELTA}.TableFeature").featureNameToFeature(name).isEmpty()


def validate_properties(properties: Mapping[str, str]) -> None:
    """Check properties as Delta does when it creates a table; its exceptions are not caught."""
    scala_object(f"{_DELTA}.DeltaConfigs").validateConfigurations(scala_map(properties))


def validate_generated_columns(spark: SparkSession, columns: StructType) -> None:
    """Check the expressions of generated columns as Delta does; its exceptions are not caught."""
    schema = java_class("org.apache.spark.sql.types.DataType").fromJson(columns.json())
    scala_object(f"{_DELTA}.GeneratedColumn").validateGeneratedColumns(spark._jsparkSession, schema)
