"""Files of any Hadoop file system: locating, listing as Spark does, and reading headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framework.engine.jvm.java import java_class, scala_object, scala_seq
from framework.engine.sessions.session import hadoop_configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def located(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a path, and the path for it."""
    target = hadoop_path(path)
    return target.getFileSystem(hadoop_configuration(spark)), target


def located_uri(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of an encoded URI, and the path for it."""
    target = path_of_uri(uri)
    return target.getFileSystem(hadoop_configuration(spark)), target


def hadoop_path(*parts: Any) -> Any:
    """Return a Hadoop `Path` of a string, or of a folder and a name."""
    return java_class("org.apache.hadoop.fs.Path")(*parts)


def path_of_uri(uri: str) -> Any:
    """Return the Hadoop `Path` of an encoded URI."""
    return java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(uri))


def copy_file(source_system: Any, source: Any, system: Any, target: Any) -> None:
    """Copy a file; the copy replaces an existing file."""
    copy = java_class("org.apache.hadoop.fs.FileUtil").copy
    copy(source_system, source, system, target, False, True, system.getConf())  # noqa: FBT003 - a Java call


def file_system_class(spark: SparkSession, scheme: str) -> str:
    """Return the class of a scheme's file system; Java's exception for an unknown scheme is not caught."""
    found = java_class("org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, hadoop_configuration(spark))
    return str(found.getName())


def hadoop_setting(spark: SparkSession, name: str) -> str | None:
    """Return a Hadoop setting of a session; None if it is not set."""
    found: str | None = hadoop_configuration(spark).get(name)
    return found


def listed_below(spark: SparkSession, path: str) -> str | None:
    """List all files below a folder or a glob as Spark does, one `FileStatus{…}` per line; None if there is no folder.

    Files of a file system that wraps another one are described by their getters, with a call each.
    """
    system, root = located(spark, path)
    roots = (
        scala_object("org.apache.spark.deploy.SparkHadoopUtil")
        .get()
        .globPathIfNecessary(system, system.makeQualified(root))
    )
    if roots.isEmpty():
        return None
    options = scala_object("scala.collection.immutable.Map").empty().updated("recursiveFileLookup", "true")
    cache, none = (
        scala_object("org.apache.spark.sql.execution.datasources.NoopCache"),
        java_class("scala.Option").empty(),
    )
    index = java_class("org.apache.spark.sql.execution.datasources.InMemoryFileIndex")(
        spark._jsparkSession, roots, options, none, cache, none, none
    )
    files = scala_seq([]).appendedAll(index.allFiles())
    texts = str(files.mkString("\n"))
    if "FileStatus{path=null;" not in texts:
        return texts
    return "\n".join(
        f"FileStatus{{path={each.getPath().toString()}; isDirectory=false; length={each.getLen()}; "
        f"modification_time={each.getModificationTime()};"
        for each in java_class("scala.jdk.javaapi.CollectionConverters").asJava(files)
    )


def avro_schema(uri: str, configuration: Any) -> str:
    """Return the schema in the header of an Avro file; Java's exceptions are not caught.

    Args:
        uri: the encoded URI of the file.
        configuration: of `hadoop_configuration`.
    """
    source = java_class("org.apache.avro.mapred.FsInput")(path_of_uri(uri), configuration)
    reader = java_class("org.apache.avro.generic.GenericDatumReader")()
    opened = java_class("org.apache.avro.file.DataFileReader").openReader(source, reader)
    try:
        return str(opened.getMetaString("avro.schema"))
    finally:
        opened.close()


def check_reader(spark: SparkSession, kind: str) -> None:
    """Check that a session has the reader of a format; Spark's exception names the package that it lacks."""
    java_class("org.apache.spark.sql.execution.datasources.DataSource").lookupDataSource(
        kind, spark._jsparkSession.sessionState().conf()
    )
