"""Settings of Spark and properties of Delta that texts of errors name are known to this Spark and Delta."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from framework.engine.jvm.java import java_class, scala_map, scala_object
from framework.foundation.conditions import CONDITIONS

_SPARK = re.compile(r"spark\.(?!read|udf\.|sql\(|conf\.|sparkContext)\w+(?:\.\w+)+")
_DELTA = re.compile(r"(?<![\w.-])delta\.[a-z]\w+")
# Prefixes, and the setting of a catalog, whose name is a part of it.
_PREFIXES = ("spark.hadoop", "spark.sql.catalog.spark_catalog", "spark.sql.delta")
# Read by the launcher in Java, or by Spark's core by its name alone: no ConfigEntry of Spark has them.
_OF_LAUNCHERS = {"spark.driver.extraJavaOptions", "spark.local.dir"}


@pytest.mark.usefixtures("spark")
def test_settings_that_texts_name_are_known_to_spark() -> None:
    """A setting of another name has no effect, and the advice none either."""
    find: Any = java_class("org.apache.spark.internal.config.ConfigEntry").findEntry
    java_class("org.apache.spark.internal.config.package$")  # registers the entries of the core
    sql: Any = java_class("org.apache.spark.sql.internal.SQLConf")
    named = {each for texts in CONDITIONS.values() for each in _SPARK.findall(" ".join(texts))}
    named = {each for each in named if not each.startswith(_PREFIXES)} - _OF_LAUNCHERS
    assert {"spark.sql.legacy.javaCharsets", "spark.pyspark.python"} <= named
    assert {each for each in named if find(each) is None and not sql.isStaticConfigKey(each)} == set()


@pytest.mark.usefixtures("spark")
def test_properties_that_texts_name_are_known_to_delta() -> None:
    """Delta refuses a property of its own prefix that it does not know."""
    named = {each for texts in CONDITIONS.values() for each in _DELTA.findall(" ".join(texts))}
    assert named == {"delta.appendOnly", "delta.deletedFileRetentionDuration", "delta.enableTypeWidening"}
    configs: Any = scala_object("org.apache.spark.sql.delta.DeltaConfigs")
    for name in sorted(named):
        value = "interval 7 days" if name.endswith("Duration") else "true"
        assert configs.validateConfigurations(scala_map({name: value})).contains(name)
    with pytest.raises(AnalysisException, match="DELTA_UNKNOWN_CONFIGURATION"):
        configs.validateConfigurations(scala_map({"delta.appendOnlyX": "true"}))
