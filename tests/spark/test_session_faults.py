"""Faults of the session, which no correction of a query or of rows mends, are told from those of queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import StreamingQueryException

from framework.foundation.errors import SluiceError
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName
from framework.graph.queries.calls import query_failed
from framework.run.update.fault_classification import flow_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

DECLARED = SourceLocation(file="/p/shop.py", line=6)
FLOW = QualifiedName(catalog="main", schema="default", table="changes")


def faults_of(read: Callable[[], object]) -> tuple[SluiceError, SluiceError]:
    """What the analysis and what an update make of the exception that a read raises."""
    with pytest.raises((PySparkException, Py4JError)) as raised:
        read()
    error = raised.value.with_traceback(None)
    return query_failed(error, FLOW, DECLARED), flow_fault(error, FLOW, DECLARED)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder with a file of one row."""
    (tmp_path / "rows.json").write_text('{"id": 1}\n', encoding="utf-8")
    return str(tmp_path)


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[str]:
    """A catalog whose class no jar has."""
    name = "catalog_without_class"
    spark.conf.set(f"spark.sql.catalog.{name}", "org.example.NoCatalog")
    yield name
    spark.conf.unset(f"spark.sql.catalog.{name}")


def test_a_setting_that_hadoop_cannot_read_is_no_fault_of_the_query(spark: SparkSession, folder: str) -> None:
    """Spark's own words are about a file that can't be read; the last cause decides, and no line is named."""
    for fault in faults_of(lambda: spark.read.option("io.file.buffer.size", "64m").json(folder)):
        assert (fault.condition, fault.location) == ("SESSION_SETTING_INVALID", None)
        assert fault.fields["cause"] == 'java.lang.NumberFormatException: For input string: "64m"'


def test_a_value_that_is_no_number_stays_a_fault_of_the_row(spark: SparkSession, folder: str) -> None:
    """The same class of exception, raised by the parser of a format."""
    frame = spark.read.schema("id INT").option("mode", "FAILFAST").csv(folder)
    found, failed = faults_of(frame.collect)
    assert (found.condition, failed.condition) == ("FLOW_SOURCE_UNREADABLE", "FLOW_FAILED")
    assert 'java.lang.NumberFormatException: For input string: "{"id": 1}"' in str(found.fields["cause"])


def test_a_class_that_no_jar_has_is_a_missing_library(spark: SparkSession, catalog: str, folder: str) -> None:
    """Of a catalog, of a file system's connector, or of a JDBC driver; the line of the read is named."""
    reads = [
        (lambda: spark.sql(f"SELECT * FROM {catalog}.db.t"), "java.lang.ClassNotFoundException: org.example.NoCatalog"),
        (
            lambda: spark.read.option("fs.nofs.impl", "org.example.NoFs").text("nofs://bucket/x"),
            "java.lang.ClassNotFoundException: Class org.example.NoFs not found",
        ),
        (
            spark.read.format("jdbc").options(url="jdbc:nodb://localhost/x", dbtable="t").load,
            "java.sql.SQLException: No suitable driver",
        ),
    ]
    for read, cause in reads:
        for fault in faults_of(read):
            assert (fault.condition, fault.location) == ("SESSION_LIBRARY_MISSING", DECLARED)
            assert fault.fields["cause"] == cause
    assert faults_of(lambda: spark.read.json(folder + "/none"))[0].condition == "FLOW_SOURCE_UNREADABLE"


def test_an_encoding_that_needs_a_setting_names_the_setting(spark: SparkSession, folder: str) -> None:
    """The same text is right: with the setting, Spark reads the file."""
    found, _ = faults_of(lambda: spark.read.option("encoding", "GBK").csv(folder))
    key = "spark.sql.legacy.javaCharsets"
    assert f"set `{key}` to `true`" in found.remedy
    spark.conf.set(key, "true")
    try:
        assert [tuple(row) for row in spark.read.option("encoding", "GBK").csv(folder).collect()] == [('{"id": 1}',)]
    finally:
        spark.conf.unset(key)


def test_a_storage_that_its_connector_cannot_reach_is_named_as_such(spark: SparkSession) -> None:
    """Whatever the exception is: its stack goes through the connector. A file that is missing is the query's matter."""
    for kind, condition in (
        ("java.io.IOException", "STORAGE_CONNECTOR_FAILED"),
        ("java.io.FileNotFoundException", "FLOW_FAILED"),
    ):
        jvm: Any = spark._jvm
        thrown = getattr(jvm, kind)("no SSL factory")
        gateway: Any = spark.sparkContext._gateway
        frames = gateway.new_array(jvm.java.lang.StackTraceElement, 1)
        frames[0] = jvm.java.lang.StackTraceElement("org.apache.hadoop.fs.s3a.S3AFileSystem", "open", "S3A.java", 1)
        thrown.setStackTrace(frames)
        fault = flow_fault(StreamingQueryException(origin=thrown), FLOW, DECLARED)
        assert (fault.condition, "no SSL factory" in str(fault.fields["cause"])) == (condition, True)
