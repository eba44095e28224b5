"""The registry of private parts, compared with the Spark, Delta and Py4J that are installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework import pipelines as dp
from framework.engine.registry import session_check
from framework.engine.registry.private_part import PrivatePart, Product
from framework.engine.registry.session_check import PARTS, SessionNames, check_session, missing_names, session_warning
from framework.engine.registry.versions import versions_of
from framework.foundation.errors import OperationError
from tests.support.engine_world import EngineWorld


def test_the_installed_versions_have_each_part_of_the_registry(spark: SparkSession) -> None:
    """No entry has another name than Spark: with a new version, this test names what has changed."""
    names = SessionNames()

    assert [name for part in PARTS for name in missing_names(part, names)] == []
    assert check_session(spark) is None


def test_a_part_that_a_version_does_not_have_is_an_error_at_the_start(spark: SparkSession) -> None:
    """The names are looked up in the JVM and in Python; the version is another one than those that were tested."""
    versions = {**versions_of(spark), Product.SPARK: "4.9.0"}
    owner = "org.apache.spark.sql.classic.Dataset"
    parts = (
        PrivatePart(module="plans.plans", owner=owner, members=("queryExecution()", "neverThere()")),
        PrivatePart(module="plans.plans", owner="pyspark.sql.classic.dataframe.DataFrame", members=("_jdf", "_never")),
        PrivatePart(module="plans.plans", owner="org.apache.spark.Nothing", members=()),
    )

    assert check_session(spark, versions=versions) is not None
    with pytest.raises(OperationError, match=r"4\.9\.0") as raised:
        check_session(spark, versions=versions, parts=parts)

    missing = "org.apache.spark.sql.classic.Dataset.neverThere, pyspark.sql.classic.dataframe.DataFrame._never, "
    assert f"{missing}org.apache.spark.Nothing." in str(raised.value)


def test_a_version_that_was_not_tested_is_a_warning_of_each_graph(
    spark: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """The session is looked at once, so what was found for its JVM is what each pipeline says."""
    assert session_warning(spark) is None
    found = check_session(spark, versions={**versions_of(spark), Product.SPARK: "4.9.0"})
    swap.setitem(session_check._warnings, spark.sparkContext._gateway, found)

    def declare() -> None:
        dp.materialized_view(name="view")(lambda: spark.range(1))

    (warning,) = EngineWorld(spark, tmp_path).pipeline(declare).validate().warnings

    assert warning.condition == "SPARK_VERSION_NOT_TESTED"
    assert "The session has Spark 4.9.0, and Sluice was tested with Spark 4.2.0" in str(warning)
