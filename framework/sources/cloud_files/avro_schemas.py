"""The schemas of Avro files, which each has in its header; Spark's inference takes that of one file for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from framework.engine.files.hadoop_files import avro_schema
from framework.engine.jvm.java_errors import Py4JJavaError
from framework.engine.sessions.session import hadoop_configuration
from framework.sources.cloud_files.listing import FoundFile
from framework.sources.cloud_files.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIVEN = ("avroschema", "avroschemaurl")
PASSED_OVER = ""
"""The schema of files that Spark passes over."""


def files_by_schema(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile]
) -> dict[str, list[FoundFile]]:
    """Return Avro files by the schemas in their headers; all of them together if an option gives the schema.

    Args:
        spark: the session of the query.
        options: of the source.
        files: the files.

    Raises:
        Py4JJavaError: a file is missing or no Avro file.
    """
    given = next((value for name, value in options.reader if name in _GIVEN), None)
    if given is not None:
        return {given: list(files)}
    conf = hadoop_configuration(spark)
    found: dict[str, list[FoundFile]] = {}
    for file in files:
        found.setdefault(_schema_of(file, conf, options), []).append(file)
    return found


def _schema_of(file: FoundFile, conf: Any, options: CloudFilesOptions) -> str:
    if file.size == 0 or (dict(options.reader).get("ignoreextension") == "false" and not file.uri.endswith(".avro")):
        return PASSED_OVER
    try:
        return avro_schema(file.uri, conf)
    except Py4JJavaError:
        if options.flag("ignoreCorruptFiles") or options.flag("ignoreMissingFiles"):
            return PASSED_OVER
        raise
