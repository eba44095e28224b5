"""Reads of files in a separate session, whose settings differ from those of the query.

Spark applies some settings to every plan of a session: case sensitivity of names, and the number of files per task. The
rows enter the query unchanged, with Spark's `_metadata` as an ordinary column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from framework.engine.plans.relations import executed_rows
from framework.engine.sessions.session import cloned
from framework.engine.streams.readers import csv_of_lines
from framework.sources.cloud_files.files.manifest import manifest_reader

if TYPE_CHECKING:
    from pyspark.sql.readwriter import DataFrameReader

_PLACE = "__sluice_place"
_OF_VALUES = frozenset(
    {
        "dateformat",
        "timestampformat",
        "timestampntzformat",
        "locale",
        "timezone",
        "nullvalue",
        "nanvalue",
        "positiveinf",
        "negativeinf",
        "preferdate",
        "enabledatetimeparsingfallback",
        "samplingratio",
    }
)
"""CSV reader options for the format of values."""
_IN_PARTITION = 2**33 - 1
"""The part of `monotonically_increasing_id` that counts the rows of a partition."""

EXACT_NAMES = {"spark.sql.caseSensitive": "true"}
"""Setting under which names that differ in case are different fields."""
_ONE_FILE_PER_TASK = {
    "spark.sql.files.openCostInBytes": str(2**40),
    "spark.sql.files.maxPartitionBytes": str(2**40),
    "spark.sql.files.minPartitionNum": "1",
}


def session_with(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a copy of a session with other settings."""
    copy = cloned(spark)
    for name, value in settings.items():
        copy.conf.set(name, value)
    if settings is _ONE_FILE_PER_TASK:
        copy.conf.unset("spark.sql.files.maxPartitionNum")
    return copy


def read_exactly(
    spark: SparkSession,
    columns: StructType,
    names: Sequence[str],
    load: Callable[[DataFrameReader], DataFrame],
    *,
    streams: bool,
    at_once: bool,
) -> DataFrame:
    """Return the rows of files with columns whose names may differ only in case.

    Args:
        spark: the session of the query.
        columns: the columns as the files have them.
        names: the resulting names, which differ in more than case.
        load: gives the reader its format and options, and loads.
        streams: whether the rows belong to a stream.
        at_once: whether the rows are read now and kept by the executors. Required if the format's reader looks up the
            setting in its tasks, which have the settings of the running query.
    """
    other = session_with(spark, EXACT_NAMES)
    frame = load(manifest_reader(other).schema(columns))
    named = frame.select("*", "_metadata").toDF(*names, "_metadata")
    named = named.localCheckpoint() if at_once else named
    return _rows_in(spark, named, load, streams=streams)


def read_without_first(
    spark: SparkSession,
    columns: StructType,
    skipped: int,
    load: Callable[[DataFrameReader], DataFrame],
    *,
    streams: bool,
) -> DataFrame:
    """Return the rows of files without the first `skipped` rows of each file.

    A task reads one file in order, so a row has the same position in the task as in the file.

    Args:
        spark: the session of the query.
        columns: the columns of the files.
        skipped: the number of rows to leave out.
        load: gives the reader its format and options, and loads.
        streams: whether the rows belong to a stream.
    """
    other = session_with(spark, _ONE_FILE_PER_TASK)
    place = F.monotonically_increasing_id().bitwiseAND(F.lit(_IN_PARTITION)).alias(_PLACE)
    frame = load(manifest_reader(other).schema(columns)).select("*", "_metadata", place)
    return _rows_in(spark, frame.where(F.col(_PLACE) >= skipped).drop(_PLACE), load, streams=streams)


def types_without_first(
    spark: SparkSession,
    columns: StructType,
    skipped: int,
    load: Callable[[DataFrameReader], DataFrame],
    options: Mapping[str, str],
) -> StructType:
    """Return the types that Spark infers for CSV files without their first rows.

    Args:
        spark: the session of the query.
        columns: the columns, as texts.
        skipped: the number of rows to leave out.
        load: loads the files.
        options: of the reader.
    """
    rows = read_without_first(spark, columns, skipped, load, streams=False)
    lines = rows.select(F.to_csv(F.struct(*columns.fieldNames()), {"quoteAll": "true"}))
    values = {name: value for name, value in options.items() if name in _OF_VALUES}
    return csv_of_lines(spark.read.options(**values).option("inferSchema", "true"), lines).schema


def _rows_in(
    spark: SparkSession, frame: DataFrame, load: Callable[[DataFrameReader], DataFrame], *, streams: bool
) -> DataFrame:
    """Return the rows of a frame of another session."""
    rows = executed_rows(frame, spark, streams=streams)
    if streams:
        return rows
    # The next update looks for new files in the folders of the query.
    folder = load(manifest_reader(spark).schema(StructType([StructField("_", StringType())])))
    nothing = [F.lit(None).cast(each.dataType).alias(each.name) for each in rows.schema.fields]
    return rows.union(folder.select(*nothing).where(F.lit(False)))  # noqa: FBT003 - a value, not a choice
