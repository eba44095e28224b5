"""The versions of Spark, Delta and Py4J in a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import py4j.version

from framework.engine.jvm.java import built_once, has_class, java_class
from framework.engine.registry.private_part import Product

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Versions = Mapping[Product, str]


@built_once
def delta_version() -> str:
    """Return the version of Delta in the JVM; empty if it reports none, as a platform's own build of Delta."""
    return str(java_class("io.delta.package").VERSION()) if has_class("io.delta.package") else ""


def versions_of(spark: SparkSession) -> Versions:
    """Return the versions in a session."""
    return {
        Product.SPARK: str(spark.version),
        Product.DELTA: delta_version(),
        Product.PY4J: str(py4j.version.__version__),
    }
