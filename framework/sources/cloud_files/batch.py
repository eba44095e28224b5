"""`read_files` without `STREAM`: all files of a folder as a batch, with their present columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.foundation.errors import UserError
from framework.sources.cloud_files.columns.file_groups import FileGroup
from framework.sources.cloud_files.columns.schemas import batch_schema
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    NothingKnown,
)
from framework.sources.cloud_files.rows import BatchReader
from framework.sources.cloud_files.settings.given_options import parse_options
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_OF_STREAMS = (
    "includeExistingFiles",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "allowOverwrites",
    "cleanSource",
    "schemaLocation",
)


def read_batch(spark: SparkSession, path: str, given: Mapping[str, str], schema: StructType | None) -> DataFrame:
    """Return the rows of all files.

    Args:
        spark: the session of the query.
        path: the folder, or a glob.
        given: the options of a reader of `cloudFiles`, as the user spells them.
        schema: the columns; None if they are inferred from all files.

    Raises:
        UserError: an option is wrong, or has no effect in a batch; the columns can't be read.
    """
    lower = {name.lower(): value for name, value in given.items()}
    for name in _OF_STREAMS:
        value = lower.get(f"cloudfiles.{name.lower()}")
        if value is not None:
            why = "a batch reads all files, each time; read `STREAM read_files(…)`"
            raise UserError("CLOUD_FILES_OPTION_UNSUPPORTED", option=name, value=value, why=why)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    options = parse_options(path, given, has_schema=schema is not None, zone=zone)
    if options.skip_rows:
        why = "a batch reads all files by the position of their columns; read `STREAM read_files(…)`"
        raise UserError("CLOUD_FILES_OPTION_UNSUPPORTED", option="skipRows", value=str(options.skip_rows), why=why)
    files = list_new(spark, options, NothingKnown())
    columns, groups = batch_schema(spark, options, schema, files)
    in_time = _is_selected(options)
    parts = []
    for group in groups:
        # The path of the query stays the folder, so that the next update looks there for new files.
        is_of_group = None if len(groups) == 1 else _is_in(group)
        both = [each for each in (in_time, is_of_group) if each is not None]
        selected = reduce(lambda first, second: first & second, both) if both else None
        parts.append(BatchReader.of_folder(spark, options, columns, group.columns, selected))
    return reduce(lambda first, second: first.union(second), parts)


def _is_in(group: FileGroup) -> Column:
    """Return the condition that a row is from a file of the group; Spark then opens no other file."""
    spellings = [file.uri for file in group.files]
    spellings += [f"file:///{uri.removeprefix('file:').lstrip('/')}" for uri in spellings if uri.startswith("file:")]
    return F.col("_metadata.file_path").isin(spellings)


def _is_selected(options: CloudFilesOptions) -> Column | None:
    """Return the condition on the modification times of files; None if there is none."""
    time = F.col("_metadata.file_modification_time")
    bounds = [
        time > F.timestamp_millis(F.lit(round(options.modified_after * 1000)))
        if options.modified_after is not None
        else None,
        time < F.timestamp_millis(F.lit(round(options.modified_before * 1000)))
        if options.modified_before is not None
        else None,
    ]
    given = [bound for bound in bounds if bound is not None]
    return None if not given else given[0] if len(given) == 1 else given[0] & given[1]
