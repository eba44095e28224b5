"""The registry of private parts, compared with the Spark, Delta and Py4J that are installed."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.engine.registry.private_part import PrivatePart, Product
from framework.engine.registry.session_check import PARTS, SessionNames, check_session, missing_names
from framework.engine.registry.versions import versions_of
from framework.foundation.errors import OperationError


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
