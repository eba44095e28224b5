"""Folder listings that find the new files of a source: local ones in Python, others by one JVM call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from framework.engine.files.hadoop_files import listed_below
from framework.engine.jvm.java_errors import Py4JJavaError
from framework.foundation.errors import OperationError, SourceError, UserError
from framework.foundation.files.file_systems import file_system_advice, missing_file_system
from framework.sources.cloud_files.files.local_listing import (
    GLOB,
    QUESTION,
    FoundFile,
    Known,
    encoded,
    in_order,
    in_parts,
    list_local,
)
from framework.sources.cloud_files.settings.globs import glob_pattern
from framework.sources.cloud_files.settings.options import CloudFilesOptions, local_path
from framework.sources.files.names import is_hidden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATUS = re.compile(
    r"FileStatus\{path=(?P<path>.*?); isDirectory=false; length=(?P<size>\d+); .*?modification_time=(?P<time>\d+);",
    re.DOTALL,
)


def list_new(
    spark: SparkSession | None, options: CloudFilesOptions, known: Known, times: dict[str, int] | None = None
) -> list[FoundFile]:
    """Return the unknown files of a source, oldest first.

    Args:
        spark: for file systems other than the local one; None if the path is local.
        options: the path and the options that select files.
        known: the files that were seen. With `allow_overwrites`, a changed file counts as new.
        times: gets the modification time of each local folder before it is listed, in nanoseconds.

    Raises:
        SourceError: CLOUD_FILES_FOLDER_MISSING.
        OperationError: STORAGE_NOT_READABLE.
    """
    local = local_path(options.path)
    if local is not None:
        return list_local(local, options, known, times)
    assert spark is not None, options.path
    return in_order(_hadoop_files(spark, options, known), options)


def _hadoop_files(spark: SparkSession, options: CloudFilesOptions, known: Known) -> Iterator[FoundFile]:
    """List a Hadoop file system with Spark's parallel listing; one string transfers all files from the JVM."""
    for files in in_parts(_hadoop_statuses(spark, options), QUESTION):
        if options.allow_overwrites:
            yield from known.changed(files)
        else:
            unseen = set(known.unseen([file.uri for file in files]))
            yield from (file for file in files if file.uri in unseen)


def _hadoop_statuses(spark: SparkSession, options: CloudFilesOptions) -> Iterator[FoundFile]:
    accepts = glob_pattern(options.glob).fullmatch if options.glob else None
    for match in _STATUS.finditer(_hadoop_listing(spark, options.path)):
        path = match["path"]
        scheme, separator, rest = path.partition(":")
        uri = scheme + separator + encoded(rest).removeprefix("file:")
        name = path.rpartition("/")[2]
        if (accepts is None or accepts(name)) and not is_hidden(name):
            yield FoundFile(uri=uri, size=int(match["size"]), modified_ms=int(match["time"]))


def _hadoop_listing(spark: SparkSession, path: str) -> str:
    try:
        found = listed_below(spark, path)
    except Py4JJavaError as error:
        if "FileNotFoundException" in str(error.java_exception.toString()):
            raise SourceError("CLOUD_FILES_FOLDER_MISSING", path=path) from error
        problem = str(error.java_exception.toString())
        if missing_file_system(problem) is not None:
            advice = file_system_advice(path)
            raise UserError("FILE_SYSTEM_MISSING", path=path, problem=problem, advice=advice) from error
        raise OperationError("STORAGE_NOT_READABLE", path=path, problem=problem) from error
    if found is None and not GLOB.search(path):
        raise SourceError("CLOUD_FILES_FOLDER_MISSING", path=path)
    return found or ""
