"""Headers of CSV files, read by Spark's parser, so that files with different columns or order are read by name.

The driver reads the beginning of each file as Spark does when it infers columns, with all options of the stream, and
names the columns by Spark's own rule. This takes no Spark job and no more of a file than its first buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from framework.engine.files.csv_files import CsvColumns, CsvReader
from framework.engine.jvm.java_errors import Py4JError
from framework.foundation.errors import UserError
from framework.foundation.wording import one_line
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    decoded,
)
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_THREADS = 16
"""The number of files opened concurrently on non-local file systems, where each open takes a round trip."""
_BLANK = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The columns of a file.

    Args:
        names: as Spark's inference names them: without empty or repeated names.
        written: the names in the file; None for an empty name. Without a header, the same as `names`.
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
        self._reader = CsvReader(spark, dict(options.reader))
        self._skip = options.skip_rows
        # Each takes a call to the JVM, and there are many files.
        self._has_header, self._is_multi_line = self._reader.has_header, self._reader.is_multi_line
        self._known: dict[tuple[str, int], Header | None] = {}

    def header(self, file: FoundFile) -> Header | None:
        """Return the columns of a file; None if it has no header line."""
        try:
            return self._of_records(file) if self._is_multi_line else self._of_lines(file)
        except (PySparkException, Py4JError) as error:
            if self._reader.ignores_corrupt_files:
                return None
            cause = one_line(str(error).split("\n\nJVM stacktrace")[0].split("\n\tat ")[0])
            raise UserError("CLOUD_FILES_HEADER_UNREADABLE", file=decoded(file.uri), cause=cause) from error

    def _of_lines(self, file: FoundFile) -> Header | None:
        comment = self._reader.comment
        with self._reader.lines(file.uri, file.size) as lines:
            rows = 0
            for number, line in enumerate(lines):
                is_comment = comment is not None and line.startswith(comment)
                is_row = not is_comment and line.strip(_BLANK) != ""
                # Spark looks for the header among the non-blank lines.
                if number >= self._skip and not is_comment and line.strip(" ") != "":
                    header = self._parsed(line, rows + is_row if self._has_header else rows)
                    if header is not None:
                        return header
                rows += is_row
        return None

    def _parsed(self, line: str, skipped: int) -> Header | None:
        """Return the columns of a line; cached, because many files have the same line."""
        skipped = skipped if self._skip else 0
        if (line, skipped) not in self._known:
            found = self._reader.columns_of_line(line)
            self._known[line, skipped] = None if found is None else _header(found, skipped)
        return self._known[line, skipped]

    def _of_records(self, file: FoundFile) -> Header | None:
        with self._reader.records(file.uri, self._skip) as records:
            row = records.next()
            if row is None:
                return None
            columns, end = self._reader.columns(row), records.end
        if not self._skip:
            return _header(columns, 0)
        return _header(columns, self._records_up_to(file, end) - (0 if self._has_header else 1))

    def _records_up_to(self, file: FoundFile, end: int) -> int:
        """Return the number of records up to a position in the file, at which a record must end.

        Raises:
            UserError: CLOUD_FILES_SKIPPED_ROWS.
        """
        with self._reader.records(file.uri, 0) as records:
            found = 0
            while records.next() is not None:
                found += 1
                if records.end >= end:
                    break
            if records.end != end:
                raise UserError("CLOUD_FILES_SKIPPED_ROWS", file=decoded(file.uri), count=self._skip)
        return found


def _header(columns: CsvColumns, skipped: int) -> Header:
    return Header(names=columns.names, written=columns.written, skipped=skipped)
