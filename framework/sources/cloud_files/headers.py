"""Headers of CSV files: files with different columns, or the same in another order, are read by name."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.foundation.table_address import plain_path
from framework.sources.cloud_files.listing import FoundFile, decoded
from framework.sources.cloud_files.manifest import manifest_reader
from framework.sources.cloud_files.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Header = tuple[str, ...]


def header_groups(
    spark: SparkSession, options: CloudFilesOptions, folder: str, files: Sequence[FoundFile]
) -> list[tuple[Header, list[FoundFile]]]:
    """Group files by the columns of their first line; files without a line have no columns and no rows.

    Args:
        spark: reads the files.
        options: `header`, `sep`, `quote`, `escape`, `comment`, `encoding`.
        folder: the list that has the files (see `write_manifest`).
        files: the files.
    """
    lines = _first_lines(spark, options, folder)
    groups: dict[Header, list[FoundFile]] = {}
    for file in files:
        line = lines.get(plain_path(decoded(file.uri)))
        if line is not None:
            groups.setdefault(_names(options, line), []).append(file)
    return list(groups.items())


def _first_lines(spark: SparkSession, options: CloudFilesOptions, folder: str) -> dict[str, str]:
    """The first line of each file that is neither blank nor a comment; one job."""
    given = dict(options.reader)
    # A separator that no text has: each line is one column, in the encoding of the files.
    reader = manifest_reader(spark).format("csv").schema("line STRING").option("sep", "\u0001").option("quote", "")
    for name in ("encoding", "charset", "linesep", "comment", "ignorecorruptfiles", "ignoremissingfiles"):
        if name in given:
            reader = reader.option(name, given[name])
    lines = reader.load(folder).where("_metadata.file_block_start = 0").where("trim(line) <> ''")
    first = lines.groupBy(F.col("_metadata.file_path").alias("path")).agg(F.first("line").alias("line"))
    return {plain_path(decoded(row["path"])): row["line"] for row in first.collect()}


def _names(options: CloudFilesOptions, line: str) -> Header:
    given = dict(options.reader)
    separator = given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t")
    quote = given.get("quote", '"')[:1] or None
    if len(separator) == 1:
        plain = line.lstrip("\ufeff")
        cells = next(csv.reader([plain], delimiter=separator, quotechar=quote)) if quote else plain.split(separator)
    else:
        cells = line.lstrip("\ufeff").split(separator)
    if not options.flag("header"):
        return tuple(f"_c{index}" for index in range(len(cells)))
    names = [cell.strip() for cell in cells]
    often = Counter(name.lower() for name in names)
    return tuple(
        f"_c{index}" if not name else f"{name}{index}" if often[name.lower()] > 1 else name
        for index, name in enumerate(names)
    )
