"""The JVM's Hadoop configuration, which Spark and Delta copy and serialize several times per query."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import java_class, private_field
from framework.engine.jvm.java_errors import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lighten_hadoop_configuration(spark: SparkSession) -> None:
    """Drop unused parts: YARN's defaults (527 of 1,145 entries) and the source file names of entries.

    The source file names of each entry are compressed separately, and Java raises an exception for each when it reads
    them, which takes three quarters of the time.
    """
    spark._jsparkSession.sharedState()  # reads the configuration again
    of_yarn = java_class("org.apache.hadoop.conf.Configuration")(False)  # noqa: FBT003 - Java's
    of_yarn.addResource("yarn-default.xml")
    configuration: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for each in (of_yarn, configuration):
        each.size()  # reads the files
    with suppress(Py4JError):  # another version of Hadoop, with other fields
        private_field(configuration, "properties").keySet().removeAll(private_field(of_yarn, "properties").keySet())
        private_field(configuration, "updatingResource").clear()


def common_file_system_class(spark: SparkSession, scheme: str) -> str | None:
    """Return the class of a scheme's file system in the shared configuration of all sessions; None if not set."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    with suppress(Py4JError):
        found = java_class("org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, configuration)
        return str(found.getName())
    return None
