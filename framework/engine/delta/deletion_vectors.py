"""Deletion vectors for rows that a transaction removes, written by Delta in a job, or on the driver for few rows."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from framework.engine.delta.table_version import DELTA, each, row_count
from framework.engine.jvm.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from framework.engine.delta.table_version import TableVersion

LOCATION = "__sluice_location"
"""The location of a row: a hash of its file's path, and its row number in that file.

Many rows are shuffled and sorted together with their location, and a path is longer than most rows.
"""

_FILE, _INDEX, _PATH = "file", "index", "path"
LOCATION_TYPE = StructType([StructField(_FILE, LongType()), StructField(_INDEX, LongType())])
_COMMANDS = f"{DELTA}.commands"
_BITMAPS = f"{DELTA}.deletionvectors.RoaringBitmapArray"
_TABLE_HAS_VECTORS = True
_STATISTICS_PREFIX = 32


def location_of(path: Column, index: Column) -> Column:
    """Return the `LOCATION` of a row from the path of its file and its row number there."""
    return F.struct(F.xxhash64(path).alias(_FILE), index.alias(_INDEX)).alias(LOCATION)


def write_vectors(version: TableVersion, files: Any, locations: DataFrame) -> Any:
    """Write the deletion vectors for any number of rows, by Delta's job.

    Args:
        version: the version of the table that has the rows.
        files: the files that were read, a Scala `Seq[AddFile]`.
        locations: the `LOCATION` of each row to remove.

    Returns:
        A Scala `Seq[DeletionVectorResult]`, one for each file that loses rows.
    """
    some = java_class("scala.Option").apply
    always = java_class("org.apache.spark.sql.catalyst.expressions.Literal").TrueLiteral()
    # A left join: Delta raises an error for a row without a path.
    located = locations.select(f"{LOCATION}.*").join(F.broadcast(_paths(version, files)[0]), _FILE, "left")
    return java_class(f"{_COMMANDS}.DeletionVectorBitmapGenerator").buildRowIndexSetsForFilesMatchingCondition(
        version.session._jsparkSession,
        version.transaction,
        _TABLE_HAS_VECTORS,
        located._jdf,
        files,
        always,
        some(F.col(_PATH)._jc),
        some(F.col(_INDEX)._jc),
    )


def write_few_vectors(version: TableVersion, files: Any, locations: Iterable[Row]) -> Any:
    """Write the deletion vectors for few rows on the driver, without a job.

    Delta's job broadcasts the files twice and then groups the rows by file: three of the eight jobs of a batch of a few
    events. Here the same Delta code is called per file, on the driver.

    Args:
        version: the version of the table that has the rows.
        files: the files that were read, a Scala `Seq[AddFile]`.
        locations: the `LOCATION` of each row to remove.

    Returns:
        A Scala `Seq[DeletionVectorResult]`, one for each file that loses rows.
    """
    indexes: dict[int, list[int]] = defaultdict(list)
    for location in locations:
        indexes[location[_FILE]].append(location[_INDEX])
    paths = _paths(version, files)[1]
    position = {file: number for number, file in enumerate(paths)}
    removed = [_removed_rows(paths[file], files.apply(position[file]), indexes[file]) for file in indexes]
    prefix_length = java_class(f"{DELTA}.util.Utils").getRandomPrefixLength(version.snapshot.metadata())
    write = java_class(f"{_COMMANDS}.DeletionVectorWriter").createMapperToStoreDeletionVectors(
        version.session._jsparkSession, version.log.newDeltaHadoopConf(), version.log.dataPath(), prefix_length
    )
    return write.apply(version.sequence(*removed).iterator()).toList()


def removals(version: TableVersion, files: Any, vectors: Any, *, has_statistics: bool) -> list[Any]:
    """Return the log actions for files that lose rows.

    Args:
        version: the version of the table that has the files.
        files: the files that were read, a Scala `Seq[AddFile]`.
        vectors: the result of `write_vectors` or `write_few_vectors`.
        has_statistics: whether the `AddFile`s contain the statistics from the log.
    """
    helper = java_class(f"{_COMMANDS}.DMLWithDeletionVectorsHelper")
    by_path = helper.generateCandidateFileMap(version.log.dataPath(), files)
    touched = helper.findFilesWithMatchingRows(version.transaction, by_path, vectors)
    # A deletion vector requires the number of rows.
    if has_statistics and all(row_count(file.fileLogEntry()) is not None for file in each(touched)):
        return [action for file in each(touched) for action in _replaced(version, file)]
    session = version.session._jsparkSession
    return [*each(helper.processUnmodifiedData(session, touched, version.snapshot, _STATISTICS_PREFIX)._1())]


def _replaced(version: TableVersion, file: Any) -> list[Any]:
    """Return the log actions for a file that lost rows."""
    if file.isFullyReplaced():
        return [file.fileLogEntry().removeWithTimestamp(version.now(), True)]  # noqa: FBT003 - a JVM call
    pair = file.fileLogEntry().removeRows(file.newDeletionVector(), True, True)  # noqa: FBT003 - a JVM call
    return [pair._1(), pair._2()]


def _removed_rows(path: str, file: Any, indexes: Sequence[int]) -> Any:
    """Return the rows that a file loses, a `DeletionVectorData`; Delta adds them to the rows deleted before."""
    some = java_class("scala.Option").apply
    vector = file.deletionVector()
    buffer = java_class("java.nio.ByteBuffer").wrap(struct.pack(f">{len(indexes)}q", *indexes)).asLongBuffer()
    array = java_class("java.nio.LongBuffer").allocate(len(indexes)).put(buffer).array()
    bitmap = java_class(_BITMAPS).apply(java_class("scala.collection.immutable.ArraySeq").unsafeWrapArray(array))
    serialized = bitmap.serializeAsByteArray(java_class(f"{_BITMAPS}Format").Portable())
    return java_class(f"{_COMMANDS}.DeletionVectorData")(
        path, some(None if vector is None else vector.serializeToBase64()), serialized, bitmap.cardinality()
    )


def _paths(version: TableVersion, files: Any) -> tuple[DataFrame, dict[int, str]]:
    """Return the path of each read file by its hash: as rows, and as a dictionary in the order of the files."""
    listed = version.paths(files)
    paths = version.texts(listed).select(F.col("value").alias(_PATH))
    hashed = paths.select(F.xxhash64(_PATH).alias(_FILE), _PATH)
    # No job: Spark computes a local relation when it plans it.
    by_hash = {row[_FILE]: row[_PATH] for row in hashed.collect()}
    assert len(by_hash) == len(listed), "two files have one hash"
    return hashed, by_hash
