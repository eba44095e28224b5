"""Columns of folders such as `date=2025-01-31`: their names and types, and their values in a query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, LongType, StringType, StructField, StructType

from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    decoded,
)
from framework.sources.cloud_files.settings.options import FIXED, CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import Column

_PARTITION = re.compile(r"[^/=]+=[^/]*")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""Matches Hive's escapes in folder names."""


def folder_values(files: Sequence[FoundFile]) -> dict[str, list[str]]:
    """Return the partition values in the folder names of files, by column name."""
    spellings: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for file in files:
        below = decoded(file.uri).rpartition("/")[0].split("/")
        for part in below:
            if _PARTITION.fullmatch(part):
                name, _, value = part.partition("=")
                spelled = spellings.setdefault(unquote(name).lower(), unquote(name))
                values.setdefault(spelled, []).append(unquote(value))
    return values


def folder_columns(options: CloudFilesOptions, files: Sequence[FoundFile]) -> StructType:
    """Return the columns in folder names, in path order; typed if types are inferred."""
    values = folder_values(files)
    spellings = {name.lower(): name for name in values}
    root = {part.partition("=")[0] for part in options.path.split("/") if "=" in part}
    names = options.partition_columns
    if names is None:
        names = tuple(name for name in values if name not in root)
    infers = options.infers_types
    return StructType(
        [
            StructField(
                name, folder_type(values.get(spellings.get(name.lower(), name), [])) if infers else StringType()
            )
            for name in names
        ]
    )


def folder_type(texts: Sequence[str]) -> DataType:
    """Return the type of a folder column, inferred from its values."""
    given = [text for text in texts if text != _NULL]
    if given and all(re.fullmatch(r"-?\d{1,18}", text, re.ASCII) for text in given):
        return LongType()
    if given and all(_is_date(text) for text in given):
        return DateType()
    return StringType()


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def new_folders(options: CloudFilesOptions, columns: StructType, files: Sequence[FoundFile]) -> StructType:
    """Return the folder columns that a source lacks."""
    if options.partition_columns is not None or options.format in FIXED:
        return StructType([])
    known = {name.lower() for name in columns.fieldNames()}
    return StructType([each for each in folder_columns(options, files).fields if each.name.lower() not in known])


def folder_text(name: str) -> Column:
    """Return a folder's value from the path of a row's file; URI escapes are decoded before Hive's."""
    path = _unescaped(F.col("_metadata.file_path"))
    written = "|".join(dict.fromkeys(_pattern(each) for each in (name, _ESCAPED.sub(_escape, name))))
    # Column names are case-insensitive, so one column includes `date=` and `Date=`.
    value = F.regexp_extract(path, f"(?iu)/(?:{written})=([^/]*)/", 1)
    # A percent sign that begins no escape is itself.
    whole = _unescaped(F.regexp_replace(value, "%(?![0-9A-Fa-f]{2})", "%25"))
    return F.nullif(F.nullif(whole, F.lit(_NULL)), F.lit(""))


def _pattern(text: str) -> str:
    return "\\Q" + text.replace("\\E", "\\E\\\\E\\Q") + "\\E"


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _unescaped(text: Column) -> Column:
    return F.url_decode(F.replace(text, F.lit("+"), F.lit("%2B")))
