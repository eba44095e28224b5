"""`schemaHints`: columns and fields whose types are given in place of the inferred ones."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from framework.foundation.errors import UserError
from framework.schema.data_types import widen_known
from framework.schema.lattice import KNOWN_FILES, KNOWN_TEXT_FILES
from framework.sources.cloud_files.columns.fields import merged, new_fields
from framework.sources.cloud_files.settings.given_hints import Hint, parse_hints, part_of
from framework.sources.cloud_files.settings.options import SELF_TYPED, CloudFilesOptions

_COMPLEX = (StructType, ArrayType, MapType)
_OBJECTS_AS_TEXT = frozenset({"json", "xml"})
"""Formats in which a string column may hold objects in other files."""


def with_hints(data: StructType, options: CloudFilesOptions, *, is_new: bool = False) -> StructType:
    """Apply `schemaHints` to the columns; a hint for a missing column adds it.

    Args:
        data: the columns.
        options: the hints and the format.
        is_new: whether the columns are inferred for the first time. If so, a hint for a field inside of a column
            without fields is refused. Later, such a hint sets the column's type, and values that don't fit are rescued:
            later files may have different values in a column that the hint added, and must not make the flow fail
            forever.

    Raises:
        UserError: CLOUD_FILES_HINTS_INVALID, CLOUD_FILES_HINTS_CONFLICT.
    """
    for hint in parse_hints(options.hints):
        data = _Hinting(hint, options, is_new=is_new).columns(data, hint.path)
    return data


def hinted_names(options: CloudFilesOptions) -> frozenset[str]:
    """Return the columns that hints name, in the spelling of the hints."""
    return frozenset(hint.path[0] for hint in parse_hints(options.hints))


def hinted_paths(options: CloudFilesOptions) -> frozenset[str]:
    """Return the columns and nested fields that hints name, in the spelling of the hints."""
    return frozenset(".".join(hint.path) for hint in parse_hints(options.hints))


def hinted_folders(folders: StructType, data: StructType, options: CloudFilesOptions) -> StructType:
    """Return the folder columns with types from hints or files; folder names can't hold nested values.

    Args:
        folders: the columns of folders.
        data: the columns of the files, with hints.
        options: the hints.

    Raises:
        UserError: CLOUD_FILES_HINTS_CONFLICT.
    """
    types = {
        column.name.lower(): column.dataType for column in data.fields if not isinstance(column.dataType, _COMPLEX)
    }
    for hint in parse_hints(options.hints):
        if hint.place[0] in {each.name.lower() for each in folders.fields} - types.keys():
            raise UserError(
                "CLOUD_FILES_HINTS_CONFLICT",
                hint=hint.text,
                other=f"the folders `{hint.path[0]}=…`",
                why="the name of a folder is one value",
            )
    return StructType([StructField(each.name, types.get(each.name.lower(), each.dataType)) for each in folders.fields])


def fields_to_add(known: StructType, found: StructType, options: CloudFilesOptions) -> list[str]:
    """Return the new fields of files, except within columns whose whole type is hinted: these can't be extended."""
    return new_fields(known, with_hints(merged(known, found), options))


def as_texts(data: StructType, options: CloudFilesOptions, known: StructType | None = None) -> StructType:
    """Return file columns as the stream represents them: nested values are strings if types are not inferred.

    A column that is nested in a hint or in the stream keeps its fields.

    Args:
        data: the columns of the files.
        options: the hints.
        known: the columns of the stream, if they are known.
    """
    if options.infers_types:
        return data
    hints = parse_hints(options.hints)
    nested = {each.place[0] for each in hints if each.path[1:] or isinstance(each.column.dataType, _COMPLEX)}
    nested |= {each.name.lower() for each in known.fields if isinstance(each.dataType, _COMPLEX)} if known else set()
    return StructType(
        [each if each.name.lower() in nested else StructField(each.name, StringType()) for each in data.fields]
    )


def opened(data: StructType, found: StructType, options: CloudFilesOptions) -> StructType:
    """Return the recorded columns, with the fields of files where only a string was recorded; for `as_texts`."""
    types = {} if options.infers_types else {each.name: each.dataType for each in found.fields}
    is_text = [isinstance(each.dataType, StringType) for each in data.fields]
    return StructType(
        [
            StructField(each.name, types.get(each.name, each.dataType)) if text else each
            for each, text in zip(data.fields, is_text, strict=True)
        ]
    )


def widened(known: StructType, found: Iterable[StructType], options: CloudFilesOptions) -> StructType:
    """Widen the known columns to also hold the values of files; values without a wider type are rescued.

    Hinted types and names do not change. Only formats with types, such as Parquet, widen dates.

    Args:
        known: the columns.
        found: the columns of each group of files; several groups may have no common type.
        options: the hints and the format.
    """
    hinted = frozenset(hint.place for hint in parse_hints(options.hints))
    allowed = KNOWN_FILES if options.format in SELF_TYPED else KNOWN_TEXT_FILES
    for columns in found:
        known = widen_known(known, columns, allowed, hinted)
    return known


class _Hinting:
    """Sets the type of one hint at its path.

    Args:
        hint: the hint.
        options: have the format.
        is_new: as of `with_hints`.
    """

    def __init__(self, hint: Hint, options: CloudFilesOptions, *, is_new: bool) -> None:
        self._hint = hint
        self._refuses = is_new
        self._has_objects_as_text = options.format in _OBJECTS_AS_TEXT

    def columns(self, data: StructType, path: tuple[str, ...]) -> StructType:
        """Return the columns with the hint's type at a path; missing columns and fields are added."""
        fields, is_known = [], False
        for each in data.fields:
            if each.name.lower() == path[0].lower():
                is_known = True
                fields.append(self._field(each, path))
            else:
                fields.append(each)
        if not is_known:
            fields.append(self._field(StructField(path[0], StructType([])), path))
        return StructType(fields)

    def _field(self, known: StructField, path: tuple[str, ...]) -> StructField:
        if path[1:]:
            return StructField(known.name, self._type(known.dataType, path[1:]), metadata=known.metadata)
        column = self._hint.column
        return StructField(known.name, column.dataType, metadata={**known.metadata, **column.metadata})

    def _type(self, known: DataType, path: tuple[str, ...]) -> DataType:
        if not path:
            return self._hint.column.dataType
        name, rest = path[0].lower(), path[1:]
        if isinstance(known, StructType):
            return self.columns(known, path) if known.fields else self._new_type(name, path)
        inner = part_of(known, name)
        if inner is None:
            return self._in_place_of(known, name, path)
        if isinstance(known, ArrayType):
            return ArrayType(self._type(inner, rest))
        assert isinstance(known, MapType), known
        if name == "key":
            return MapType(self._type(inner, rest), known.valueType)
        return MapType(known.keyType, self._type(inner, rest))

    def _in_place_of(self, known: DataType, name: str, path: tuple[str, ...]) -> DataType:
        """Return the replacement of a known type that lacks the hinted part; a string may be an object in other files.

        Raises:
            UserError: CLOUD_FILES_HINTS_CONFLICT.
        """
        if not self._refuses or (isinstance(known, StringType) and self._has_objects_as_text):
            return self._new_type(name, path)
        outer = ".".join(self._hint.path[: len(self._hint.path) - len(path)])
        raise UserError(
            "CLOUD_FILES_HINTS_CONFLICT",
            hint=self._hint.text,
            other=f"the type of `{outer}`",
            why=f"{known.simpleString()} has no field `{path[0]}`",
        )

    def _new_type(self, name: str, path: tuple[str, ...]) -> DataType:
        """Return the type that the hint alone describes."""
        inner = self._type(StructType([]), path[1:])
        if name == "element":
            return ArrayType(inner)
        if name in {"key", "value"}:
            return MapType(inner, StringType()) if name == "key" else MapType(StringType(), inner)
        return self.columns(StructType([]), path)
