"""One input that a test gives: its batches, and the files, tables and messages that were written from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from framework.foundation.errors import UserError
from framework.foundation.time_zones import zone_of
from framework.sandbox.delta_inputs import DeltaInput
from framework.sandbox.input_files import BINARY, FileFormat, file_name, parquet_content, set_time, write_bytes
from framework.sandbox.input_names import InputName, is_glob
from framework.sandbox.kafka_inputs import COLUMNS_WITH_HEADERS, messages_of
from framework.sandbox.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STEP_SECONDS = 0.002


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Rows that a test gives at once.

    Args:
        value: the rows as the test wrote them.
        schema: their columns, as the test gives them; None if they are those of the read or of the values.
        file: the path of the file below the folder of the input; None for a name that the read takes.
        content: the content of the file, in place of rows.
        seconds: the time, in seconds since the epoch.
    """

    value: object
    schema: StructType | None = None
    file: str | None = None
    content: bytes | None = None
    seconds: float = 0.0

    def rows(self) -> Rows:
        """Return the rows."""
        value = self.value
        names = None if self.schema is None else self.schema.fieldNames()
        return Rows.of(value, columns=names)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Files:
    """The files of a source for the reads of one format."""

    folder: Path
    format: FileFormat
    pattern: str


class GivenSource:
    """An input that a test gives.

    Args:
        written: its name as the test writes it.
        folder: the folder for its files and tables.
        real: whether the real input is read.

    Attributes:
        batches: what was given and arrived so far.
        dataset: the dataset of the pipeline whose rows are given; None for another input.
        taken: the input of the code that it is; None while nothing has read it.
    """

    def __init__(self, written: str, folder: Path, *, real: bool) -> None:
        self.written, self.folder, self.real = written, folder, real
        self.batches: list[Batch] = []
        self.dataset: InputName | None = None
        self.taken: InputName | None = None
        self._files: dict[object, _Files] = {}
        self._delta: DeltaInput | None = None
        self._messages: int | None = None

    def add(self, spark: SparkSession | None, batch: Batch) -> None:
        """Add a batch to what was written so far; `spark` is None before the first read."""
        self.batches.append(batch)
        number = len(self.batches) - 1
        if spark is None:
            return
        for files in self._files.values():
            self._write_file(spark, files, batch, number)
        if self._delta is not None:
            self._append(spark, self._delta, batch, None)
        if self._messages is not None:
            self._send(batch, number)

    def files(self, spark: SparkSession, format: FileFormat, path: str | None) -> Path:
        """Return the folder with the rows as files for a read.

        Args:
            spark: writes what is not plain.
            format: the format of the read.
            path: the path of the read, which names the files if it is a pattern.
        """
        pattern = format.options.get("pathglobfilter") or (path or "").rstrip("/").rpartition("/")[2]
        pattern = pattern if is_glob(pattern) and pattern != "*" else f"batch_*.{format.suffix}"
        key = (format.key, pattern)
        if key not in self._files:
            folder = self.folder / f"{format.name}_{len(self._files)}" / _last_parts(path or self.written)
            files = _Files(folder=folder, format=format, pattern=pattern)
            files.folder.mkdir(parents=True, exist_ok=True)
            self._files[key] = files
            for number, batch in enumerate(self.batches):
                self._write_file(spark, files, batch, number)
        return self._files[key].folder

    def table(self, spark: SparkSession, schema: StructType | None) -> Path:
        """Return the folder of a Delta table with the rows.

        Args:
            spark: writes what is not plain.
            schema: the columns of the table if they are known; else those of the rows.
        """
        if self._delta is None:
            self._delta = DeltaInput(self.folder / "table")
            for batch in self.batches:
                self._append(spark, self._delta, batch, schema)
        return self._delta.folder

    def messages(self) -> Path:
        """Return the folder with the rows as messages of a topic."""
        if self._messages is None:
            self._messages = 0
            (self.folder / "messages").mkdir(parents=True, exist_ok=True)
            for number, batch in enumerate(self.batches):
                self._send(batch, number)
        return self.folder / "messages"

    def _write_file(self, spark: SparkSession, files: _Files, batch: Batch, number: int) -> None:
        if batch.content is not None or files.format.name == BINARY:
            self._write_contents(files, batch, number)
            return
        rows = batch.rows()
        schema = batch.schema or (self._empty_schema(files) if _is_empty(rows) else files.format.schema_of(rows))
        if schema is None:
            return
        file = files.folder / (batch.file or file_name(files.pattern, number))
        files.format.write(spark, file, rows, schema)
        set_time(file, batch.seconds)

    def _empty_schema(self, files: _Files) -> StructType | None:
        """Return the columns of a file without rows; None if no file is needed."""
        return files.format.schema if files.format.name == "parquet" else None

    def _write_contents(self, files: _Files, batch: Batch, number: int) -> None:
        """Write a file with given content, or a file for each row with the columns `path` and `content`."""
        contents: Iterator[tuple[str | None, bytes]] = iter(
            [(batch.file, batch.content)] if batch.content is not None else _contents(batch.rows())
        )
        for place, (name, content) in enumerate(contents):
            file = files.folder / (name or file_name(files.pattern, number * 1000 + place))
            write_bytes(file, content)
            set_time(file, batch.seconds)

    def _append(self, spark: SparkSession, table: DeltaInput, batch: Batch, schema: StructType | None) -> None:
        rows = batch.rows()
        known = batch.schema or _columns_of(rows, table.schema or schema)
        if not known.fields:
            raise without_columns(self.written)
        zone = zone_of(str(spark.conf.get("spark.sql.session.timeZone")))
        table.append(spark, known, rows.typed(known, zone), batch.seconds)

    def _send(self, batch: Batch, number: int) -> None:
        assert self._messages is not None
        topic = self.taken.text.partition(":")[2] if self.taken is not None else self.written
        rows = messages_of(batch.value, topic, self._messages, batch.seconds)
        self._messages += len(rows)
        if not rows:
            return
        file = self.folder / "messages" / f"{number:05d}.parquet"
        write_bytes(file, parquet_content(COLUMNS_WITH_HEADERS, rows))
        set_time(file, batch.seconds)


def without_columns(source: str) -> UserError:
    """Return the error of a source whose columns neither the code nor its rows define."""
    cause = "it has no rows, so its columns are unknown; give it a schema, such as schema='id INT, name STRING'"
    return UserError("TEST_INPUT_INVALID", source=source, cause=cause)


def next_time(now: float, batches: list[Batch]) -> float:
    """Return the time of the next batch: now, but later than the last one, so that files have an order."""
    return max(now, batches[-1].seconds + _STEP_SECONDS) if batches else now


def _is_empty(rows: Rows) -> bool:
    return not rows.values


def _columns_of(rows: Rows, known: StructType | None) -> StructType:
    """Return the columns of a batch of a table: the known ones, and those that the rows have more."""
    if known is None:
        return rows.inferred()
    if rows.columns is None:
        return known
    names = {field.name.lower() for field in known.fields}
    if all(name.lower() in names for name in rows.columns):
        return known
    more = FileFormat(name="parquet", options={}, schema=known).schema_of(rows)
    return StructType([*known.fields, *(each for each in more.fields if each.name.lower() not in names)])


def _contents(rows: Rows) -> Iterator[tuple[str | None, bytes]]:
    columns = rows.columns or ("path", "content")
    for values in rows.values:
        row: Mapping[str, Any] = dict(zip(columns, values, strict=True))
        content = row.get("content")
        if not isinstance(content, bytes | str):
            raise UserError("TEST_INPUT_INVALID", source="binaryFile", cause="a row needs `path` and `content`")
        name = row.get("path")
        data = content.encode() if isinstance(content, str) else content
        yield (None if name is None else str(name).rpartition("/")[2]), data


def _last_parts(path: str) -> str:
    """Return the last two folders of a path, which name an input in the graph.

    Examples:
        >>> [_last_parts(path) for path in ("dbfs:/mnt/data/orders/*.json", "../orders", "postgres:bank/public.t")]
        ['data/orders', 'orders', 'postgres_bank/public.t']
    """
    parts = [re.sub(r"[^\w.-]", "_", part).lstrip("._") for part in path.split("/") if not is_glob(part)]
    return "/".join([part for part in parts if part][-2:])
