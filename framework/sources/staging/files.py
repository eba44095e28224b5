"""Parquet files of chunks in staging, with the statistics that Delta's log keeps of a file.

Used by the reader of chunks. A file becomes visible only when a commit adds it to the staging table. Each attempt
writes under a name of its own, so every failure is safe:

* The process dies while it writes: the file is incomplete (on an object store it does not even appear), and no commit
  names it. The chunk is read again into another file.
* It dies after the file is complete and before the commit: the file is an orphan. The batch is replayed, reads the same
  range into other files, and commits those.
* It dies after the commit and before the checkpoint records it: the batch is replayed into other files, and the commit
  is skipped because the table has the batch's transaction identifier already. The files of the replay are orphans.
* An abandoned attempt that still runs (a lost executor, a speculative task) writes its own file and can't change a
  committed one. If all attempts shared one name, it would replace the content behind the committed size and statistics.

Orphans cost space only; the next start of the flow removes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from framework.sources.staging.row_stamps import RowStamps, can_add

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from framework.foundation.added_columns import AddedColumn

_CODEC = "snappy"
_ROW_GROUP_BYTES = 32 * 1024 * 1024
_MOST_COLUMNS = 32  # Delta's default for columns with statistics
_LONGEST_TEXT = 32  # Delta's length of texts in statistics
_GREATEST_LETTER = "\U0010ffff"
# Without this key Spark reads old dates as configured: as errors, or in the Julian calendar.
_GREGORIAN = {"org.apache.spark.version": "4.0.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A Parquet file that is not committed yet.

    Args:
        path: in the file system, below the folder; None if the chunk has no rows, so that there is no file.
        rows: number of rows.
        bytes: size of the file.
        stats: JSON for the field `stats` of an `add` action of Delta's log.
        is_stamped: whether it has the added column.
        has_distinct_keys: whether no two rows have the same key; false if unknown.
    """

    path: str | None
    rows: int
    bytes: int
    stats: str
    is_stamped: bool = False
    has_distinct_keys: bool = False


def write_staged_file(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    folder: str,
    name: str,
    filesystem: FileSystem,
    *,
    added: AddedColumn | None = None,
) -> StagedFile:
    """Write batches into a new Parquet file, with at most one row group in memory.

    Args:
        batches: of the schema.
        schema: of the file; columns of one leaf each, such as numbers, texts or lists of them.
        folder: an existing folder.
        name: beginning of the file's name; the rest is unique.
        filesystem: the file system of the folder.
        added: a column that is added to the rows; without statistics.

    Raises:
        UnhashableError: the hash of the added column can't be computed for a row.
    """
    stamps = None if added is None or not can_add(added, schema) else RowStamps(added, schema)
    statistics = _Statistics(schema)
    if stamps is not None:
        batches, schema = map(stamps.added, batches), stamps.schema
    schema = schema.with_metadata(_GREGORIAN)
    groups = _row_groups(batches, schema)
    first = next(groups, None)
    if first is None:
        return StagedFile(path=None, rows=0, bytes=0, stats='{"numRecords":0}')
    path = f"{folder.rstrip('/')}/{name}-{uuid4().hex}.{_CODEC}.parquet"
    try:
        with filesystem.open_output_stream(path) as sink:
            # Without a metadata collector, because it hides the error of a full disk behind its own error.
            with pq.ParquetWriter(sink, schema, compression=_CODEC, store_decimal_as_integer=True) as writer:
                for group in chain((first,), groups):
                    statistics.add(group)
                    writer.write_table(group, row_group_size=group.num_rows)
            size = sink.tell()
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(path)
        raise
    return StagedFile(
        path=path,
        rows=statistics.rows,
        bytes=size,
        stats=statistics.to_json(writer.writer.metadata),
        is_stamped=stamps is not None,
        has_distinct_keys=stamps is not None and stamps.are_keys_distinct(),
    )


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pending.append(batch.replace_schema_metadata(schema.metadata))
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(pending, schema)
            pending, size = [], 0
    if pending:
        yield pa.Table.from_batches(pending, schema)


class _Statistics:
    """Counts of NULLs from Arrow; minima and maxima from Parquet's metadata, where the writer computes them anyway."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self.nulls: list[int] = []
        self.unordered: set[int] = set()

    def add(self, table: pa.Table) -> None:
        self.rows += table.num_rows
        columns = table.columns[: len(self.schema)]
        counts = [column.null_count for column in columns]
        self.nulls = [a + b for a, b in zip(self.nulls or [0] * len(counts), counts, strict=True)]
        for index, column in enumerate(columns):
            # Parquet's maximum ignores NaN, but Spark sorts NaN as the greatest number.
            if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
                self.unordered.add(index)

    def to_json(self, metadata: pq.FileMetaData) -> str:
        minima: dict[str, str] = {}
        maxima: dict[str, str] = {}
        indexes = range(min(len(self.schema), _MOST_COLUMNS))
        for index in indexes:
            bounds = None if index in self.unordered else _bounds(metadata, index)
            if bounds is None:
                continue
            lowest, greatest = _lower_text(bounds[0]), _upper_text(bounds[1])
            if lowest is not None and greatest is not None:
                minima[self.schema.field(index).name] = lowest
                maxima[self.schema.field(index).name] = greatest
        nulls = {self.schema.field(index).name: str(self.nulls[index]) for index in indexes}
        parts = {
            "numRecords": str(self.rows),
            "minValues": _object(minima),
            "maxValues": _object(maxima),
            "nullCount": _object(nulls),
        }
        return _object(parts)


def _bounds(metadata: pq.FileMetaData, index: int) -> tuple[Any, Any] | None:
    """Return the least and greatest value of a column; None if they are unknown or the column has only NULLs."""
    lowest, greatest = [], []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(index).statistics
        if statistics is not None and statistics.null_count == metadata.row_group(group).num_rows:
            continue
        if statistics is None or not statistics.has_min_max:
            return None
        lowest.append(statistics.min)
        greatest.append(statistics.max)
    return (min(lowest), max(greatest)) if lowest else None


def _lower_text(value: object) -> str | None:
    """Return a JSON lower bound of a value; None if Delta keeps no bounds of its type."""
    if isinstance(value, str):
        return json.dumps(value[:_LONGEST_TEXT], ensure_ascii=False)
    if isinstance(value, datetime):
        return _time_text(value.replace(microsecond=value.microsecond // 1000 * 1000))
    return _exact_text(value)


def _upper_text(value: object) -> str | None:
    """Return a JSON upper bound of a value; None if there is none or Delta keeps no bounds of its type."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_TEXT:
            return json.dumps(value, ensure_ascii=False)
        # The bound is a prefix plus the greatest character, which fails if the text continues with that character.
        raised = value[:_LONGEST_TEXT] + _GREATEST_LETTER
        return None if value[_LONGEST_TEXT] == _GREATEST_LETTER else json.dumps(raised, ensure_ascii=False)
    if isinstance(value, datetime):
        missing = -value.microsecond % 1000
        try:
            return _time_text(value + timedelta(microseconds=missing))
        except OverflowError:
            return None
    return _exact_text(value)


def _exact_text(value: object) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if abs(value) != float("inf") else None
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, date):
        return json.dumps(value.isoformat())
    return None


def _time_text(value: datetime) -> str:
    """Return a time in milliseconds, which all readers of Delta's log support; with Z for a point in time."""
    text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return json.dumps(text if value.tzinfo is None else f"{text}Z")


def _object(values: dict[str, str]) -> str:
    """Return a JSON object of values that are already JSON, so that decimals keep all digits."""
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in values.items()) + "}"
