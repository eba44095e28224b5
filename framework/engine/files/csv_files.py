"""Beginnings of CSV files, read on the driver by Spark's parser with all options of a reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.engine.files.hadoop_files import path_of_uri
from framework.engine.jvm.java import array_texts, java_class, scala_map

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvColumns:
    """The columns of a line.

    Args:
        names: as Spark's inference names them: without empty or repeated names.
        written: the names in the file; None for an empty name. Without a header, the same as `names`.
    """

    names: tuple[str, ...]
    written: tuple[str | None, ...]


class CsvRecords:
    """The records of a file, each once."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def next(self) -> Any:
        """Return the next record, for `CsvReader.columns`; None after the last one."""
        return self._parser.parseNext()

    @property
    def end(self) -> int:
        """Return the position in the file, in characters, after the last record."""
        return int(self._parser.getContext().currentChar())


class CsvReader:
    """Spark's parser with the options of a reader.

    Args:
        spark: the session whose settings apply.
        options: the options of the reader.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        state = spark._jsparkSession.sessionState()
        given = scala_map(dict(options))
        csv = java_class("org.apache.spark.sql.catalyst.csv.CSVOptions")
        self._options = csv(given, False, state.conf().sessionLocalTimeZone())  # noqa: FBT003 - a Scala constructor
        self._is_case_sensitive = state.conf().caseSensitiveAnalysis()
        self._conf = state.newHadoopConfWithOptions(given)
        identity = java_class("org.apache.hadoop.mapreduce.TaskAttemptID")()
        self._context = java_class("org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl")(self._conf, identity)
        separator = java_class("org.apache.spark.sql.execution.datasources.text.TextOptions")(given)
        self._separator = separator.lineSeparatorInRead()
        self._charset = str(self._options.charset())
        self.comment = str(self._options.comment()) if self._options.isCommentSet() else None

    @property
    def is_multi_line(self) -> bool:
        """Whether a record may have line breaks."""
        return bool(self._options.multiLine())

    @property
    def has_header(self) -> bool:
        """Whether the first line has the names of the columns."""
        return bool(self._options.headerFlag())

    @property
    def ignores_corrupt_files(self) -> bool:
        """Return whether unreadable files are skipped."""
        return bool(self._options.ignoreCorruptFiles())

    @contextmanager
    def lines(self, uri: str, size: int) -> Iterator[Iterator[str]]:
        """Yield the lines of a file as Spark's text reader splits and decodes them."""
        kind = java_class("org.apache.spark.sql.execution.datasources.HadoopLineRecordReader")
        reader = kind(self._separator.get()) if self._separator.isDefined() else kind()
        split = java_class("org.apache.hadoop.mapreduce.lib.input.FileSplit")(path_of_uri(uri), 0, size, None)
        reader.initialize(split, self._context)
        try:
            yield self._texts(reader)
        finally:
            reader.close()

    def _texts(self, reader: Any) -> Iterator[str]:
        is_plain = self._charset.upper() in {"UTF-8", "UTF8"}
        while reader.nextKeyValue():
            value = reader.getCurrentValue()
            yield (
                value.toString()
                if is_plain
                else java_class("java.lang.String")(bytearray(value.copyBytes()), self._charset)
            )

    def columns_of_line(self, line: str) -> CsvColumns | None:
        """Return the columns of a line; None if it has none."""
        row = self._parser().parseLine(line)
        return None if row is None else self.columns(row)

    @contextmanager
    def records(self, uri: str, skip: int) -> Iterator[CsvRecords]:
        """Yield the records of a file without the first `skip` records."""
        streams = java_class("org.apache.spark.sql.execution.datasources.CodecStreams")
        stream = streams.createInputStream(self._conf, path_of_uri(uri))
        try:
            parser = self._parser(skip)
            parser.beginParsing(stream, self._charset)
            yield CsvRecords(parser)
        finally:
            stream.close()

    def _parser(self, skip: int = 0) -> Any:
        settings = self._options.asParserSettings()
        if skip:
            settings.setNumberOfRowsToSkip(skip)
        return java_class("com.univocity.parsers.csv.CsvParser")(settings)

    def columns(self, row: Any) -> CsvColumns:
        """Return the columns of a record."""
        columns = java_class("org.apache.spark.sql.execution.datasources.csv.CSVUtils")
        names = columns.makeSafeHeader(row, self._is_case_sensitive, self._options)
        found = tuple(str(name) for name in array_texts(names))
        return CsvColumns(names=found, written=tuple(array_texts(row)) if self.has_header else found)
