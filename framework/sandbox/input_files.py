"""Files with given rows, in the format and with the options of the read that they are for.

JSON, CSV and Parquet with default options are written without Spark, in milliseconds; Spark writes everything else.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.types import StringType, StructField, StructType

from framework.foundation.time_zones import zone_of
from framework.sandbox.arrow_rows import arrow_table, is_plain_arrow
from framework.sandbox.file_texts import csv_line, is_plain_csv, is_plain_json, json_row
from framework.sandbox.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BINARY, TEXT = "binaryfile", "text"
FORMATS = ("json", "csv", "parquet", "orc", "avro", "xml", TEXT, BINARY)
_VALUE = StructType([StructField("value", StringType())])
_SUFFIXES = {TEXT: "txt", BINARY: "bin"}
_SPELLING_OPTIONS = frozenset({
    "dateformat", "timestampformat", "timestampntzformat", "timezone", "locale", "encoding", "charset", "linesep",
    "quote", "escape", "chartoescapequoteescaping", "nullvalue", "emptyvalue", "comment", "nanvalue", "positiveinf",
    "negativeinf", "compression", "codec",
})  # fmt: skip
"""The options of readers that change how files are written."""
_WHOLE_TEXTS = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Spark's writer of CSV removes white space around values by default; its reader does not."""
_OPTIONS_OF_XML = frozenset({
    "rowtag", "attributeprefix", "valuetag", "arrayelementname", "roottag", "declaration",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileFormat:
    """The format of files, as a read names it.

    Args:
        name: one of `FORMATS`.
        options: the options of the read, with names in lower case.
        schema: the schema of the read; None if there is none.
    """

    name: str
    options: Mapping[str, str]
    schema: StructType | None

    @property
    def suffix(self) -> str:
        """The suffix of the names of files."""
        return _SUFFIXES.get(self.name, self.name)

    @property
    def has_columns(self) -> bool:
        """Whether the columns are those of the files; else they are always the same."""
        return self.name not in {TEXT, BINARY}

    @property
    def key(self) -> tuple[object, ...]:
        """The same for reads of the same files."""
        spelling = [(key, value) for key, value in self.options.items() if key in _OF_WRITING]
        return (self.name, None if self.schema is None else self.schema.json(), *sorted(spelling))

    def schema_of(self, rows: Rows) -> StructType:
        """Return the columns of a file: those of the rows, with the types of the read, or else of their values."""
        if self.name == TEXT:
            return _VALUE
        if self.schema is None:
            return rows.inferred()
        if rows.columns is None or (self.name == "csv" and not self._has_header):
            return self.schema
        known = {field.name.lower(): field for field in self.schema.fields}
        more = [number for number, name in enumerate(rows.columns) if name.lower() not in known]
        others = _part_of(rows, more).inferred().fields if more else []
        found = {field.name.lower(): field for field in others} | known
        return StructType([found[name.lower()] for name in rows.columns])

    @property
    def _has_header(self) -> bool:
        return self.options.get("header", "false").lower() == "true"

    def write(self, spark: SparkSession, file: Path, rows: Rows, schema: StructType) -> None:
        """Write rows to a file, which appears at once.

        Args:
            spark: writes what is not plain.
            file: the path of the file.
            rows: the rows.
            schema: the columns of the file.
        """
        values = rows.typed(schema, zone_of(str(spark.conf.get("spark.sql.session.timeZone"))))
        data = self._plain(schema, values)
        if data is None:
            _write_by_spark(spark, self, file, values, schema)
        else:
            write_bytes(file, data)

    def _plain(self, schema: StructType, values: Sequence[Sequence[Any]]) -> bytes | None:
        """Return the content of a file; None if Spark must write it."""
        if self.name == TEXT and "linesep" not in self.options:
            return "".join(f"{row[0] or ''}\n" for row in values).encode()
        if self.name == "parquet" and is_plain_arrow(schema):
            return parquet_content(schema, values)
        if _SPELLING_OPTIONS & set(self.options):
            return None
        if self.name == "json" and is_plain_json(schema):
            lines = [json_row(schema, row) for row in values]
            is_one = self.options.get("multiline", "false").lower() == "true"
            return (f"[{', '.join(lines)}]\n" if is_one else "".join(f"{line}\n" for line in lines)).encode()
        if self.name == "csv" and all(is_plain_csv(field.dataType) for field in schema.fields):
            return self._csv(schema, values)
        return None

    def _csv(self, schema: StructType, values: Sequence[Sequence[Any]]) -> bytes | None:
        separator = self.options.get("sep", self.options.get("delimiter", ","))
        header = [tuple(schema.fieldNames())] if self._has_header else []
        lines = [csv_line(row, separator) for row in (*header, *values)]
        return None if None in lines else "".join(f"{line}\n" for line in lines).encode()


_OF_WRITING = _SPELLING_OPTIONS | _OPTIONS_OF_XML | {"header", "sep", "delimiter", "multiline", "pathglobfilter"}


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file that appears at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}")
    hidden.write_bytes(content)
    hidden.replace(file)


def set_time(file: Path, seconds: float) -> None:
    """Set the modification time of a file."""
    os.utime(file, (seconds, seconds))


def file_name(pattern: str, number: int) -> str:
    """Return the name of a file that matches a glob, different for each number.

    Examples:
        >>> file_name("orders_*.json", 2), file_name("{a,b}?[0-9]*.csv", 12)
        ('orders_00002.json', 'a0000012.csv')
    """
    text = re.sub(r"\{([^,}]*)[^}]*\}", r"\1", pattern)
    text = re.sub(r"\[!?\^?(.)[^\]]*\]", r"\1", text)
    text = text.replace("?", "0")
    before, star, after = text.partition("*")
    return f"{before}{number:05d}{after.replace('*', '')}" if star else text


def _part_of(rows: Rows, numbers: Sequence[int]) -> Rows:
    """Return some columns of rows, by their positions."""
    columns = tuple(rows.columns[number] for number in numbers) if rows.columns is not None else None
    values = tuple(tuple(row[number] for number in numbers) for row in rows.values)
    known = None if rows.known is None else StructType([rows.known.fields[number] for number in numbers])
    return replace(rows, columns=columns, values=values, known=known)


def parquet_content(schema: StructType, values: Sequence[Sequence[Any]]) -> bytes:
    """Return the content of a Parquet file with rows of plain types."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    pq.write_table(arrow_table(schema, values), sink)
    return bytes(sink.getvalue())


def _write_by_spark(
    spark: SparkSession, of: FileFormat, file: Path, values: Sequence[Sequence[Any]], schema: StructType
) -> None:
    folder = file.parent / f".{file.name}.parts"
    options = {key: value for key, value in of.options.items() if key in _OF_WRITING - {"pathglobfilter", "multiline"}}
    frame = spark.createDataFrame([tuple(row) for row in values], schema).coalesce(1)
    writer = frame.write.format(of.name).options(**(_WHOLE_TEXTS if of.name == "csv" else {}), **options)
    writer.mode("overwrite").save(str(folder))
    (part,) = [each for each in folder.iterdir() if each.name.startswith("part-")]
    file.parent.mkdir(parents=True, exist_ok=True)
    part.replace(file)
    shutil.rmtree(folder)
