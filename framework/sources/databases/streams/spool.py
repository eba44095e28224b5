"""Parquet files of changes that are read from the log and not yet durable at the target.

A batch is a folder that is renamed into place when it is complete, so a reader never sees an incomplete batch. The
files are a cache: leftovers of a killed process are removed, and their rows are read from the log again.
"""

from __future__ import annotations

import shutil
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind, RowShape, Transaction

_PANDAS = "pandas"


class _Finder:
    """Hides pandas from PyArrow's first lookup; when the process imports pandas, PyArrow looks again."""

    def __init__(self) -> None:
        self.asking: int | None = threading.get_ident()

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Find pandas for all threads except the hiding one; part of the protocol of Python's finders."""
        if fullname != _PANDAS:
            return None
        if self.asking == threading.get_ident():
            raise ModuleNotFoundError(name=fullname)
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """Runs the module's own loader."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then let PyArrow look for it."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _ = pa.lib._pandas_api.pd  # noqa: SLF001 - the only way to let it look again


SCHEMA = pa.schema(
    [
        ("source_table", pa.string()),
        ("operation", pa.string()),
        ("generation", pa.int64()),
        ("position", pa.int64()),
        ("ordinal", pa.int64()),
        ("commit_time", pa.timestamp("us", "UTC")),
        ("schema_version", pa.int64()),
        ("payload", pa.string()),
    ]
)
"""Columns of the rows of changes."""

_DICTIONARIES = ["source_table", "operation", "generation", "position", "commit_time", "schema_version"]
_UNFINISHED = "unfinished-"
_PRIVATE = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLimits:
    """Limits at which rows are written from memory to a file.

    Args:
        group_rows: rows of a row group.
        group_bytes: bytes of payload of a row group.
        file_rows: rows of a file.
    """

    group_rows: int = 20_000
    group_bytes: int = 4 << 20
    file_rows: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledFile:
    """A file of a batch.

    Args:
        path: where it is.
        rows: number of rows.
        groups: number of row groups.
        bytes: its size.
    """

    path: Path
    rows: int
    groups: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledBatch:
    """The changes of all transactions that end after `start` and not after `end`.

    Args:
        start: the end of the previous batch.
        end: the end of a transaction, or a later position before the next end of a transaction.
        files: in the order of position and ordinal.
        rows: number of rows.
        transactions: number of transactions with rows.
        rows_by_table: number of rows by `schema.table`.
        relations: the schemas of the rows, by table and version.
        caught_up: whether everything that was committed when the read began is in this batch or an earlier one.
    """

    start: int
    end: int
    files: tuple[SpooledFile, ...]
    rows: int
    transactions: int
    rows_by_table: Mapping[str, int]
    relations: tuple[RowShape, ...]
    caught_up: bool


class _Run(NamedTuple):
    """Rows of one transaction in the buffer: where they start, and the ordinal of the first."""

    start: int
    first_ordinal: int
    transaction: Transaction


class Completion(Protocol):
    """Completes the pending rows of a buffer before they are written."""

    def __call__(self, buffer: ChangeBuffer) -> int:
        """Fill the payloads of the pending rows, and return their size in bytes."""
        ...


class Spool:
    """A folder of batches, for one reader at a time.

    Args:
        folder: of this reader alone; left-over batches in it are removed. If it exists, it keeps its mode and owner.
        limits: when rows are written to files.
    """

    def __init__(self, folder: Path, limits: SpoolLimits | None = None) -> None:
        self.folder = folder
        self.limits = limits or SpoolLimits()
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        for left in folder.iterdir():
            shutil.rmtree(left)
        defer_pandas()

    def remove_until(self, position: int) -> None:
        """Remove batches that end at or before a position."""
        for path in self.folder.iterdir():
            if not path.name.startswith(_UNFINISHED) and int(path.name.partition("-")[2], 16) <= position:
                shutil.rmtree(path)


class SpoolWriter:
    """Writes one batch.

    Args:
        spool: the spool of the batch.
        generation: of its rows.
        buffer: holds the rows until they are written.
        kinds: the kinds to which the buffer's indexes refer.
        complete: completes pending rows.
    """

    def __init__(
        self, spool: Spool, *, generation: int, buffer: ChangeBuffer, kinds: list[ChangeKind], complete: Completion
    ) -> None:
        self.rows = 0
        self.transactions = 0
        self.bytes_in_buffer = 0
        self._limits = spool.limits
        self._folder = spool.folder
        self._unfinished = spool.folder / f"{_UNFINISHED}{uuid.uuid4().hex}"
        self._generation = generation
        self._buffer = buffer
        self._kinds = kinds
        self._complete = complete
        self._runs: list[_Run] = []
        self._counts: Counter[int] = Counter()
        self._files: list[tuple[str, int, int]] = []
        self._parquet: pq.ParquetWriter | None = None
        buffer.clear()

    def begin(self, transaction: Transaction) -> None:
        """Begin a transaction: the following rows belong to it."""
        self._runs.append(_Run(len(self._buffer.kinds), 0, transaction))

    def commit(self) -> None:
        """End the transaction."""
        run = self._runs[-1]
        self.transactions += len(self._buffer.kinds) > run.start or run.first_ordinal > 0

    def relieve(self, *, most_pending: int) -> None:
        """Complete pending rows and write a row group if the buffer is full."""
        if len(self._buffer.pending) >= most_pending:
            self.bytes_in_buffer += self._complete(self._buffer)
        if len(self._buffer.kinds) >= self._limits.group_rows or self.bytes_in_buffer >= self._limits.group_bytes:
            self._write_group()

    def discard(self) -> None:
        """Remove the files that were written."""
        self._close_file()
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def seal(self, start: int, end: int, *, caught_up: bool) -> SpooledBatch:
        """Write the remaining rows and publish the batch; without rows there is no file."""
        self._write_group()
        self._close_file()
        folder = self._folder / f"{start:016x}-{end:016x}"
        if self._files:
            shutil.rmtree(folder, ignore_errors=True)  # the same range, read before
            self._unfinished.rename(folder)
        by_table: Counter[str] = Counter()
        for index, count in self._counts.items():
            by_table[str(self._kinds[index].relation.table)] += count
        return SpooledBatch(
            start=start,
            end=end,
            files=tuple(_file(folder / name, rows, groups) for name, rows, groups in self._files),
            rows=self.rows,
            transactions=self.transactions,
            rows_by_table=dict(by_table),
            relations=tuple({self._kinds[index].relation: None for index in sorted(self._counts)}),
            caught_up=caught_up,
        )

    def _write_group(self) -> None:
        if self._buffer.pending:
            self._complete(self._buffer)
        count = len(self._buffer.kinds)
        if count:
            self._open_file().write_batch(self._batch())
            name, rows, groups = self._files.pop()
            self._files.append((name, rows + count, groups + 1))
            self.rows += count
            if rows + count >= self._limits.file_rows:
                self._close_file()
        if self._runs:
            # An unfinished transaction continues in the next row group.
            last = self._runs[-1]
            self._runs = [_Run(0, last.first_ordinal + count - last.start, last.transaction)]
        self._buffer.clear()
        self.bytes_in_buffer = 0

    def _batch(self) -> pa.RecordBatch:
        count = len(self._buffer.kinds)
        kinds = np.array(self._buffer.kinds, dtype=np.int32)
        present, codes = np.unique(kinds, return_inverse=True)
        self._counts.update(dict(zip(present.tolist(), np.bincount(codes).tolist(), strict=True)))
        found = [self._kinds[index] for index in present.tolist()]
        starts = np.array([run.start for run in self._runs])
        lengths = np.diff(np.append(starts, count))
        offsets = np.array([run.first_ordinal for run in self._runs]) - starts
        positions = np.array([run.transaction.position for run in self._runs], dtype=np.int64)
        times = np.array([run.transaction.commit_microseconds for run in self._runs], dtype=np.int64)
        return pa.record_batch(
            [
                pa.array([str(kind.relation.table) for kind in found]).take(pa.array(codes)),
                pa.array([kind.operation for kind in found]).take(pa.array(codes)),
                pa.array(np.full(count, self._generation, dtype=np.int64)),
                pa.array(np.repeat(positions, lengths)),
                pa.array(np.arange(count, dtype=np.int64) + np.repeat(offsets, lengths)),
                pa.array(np.repeat(times, lengths)).cast(SCHEMA.field("commit_time").type),
                pa.array([kind.relation.schema_version for kind in found], pa.int64()).take(pa.array(codes)),
                pa.array(self._buffer.payloads, pa.string()),
            ],
            schema=SCHEMA,
        )

    def _open_file(self) -> pq.ParquetWriter:
        if self._parquet is None:
            self._unfinished.mkdir(exist_ok=True)
            name = f"part-{len(self._files):05d}.parquet"
            self._files.append((name, 0, 0))
            self._parquet = pq.ParquetWriter(
                self._unfinished / name, SCHEMA, compression="snappy", use_dictionary=_DICTIONARIES, store_schema=False
            )
        return self._parquet

    def _close_file(self) -> None:
        if self._parquet is not None:
            self._parquet.close()
            self._parquet = None


def _file(path: Path, rows: int, groups: int) -> SpooledFile:
    return SpooledFile(path=path, rows=rows, groups=groups, bytes=path.stat().st_size)


@cache
def defer_pandas() -> None:
    """Make PyArrow detect pandas when the process imports it, instead of importing it with the first array."""
    if _PANDAS in sys.modules:
        return
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    pa.array([])  # the only time that PyArrow looks for pandas
    finder.asking = None
