"""`schemaHints`: columns and fields whose types are given in place of the inferred ones."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from framework.foundation.errors import UserError
from framework.foundation.wording import one_line
from framework.sources.cloud_files.fields import merged, new_fields
from framework.sources.cloud_files.options import CloudFilesOptions

_COMPLEX = (StructType, ArrayType, MapType)


def with_hints(data: StructType, options: CloudFilesOptions) -> StructType:
    """The columns with the types that `schemaHints` gives; a hint for a column that is not there adds it.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID.
    """
    for name, kind in parse_hints(options.hints):
        data = _hinted(data, name, kind)
    return data


def hinted_names(options: CloudFilesOptions) -> frozenset[str]:
    """The columns that hints name, as they spell them."""
    return frozenset(path[0] for path, _ in parse_hints(options.hints))


def fields_to_add(known: StructType, found: StructType, options: CloudFilesOptions) -> list[str]:
    """The new fields of files, without those inside of a column whose whole type is a hint: they can't be added."""
    return new_fields(known, with_hints(merged(known, found), options))


def as_texts(data: StructType, options: CloudFilesOptions, known: StructType | None = None) -> StructType:
    """The columns of files as the stream has them without hints: if types are not inferred, nested values are texts.

    A column that is nested by a hint or in the stream keeps its fields.

    Args:
        data: the columns of the files.
        options: the hints.
        known: the columns of the stream, if they are known.
    """
    if options.infers_types:
        return data
    hints = parse_hints(options.hints)
    nested = {path[0].lower() for path, kind in hints if path[1:] or isinstance(kind, _COMPLEX)}
    nested |= {each.name.lower() for each in known.fields if isinstance(each.dataType, _COMPLEX)} if known else set()
    return StructType(
        [each if each.name.lower() in nested else StructField(each.name, StringType()) for each in data.fields]
    )


def opened(data: StructType, found: StructType, options: CloudFilesOptions) -> StructType:
    """The recorded columns, with the fields of files where only a text was recorded; for `as_texts`."""
    types = {} if options.infers_types else {each.name: each.dataType for each in found.fields}
    is_text = [isinstance(each.dataType, StringType) for each in data.fields]
    return StructType(
        [
            StructField(each.name, types.get(each.name, each.dataType)) if text else each
            for each, text in zip(data.fields, is_text, strict=True)
        ]
    )


def _hinted(data: StructType, path: tuple[str, ...], kind: DataType) -> StructType:
    name, rest = path[0], path[1:]
    fields, is_known = [], False
    for each in data.fields:
        if each.name.lower() == name.lower():
            is_known = True
            fields.append(StructField(each.name, _hinted_type(each.dataType, rest, kind)))
        else:
            fields.append(each)
    if not is_known:
        fields.append(StructField(name, _hinted_type(StructType([]), rest, kind)))
    return StructType(fields)


def _hinted_type(known: DataType, path: tuple[str, ...], kind: DataType) -> DataType:
    if not path:
        return kind
    name, rest = path[0].lower(), path[1:]
    if isinstance(known, ArrayType) and name == "element":
        return ArrayType(_hinted_type(known.elementType, rest, kind))
    if isinstance(known, MapType) and name == "key":
        return MapType(_hinted_type(known.keyType, rest, kind), known.valueType)
    if isinstance(known, MapType) and name == "value":
        return MapType(known.keyType, _hinted_type(known.valueType, rest, kind))
    if isinstance(known, StructType) and known.fields:
        return _hinted(known, path, kind)
    return _unknown_type(name, path, kind)


def _unknown_type(name: str, path: tuple[str, ...], kind: DataType) -> DataType:
    """The type that a hint alone describes."""
    inner = _hinted_type(StructType([]), path[1:], kind)
    if name == "element":
        return ArrayType(inner)
    if name in {"key", "value"}:
        return MapType(inner, StringType()) if name == "key" else MapType(StringType(), inner)
    return _hinted(StructType([]), path, kind)


def parse_hints(hints: str) -> list[tuple[tuple[str, ...], DataType]]:
    """Parse `id BIGINT, address.zip STRING` into paths with types.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID.
    """
    parts, depth, current = [], 0, ""
    for character in hints:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    found: list[tuple[tuple[str, ...], DataType]] = []
    for part in (each.strip() for each in [*parts, current]):
        if not part:
            continue
        match = re.fullmatch(r"((?:`[^`]+`|[^\s`.]+)(?:\.(?:`[^`]+`|[^\s`.]+))*)\s+(.+)", part, re.DOTALL)
        if match is None:
            raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=f"`{part}` is no column with a type.")
        try:
            kind = DataType.fromDDL(match[2])
        except PySparkException as error:
            cause = one_line(str(error).split("\n")[0])
            raise UserError("CLOUD_FILES_HINTS_INVALID", hints=hints, cause=cause) from error
        path = tuple(name.strip("`") for name in re.findall(r"`[^`]+`|[^.`]+", match[1]))
        found.append((path, kind))
    return found
