"""Headers of CSV files, read by Spark's own parser: files with other columns, or in another order, are read by name.

The driver reads the beginning of each file as Spark does when it infers columns, with all options of the stream, and
names the columns by Spark's own rule. This takes no Spark job and no more of a file than its first buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from framework.foundation.errors import UserError
from framework.foundation.jvm_cache import array_texts, java_class, scala_map
from framework.foundation.wording import one_line
from framework.sources.cloud_files.files.listing import FoundFile, decoded
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_THREADS = 16
"""Files that are opened at the same time on other file systems, where to open one takes a round trip."""
_BLANK = "".join(map(chr, range(33)))
"""What Java's `trim` removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The columns of a file.

    Args:
        names: as Spark names them when it infers them: without an empty name, and each once.
        written: as they are in the file; None for an empty name. Without a header, the same as `names`.
        skipped: with `skipRows`, the rows that Spark's reader returns before the first one of the data.
    """

    names: tuple[str, ...]
    written: tuple[str | None, ...]
    skipped: int = 0


def header_groups(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile]
) -> list[tuple[Header, list[FoundFile]]]:
    """Group files by their columns; files without a line have no columns and no rows.

    Args:
        spark: the session whose settings apply.
        options: the options of the format.
        files: the files.

    Raises:
        UserError: CLOUD_FILES_HEADER_UNREADABLE.
    """
    reader = _HeaderReader(spark, options)
    if len(files) > 1 and not files[0].uri.startswith("file:"):
        with ThreadPoolExecutor(_THREADS) as pool:
            headers = list(pool.map(reader.header, files))
    else:
        headers = [reader.header(file) for file in files]
    groups: dict[Header, list[FoundFile]] = {}
    for file, header in zip(files, headers, strict=True):
        if header is not None:
            groups.setdefault(header, []).append(file)
    return list(groups.items())


class _HeaderReader:
    """Spark's parser with the options of a stream, for the beginnings of files."""

    def __init__(self, spark: SparkSession, options: CloudFilesOptions) -> None:
        state = spark._jsparkSession.sessionState()
        given = scala_map(dict(options.reader))
        csv = java_class("org.apache.spark.sql.catalyst.csv.CSVOptions")
        self._options = csv(given, False, state.conf().sessionLocalTimeZone())  # noqa: FBT003 - a Scala constructor
        self._skip = options.skip_rows
        self._is_case_sensitive = state.conf().caseSensitiveAnalysis()
        self._conf = state.newHadoopConfWithOptions(given)
        identity = java_class("org.apache.hadoop.mapreduce.TaskAttemptID")()
        self._context = java_class("org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl")(self._conf, identity)
        separator = java_class("org.apache.spark.sql.execution.datasources.text.TextOptions")(given)
        self._separator = separator.lineSeparatorInRead()
        self._charset = str(self._options.charset())
        self._comment = str(self._options.comment()) if self._options.isCommentSet() else None
        self._known: dict[tuple[str, int], Header | None] = {}

    def header(self, file: FoundFile) -> Header | None:
        """The columns of a file; None if it has no line of them."""
        try:
            return self._of_records(file) if self._options.multiLine() else self._of_lines(file)
        except (PySparkException, Py4JError) as error:
            if self._options.ignoreCorruptFiles():
                return None
            cause = one_line(str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
            raise UserError("CLOUD_FILES_HEADER_UNREADABLE", file=decoded(file.uri), cause=cause) from error

    def _of_lines(self, file: FoundFile) -> Header | None:
        with self._lines(file) as lines:
            rows = 0
            for number, line in enumerate(lines):
                is_comment = self._comment is not None and line.startswith(self._comment)
                is_row = not is_comment and line.strip(_BLANK) != ""
                # Spark looks for the header among the lines that have more than spaces.
                if number >= self._skip and not is_comment and line.strip(" ") != "":
                    header = self._parsed(line, rows + is_row if self._options.headerFlag() else rows)
                    if header is not None:
                        return header
                rows += is_row
        return None

    @contextmanager
    def _lines(self, file: FoundFile) -> Iterator[Iterator[str]]:
        """The lines of a file as Spark's reader of texts splits and decodes them."""
        kind = java_class("org.apache.spark.sql.execution.datasources.HadoopLineRecordReader")
        reader = kind(self._separator.get()) if self._separator.isDefined() else kind()
        path = _path(file)
        split = java_class("org.apache.hadoop.mapreduce.lib.input.FileSplit")(path, 0, file.size, None)
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

    def _parsed(self, line: str, skipped: int) -> Header | None:
        """The columns of a line; many files have the same one."""
        skipped = skipped if self._skip else 0
        if (line, skipped) not in self._known:
            row = self._parser().parseLine(line)
            self._known[line, skipped] = None if row is None else self._named(row, skipped)
        return self._known[line, skipped]

    def _of_records(self, file: FoundFile) -> Header | None:
        with self._records(file, self._skip) as parser:
            row = parser.parseNext()
            if row is None:
                return None
            if not self._skip:
                return self._named(row, 0)
            end = parser.getContext().currentChar()
        return self._named(row, self._records_up_to(file, end) - (0 if self._options.headerFlag() else 1))

    def _records_up_to(self, file: FoundFile, end: int) -> int:
        """The number of records that Spark's reader returns up to a place in the file, if one ends there.

        Raises:
            UserError: CLOUD_FILES_SKIPPED_ROWS.
        """
        with self._records(file, 0) as parser:
            found = 0
            while parser.parseNext() is not None:
                found += 1
                if parser.getContext().currentChar() >= end:
                    break
            if parser.getContext().currentChar() != end:
                raise UserError("CLOUD_FILES_SKIPPED_ROWS", file=decoded(file.uri), count=self._skip)
        return found

    @contextmanager
    def _records(self, file: FoundFile, skip: int) -> Iterator[Any]:
        path = _path(file)
        streams = java_class("org.apache.spark.sql.execution.datasources.CodecStreams")
        stream = streams.createInputStream(self._conf, path)
        try:
            parser = self._parser(skip)
            parser.beginParsing(stream, self._charset)
            yield parser
        finally:
            stream.close()

    def _parser(self, skip: int = 0) -> Any:
        settings = self._options.asParserSettings()
        if skip:
            settings.setNumberOfRowsToSkip(skip)
        return java_class("com.univocity.parsers.csv.CsvParser")(settings)

    def _named(self, row: Any, skipped: int) -> Header:
        columns = java_class("org.apache.spark.sql.execution.datasources.csv.CSVUtils")
        names = columns.makeSafeHeader(row, self._is_case_sensitive, self._options)
        found = tuple(str(name) for name in array_texts(names))
        written = tuple(array_texts(row)) if self._options.headerFlag() else found
        return Header(names=found, written=written, skipped=skipped)


def _path(file: FoundFile) -> Any:
    return java_class("org.apache.hadoop.fs.Path")(java_class("java.net.URI")(file.uri))
