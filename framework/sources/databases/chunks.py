"""Chunks of a snapshot and the streaming offset that records how far they are planned; independent of the dialect.

A planner of a dialect finds upper bounds and appends them with `advance`; `chunks_between` is the only place that turns
offsets into ranges, so a replayed batch reads exactly the ranges that were planned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from framework.foundation.errors import SourceError
from framework.sources.databases.tables import TableName

_VERSION = 1
BEGINNING = json.dumps({"version": _VERSION, "beginning": True})
"""The offset before the first plan, for a streaming source whose initial offset must not depend on the table."""

BATCH_CHUNKS = 8
"""Chunks of the largest size per micro-batch; it has proportionally more of smaller chunks."""

LARGEST_CHUNK_BYTES = 64 * 1024 * 1024
_FEWEST_CHUNKS = 12
_SMALLEST_CHUNK_BYTES = 16 * 1024 * 1024
_SLACK = 1.01
"""Margin of even chunks, so that the last chunk is slightly smaller, and no tiny additional chunk remains."""

_MOST_PERCENT_BEFORE_END = 99.0


class ChunkKind(StrEnum):
    """The kind of bounds of a chunk."""

    KEY = "key"
    TID = "tid"
    """Physical row addresses, for tables without a key."""
    NULL_KEY = "null_key"
    """No bounds: the rows with NULL in a key column."""
    WHOLE = "whole"
    """No bounds: all rows."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Values of the key columns, or one row address, as the exact text of the database.

    Bounds have no order in Python: only the database compares them.
    """

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    """A key column, with the properties that are needed to compare it exactly as in the plan.

    Args:
        name: as the database stores it.
        type_name: SQL of the type to which the text of a bound is cast, without modifiers and below any domain.
        collation: SQL of the collation of the comparison; None if the type has none.
        operator_schema: schema of the type's operators if the type is not built in, such as the schema of citext.
        nullable: whether rows may have NULL in it.
    """

    name: str
    type_name: str
    collation: str | None = None
    operator_schema: str | None = None
    nullable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBasis:
    """The facts that a plan depends on; a plan is valid as long as its basis is unchanged.

    Args:
        kind: KEY, TID or WHOLE.
        source_identity: identity of the database server.
        storage_id: changes when the database rewrites the table.
        key: the key columns, in the order of the index; () unless `kind` is KEY.
        generation: number of the snapshot of this table.
        continuity: distinguishes the table and its part of the log from replacements of the same name, as text of the
            dialect, when the last chunks were planned.
        position: the position of the log when the plan began; 0 if nothing reads the log.
        columns: the number of each column of the table; numbers are never reused.
        stamps: the stamp of each column, which changes when the column is altered.
        horizon: all transactions below it had ended when the plan began, as text of the dialect; MySQL: the offset.
    """

    kind: ChunkKind
    source_identity: str
    storage_id: str
    key: tuple[KeyColumn, ...] = ()
    generation: int = 0
    continuity: str = field(default="", compare=False)
    position: int = 0
    columns: tuple[tuple[str, int], ...] = ()
    stamps: tuple[tuple[str, str], ...] = ()
    horizon: str = ""

    @property
    def has_null_chunk(self) -> bool:
        """Whether the plan ends with a chunk of the rows with NULL in a key column."""
        return any(column.nullable for column in self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A range of rows that is read by one statement.

    Args:
        number: 1 for the first chunk of the snapshot.
        kind: the kind of the bounds.
        lower: exclusive; None if the chunk is open below.
        upper: inclusive; None if the chunk is open above.
    """

    number: int
    kind: ChunkKind
    lower: Bound | None = None
    upper: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffset:
    """The end of a planned batch of chunks.

    Args:
        basis: the facts that the plan depends on.
        chunks_planned: number of chunks from the first one to the end of this batch.
        rows_planned: estimate of their rows.
        upper_bounds: upper bounds of the bounded chunks of this batch, ascending.
        finished: whether this batch has the last chunks: the chunk that is open above, and the chunk of NULL keys if
            there is one.
    """

    basis: PlanBasis
    chunks_planned: int
    rows_planned: int
    upper_bounds: tuple[Bound, ...]
    finished: bool

    @property
    def batch_size(self) -> int:
        """Number of chunks of this batch."""
        last = 1 + self.basis.has_null_chunk if self.finished else 0
        return len(self.upper_bounds) + last

    def to_json(self) -> str:
        """Return the offset as JSON, for `read_offset`."""
        return json.dumps(
            {
                "version": _VERSION,
                "kind": self.basis.kind.value,
                "source": self.basis.source_identity,
                "storage": self.basis.storage_id,
                "generation": self.basis.generation,
                "continuity": self.basis.continuity,
                "position": self.basis.position,
                "columns": dict(self.basis.columns),
                "stamps": dict(self.basis.stamps),
                "horizon": self.basis.horizon,
                "key": [_key_to_json(column) for column in self.basis.key],
                "chunks": self.chunks_planned,
                "rows": self.rows_planned,
                "bounds": [list(bound.values) for bound in self.upper_bounds],
                "finished": self.finished,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> SnapshotOffset:
        """Read an offset of `to_json`.

        Raises:
            SourceError: SNAPSHOT_OFFSET_INVALID, with the problem.
        """
        offset = read_offset(text)
        if offset is None:
            raise _invalid(problem="it is the beginning of the snapshot")
        return offset


def read_offset(text: str) -> SnapshotOffset | None:
    """Read an offset of `SnapshotOffset.to_json`; None for `BEGINNING`.

    Raises:
        SourceError: SNAPSHOT_OFFSET_INVALID, with the problem.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _invalid(problem="it is not JSON") from error
    if not isinstance(value, dict):
        raise _invalid(problem="it is not a JSON object")
    if value.get("version") != _VERSION:
        raise _invalid(problem=f"its version is {value.get('version')!r}, but this release reads version {_VERSION}")
    if value.get("beginning") is True:
        return None
    offset = _offset_from_json(value)
    _check(offset)
    return offset


def advance(
    basis: PlanBasis, previous: SnapshotOffset | None, *, bounds: tuple[Bound, ...], rows: int, finished: bool
) -> SnapshotOffset:
    """Return the offset of the next batch, with these upper bounds.

    Args:
        basis: of the plan; the basis of `previous` if there is a previous offset.
        previous: the offset of the batch before; None for the first batch.
        bounds: upper bounds of the next chunks, ascending and above those of `previous`.
        rows: estimate of the rows of the chunks of the batch.
        finished: whether the batch has the last chunks.
    """
    batch = SnapshotOffset(basis=basis, chunks_planned=0, rows_planned=rows, upper_bounds=bounds, finished=finished)
    return SnapshotOffset(
        basis=basis,
        chunks_planned=batch.batch_size + (previous.chunks_planned if previous else 0),
        rows_planned=rows + (previous.rows_planned if previous else 0),
        upper_bounds=bounds,
        finished=finished,
    )


def chunks_between(start: SnapshotOffset | None, end: SnapshotOffset | None) -> tuple[Chunk, ...]:
    """Return the chunks of the batch that ends at `end`, exactly as planned.

    Args:
        start: the offset before the batch; None for the beginning.
        end: an offset that was planned from `start`, or `start` itself.

    Raises:
        SourceError: SNAPSHOT_OFFSET_INVALID if `end` was not planned from `start`.
    """
    if end is None or end == start:
        if end is None and start is not None:
            raise _invalid(problem="the end of the batch lies before its start")
        return ()
    planned_before = start.chunks_planned if start else 0
    if start is not None and (start.finished or start.basis != end.basis):
        raise _invalid(problem="the batch starts in another plan than it ends in")
    if planned_before + end.batch_size != end.chunks_planned:
        raise _invalid(problem=f"its {end.batch_size} chunks do not follow chunk {planned_before}")
    lowest = start.upper_bounds[-1] if start else None
    return _chunks(end, first=planned_before + 1, lowest=lowest)


def default_chunk_bytes(table_bytes: int) -> int:
    """Return the size of chunks; a mid-size table gets more and smaller chunks, so that all cores stay busy.

    Examples:
        >>> [default_chunk_bytes(size * 2**20) // 2**20 for size in (10, 340, 10_000)]
        [16, 28, 64]
    """
    even = round(table_bytes * _SLACK / _FEWEST_CHUNKS)
    return min(max(even, _SMALLEST_CHUNK_BYTES), LARGEST_CHUNK_BYTES)


def percent_done(offset: SnapshotOffset | None, estimated_rows: int) -> float:
    """Return the share of the table's rows up to the offset, in percent; 100 only for the last offset."""
    if offset is None:
        return 0.0
    if offset.finished:
        return 100.0
    if estimated_rows <= 0:
        return 0.0
    return min(100.0 * offset.rows_planned / estimated_rows, _MOST_PERCENT_BEFORE_END)


def remaining_seconds(
    offset: SnapshotOffset | None, estimated_rows: int, *, rows_read: int, elapsed_seconds: float
) -> float | None:
    """Return the estimated time until the snapshot ends, at the rate of the rows read so far; None if that is unknown.

    Args:
        offset: the last offset whose chunks are read.
        estimated_rows: rows of the table.
        rows_read: rows that were read in `elapsed_seconds`, for example since the last start.
        elapsed_seconds: time of that reading.
    """
    if offset is not None and offset.finished:
        return 0.0
    if rows_read <= 0 or elapsed_seconds <= 0 or estimated_rows <= 0:
        return None
    left = max(estimated_rows - (offset.rows_planned if offset else 0), 0)
    return left * elapsed_seconds / rows_read


def plan_fault(table: TableName, reason: str) -> SourceError:
    """Return the error of a plan whose basis has changed."""
    return SourceError("SNAPSHOT_PLAN_INVALID", table=table, reason=reason)


def refuse_other_table(table: TableName, planned: str | int, found: str | int) -> None:
    """Refuse a different table under the name of the planned table; 0 and an empty text mean unknown.

    Raises:
        SourceError: SNAPSHOT_TABLE_REPLACED.
    """
    if planned and found != planned:
        raise SourceError("SNAPSHOT_TABLE_REPLACED", table=table, planned=planned, found=found)


def column_fault(table: TableName, column: str, *, found: str, expected: str) -> SourceError:
    """Return the error of a column whose Spark type has changed since the query was planned."""
    return SourceError(
        "SNAPSHOT_COLUMN_CHANGED", table=table, column=column, found=found.lower(), expected=expected.lower()
    )


def _chunks(end: SnapshotOffset, *, first: int, lowest: Bound | None) -> tuple[Chunk, ...]:
    kind = end.basis.kind
    lowers = (lowest, *end.upper_bounds)
    uppers: tuple[Bound | None, ...] = (*end.upper_bounds, None) if end.finished else end.upper_bounds
    # The two differ in length by one unless the batch is the last one.
    ranges = zip(lowers, uppers, strict=False)
    chunks = [
        Chunk(number=first + position, kind=kind, lower=lower, upper=upper)
        for position, (lower, upper) in enumerate(ranges)
    ]
    if end.finished and end.basis.has_null_chunk:
        chunks.append(Chunk(number=first + len(chunks), kind=ChunkKind.NULL_KEY))
    return tuple(chunks)


def _key_to_json(column: KeyColumn) -> dict[str, object]:
    return {
        "name": column.name,
        "type": column.type_name,
        "collation": column.collation,
        "operators": column.operator_schema,
        "nullable": column.nullable,
    }


def _offset_from_json(value: Mapping[str, Any]) -> SnapshotOffset:
    try:
        return SnapshotOffset(
            basis=PlanBasis(
                kind=ChunkKind(_typed(value, "kind", str)),
                source_identity=_typed(value, "source", str),
                storage_id=_typed(value, "storage", str),
                generation=_typed(value, "generation", int),
                continuity=_typed(value, "continuity", str),
                position=_typed(value, "position", int),
                columns=tuple(_typed(value, "columns", dict).items()),
                stamps=tuple(_typed(value, "stamps", dict).items()),
                horizon=_typed(value, "horizon", str),
                key=tuple(_key_from_json(column) for column in _typed(value, "key", list)),
            ),
            chunks_planned=_typed(value, "chunks", int),
            rows_planned=_typed(value, "rows", int),
            upper_bounds=tuple(_bound_from_json(bound) for bound in _typed(value, "bounds", list)),
            finished=_typed(value, "finished", bool),
        )
    except (TypeError, ValueError, KeyError) as error:
        raise _invalid(problem=f"it has a missing or malformed field: {error}") from error


def _key_from_json(value: Mapping[str, Any]) -> KeyColumn:
    return KeyColumn(
        name=_typed(value, "name", str),
        type_name=_typed(value, "type", str),
        collation=None if value["collation"] is None else _typed(value, "collation", str),
        operator_schema=None if value["operators"] is None else _typed(value, "operators", str),
        nullable=_typed(value, "nullable", bool),
    )


def _bound_from_json(values: object) -> Bound:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("bounds")
    return Bound(tuple(values))


def _typed(value: Mapping[str, Any], field: str, kind: type) -> Any:
    found = value[field]
    # In Python a bool is an int.
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise TypeError(field)
    return found


def _check(offset: SnapshotOffset) -> None:
    basis = offset.basis
    width = {ChunkKind.KEY: len(basis.key), ChunkKind.TID: 1, ChunkKind.WHOLE: 0}.get(basis.kind)
    if width is None or (basis.kind == ChunkKind.KEY) != bool(basis.key):
        raise _invalid(problem=f"a plan by {basis.kind.value} with {len(basis.key)} key columns does not exist")
    if any(len(bound.values) != width or not width for bound in offset.upper_bounds):
        raise _invalid(problem="a bound has another number of values than the key has columns")
    if not offset.finished and not offset.upper_bounds:
        raise _invalid(problem="it has neither bounds nor the end of the snapshot")
    if offset.chunks_planned < offset.batch_size:
        raise _invalid(problem="it counts fewer chunks than its batch has")


def _invalid(*, problem: str) -> SourceError:
    return SourceError("SNAPSHOT_OFFSET_INVALID", problem=problem)
