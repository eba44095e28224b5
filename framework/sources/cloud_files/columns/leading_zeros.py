"""Detection of columns, such as postal codes, whose inferred number type drops leading zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, NumericType, StringType, StructField, StructType

from framework.foundation.files.storage import LocalStorage
from framework.sources.cloud_files.columns.headers import header_groups
from framework.sources.cloud_files.columns.rescue import quoted
from framework.sources.cloud_files.files.folders import folder_values
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)
from framework.sources.cloud_files.files.manifest import manifest_reader, write_manifest
from framework.sources.cloud_files.settings.options import CloudFilesOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ZEROS = r"^\s*[+-]?0[0-9]"


def columns_with_leading_zeros(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], data: StructType, folders: StructType
) -> tuple[str, ...]:
    """Return the columns with an inferred number type and a value such as `007` in CSV, XML or folder names.

    CSV and XML are read again for this if a column, or a nested field of XML, has an inferred number type.
    JSON has no numbers that begin with zeros. A field is named as in a schema hint, such as `items.element.id`.

    Args:
        spark: the session that infers the columns.
        options: the options of the source.
        files: the files of the inference.
        data: the inferred columns of the files.
        folders: the inferred columns of the names of folders.
    """
    values = {name.lower(): texts for name, texts in folder_values(files).items()}
    found = [name for name in _numbers(folders) if any(map(_begins_with_zero, values.get(name.lower(), ())))]
    numbers = [(field.name, each) for field in data.fields for each in _numbers_in(field.dataType, field.name)]
    if not options.infers_types or not numbers or options.format not in {"csv", "xml"}:
        return tuple(found)
    with TemporaryDirectory(prefix="sluice-columns-") as scratch:
        for rows in _texts(spark, options, files, data, LocalStorage(scratch)):
            asked = [(name, each) for name, each in numbers if name in rows.columns]
            if asked:
                flags = rows.agg(*(F.bool_or(each.begins(F.col(quoted(name)))) for name, each in asked)).first()
                assert flags is not None  # an aggregate without groups has one row
                found += [each.path for (_, each), flag in zip(asked, flags, strict=True) if flag]
    return tuple(dict.fromkeys(found))


def _texts(
    spark: SparkSession, options: CloudFilesOptions, files: Sequence[FoundFile], data: StructType, storage: LocalStorage
) -> Iterator[DataFrame]:
    """Yield the rows of files with number columns read as strings; one DataFrame per CSV header."""
    reader = manifest_reader(spark).format(options.format).options(**dict(options.reader))
    if options.format == "xml":
        as_text = _with_texts(data)
        assert isinstance(as_text, StructType)
        yield reader.schema(as_text).load(write_manifest(storage, storage.path("files"), files))
        return
    for number, (header, group) in enumerate(header_groups(spark, options, files)):
        schema = StructType([StructField(name, StringType()) for name in header.names])
        yield reader.schema(schema).load(write_manifest(storage, storage.path(f"group {number}"), group))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    """A number within a column.

    Args:
        path: the column and the names within it.
        begins: returns whether the text in a column begins with a zero that a number type drops.
    """

    path: str
    begins: Callable[[Column], Column]


def _numbers_in(kind: DataType, path: str) -> Iterator[_Number]:
    """Yield the numbers of a type: the type itself, and numbers within structs and arrays."""
    if isinstance(kind, NumericType):
        yield _Number(path=path, begins=lambda text: text.rlike(_ZEROS))
    elif isinstance(kind, ArrayType):
        for each in _numbers_in(kind.elementType, f"{path}.element"):
            yield _Number(path=each.path, begins=partial(_in_elements, each.begins))
    elif isinstance(kind, StructType):
        for field in kind.fields:
            for each in _numbers_in(field.dataType, f"{path}.{field.name}"):
                yield _Number(path=each.path, begins=partial(_in_field, field.name, each.begins))


def _in_elements(begins: Callable[[Column], Column], array: Column) -> Column:
    return F.exists(array, begins)


def _in_field(name: str, begins: Callable[[Column], Column], struct: Column) -> Column:
    return begins(struct.getField(name))


def _with_texts(kind: DataType) -> DataType:
    """Return a type with strings in place of its numbers."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _with_texts(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_with_texts(kind.elementType))
    return StringType() if isinstance(kind, NumericType) else kind


def _numbers(columns: StructType) -> list[str]:
    return [each.name for each in columns.fields if isinstance(each.dataType, NumericType)]


def _begins_with_zero(text: str) -> bool:
    digits = text.removeprefix("-")
    return len(digits) > 1 and digits.startswith("0")
