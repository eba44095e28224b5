"""A micro-batch whose tasks write files: it has one row about each file instead of the rows in the file.

Used for streams in the process of the update. Each evaluation writes new files, so a batch is evaluated only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from framework.engine.plans.relations import range_as_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.sources.staging.files import StagedFile

FILES_SCHEMA = StructType(
    [
        StructField("name", StringType()),
        StructField("rows", LongType()),
        StructField("bytes", LongType()),
        StructField("stats", StringType()),
        StructField("is_stamped", BooleanType()),
        StructField("has_distinct_keys", BooleanType()),
    ]
)
"""The fields of `StagedFile`; the name is relative to the folder, null for a chunk without rows, which has no file."""


def files_of_tasks(spark: SparkSession, count: int, write: Callable[[int], StagedFile]) -> DataFrame:
    """Return a batch whose tasks write one file each; it has one row per file with the fields of `FILES_SCHEMA`.

    Args:
        spark: the session of the query.
        count: the number of tasks.
        write: writes the file of a task, given its number from 0; each task gets a copy.
    """

    def described(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield _described(file_fields(write(number)))

    return _numbers(spark, count).mapInArrow(described, FILES_SCHEMA)


def no_files(spark: SparkSession) -> DataFrame:
    """Return a batch without rows."""
    nulls = (f"CAST(NULL AS {field.dataType.simpleString()}) AS {field.name}" for field in FILES_SCHEMA.fields)
    return _numbers(spark, 0).selectExpr(*nulls)


def file_fields(file: StagedFile) -> dict[str, Any]:
    """Return the fields of `FILES_SCHEMA` of a file."""
    name = None if file.path is None else file.path.rpartition("/")[2]
    return {**asdict(file), "name": name}


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """Return the numbers from 0, each in a task of its own, as the batch of a stream."""
    return range_as_stream(spark.range(0, count, 1, max(count, 1)))


def _described(file: Mapping[str, Any]) -> pa.RecordBatch:
    schema = to_arrow_schema(FILES_SCHEMA)
    return pa.RecordBatch.from_pylist([{field: file[field] for field in FILES_SCHEMA.names}], schema=schema)
