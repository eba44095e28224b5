"""Columns whose values begin with zeros in the files, such as postal codes, and lose them by the inferred type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType, StructField, StructType

from framework.foundation.storage import LocalStorage
from framework.sources.cloud_files.folders import folder_values
from framework.sources.cloud_files.headers import header_groups
from framework.sources.cloud_files.listing import FoundFile
from framework.sources.cloud_files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.options import CloudFilesOptions
from framework.sources.cloud_files.rescue import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZEROS = r"^\s*[+-]?0[0-9]"


def columns_with_leading_zeros(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], data: StructType, folders: StructType
) -> tuple[str, ...]:
    """Return the columns with a number as inferred type and a value such as `007` in CSV, XML or the names of folders.

    CSV and XML are read once more for that, if a column has a number as inferred type. Fields within columns are not
    looked at.

    Args:
        spark: the session that infers the columns.
        options: the options of the source.
        files: the files of the inference.
        data: the inferred columns of the files.
        folders: the inferred columns of the names of folders.
    """
    values = {name.lower(): texts for name, texts in folder_values(files).items()}
    found = [name for name in _numbers(folders) if any(map(_begins_with_zero, values.get(name.lower(), ())))]
    numbers = _numbers(data)
    if not options.infers_types or not numbers or options.format not in {"csv", "xml"}:
        return tuple(found)
    with TemporaryDirectory(prefix="sluice-columns-") as scratch:
        for rows in _texts(spark, options, files, data, LocalStorage(scratch)):
            names = [name for name in numbers if name in rows.columns]
            if names:
                flags = rows.agg(*(F.bool_or(F.col(quoted(name)).rlike(_ZEROS)).alias(name) for name in names)).first()
                assert flags is not None  # an aggregate without groups has one row
                found += [name for name in names if flags[name]]
    return tuple(dict.fromkeys(found))


def _texts(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], data: StructType, storage: LocalStorage
) -> Iterator[DataFrame]:
    """Yield the rows of files with texts in the columns of numbers; those of CSV by their headers."""
    reader = manifest_reader(spark).format(options.format).options(**dict(options.reader))
    if options.format == "xml":
        as_text = [StructField(each.name, StringType()) if _is_number(each) else each for each in data.fields]
        yield reader.schema(StructType(as_text)).load(write_manifest(storage, storage.path("files"), files))
        return
    for number, (header, group) in enumerate(header_groups(spark, options, files)):
        schema = StructType([StructField(name, StringType()) for name in header.names])
        yield reader.schema(schema).load(write_manifest(storage, storage.path(f"group {number}"), group))


def _numbers(columns: StructType) -> list[str]:
    return [each.name for each in columns.fields if _is_number(each)]


def _is_number(field: StructField) -> bool:
    return isinstance(field.dataType, NumericType)


def _begins_with_zero(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(digits) > 1 and digits.startswith("0")
