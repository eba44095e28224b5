"""Rows that a test gives or expects, in any spelling, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.wording import counted
from framework.sandbox.values.inferred_types import NoCommonTypeError, inferred_type
from framework.sandbox.values.misfits import Misfit, MisfitError
from framework.sandbox.values.row_files import read_rows
from framework.sandbox.values.text_tables import parse_text_table
from framework.sandbox.values.typed_values import as_mapping, of_spark, typed_value

_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows with the values that a test wrote.

    Args:
        columns: the names of the columns; None if the values of all rows are by position.
        values: the values of each row. A `TextCell` is the text of a cell whose column decides its type.
        places: where each row is, for messages, such as `Row 2 (line 4)`.
        known: the types of the columns, if a DataFrame of Spark has them.
    """

    columns: tuple[str, ...] | None
    values: tuple[tuple[Any, ...], ...]
    places: tuple[str, ...]
    known: StructType | None = None

    @classmethod
    def of(cls, value: object, columns: Sequence[str] | None = None) -> Self:
        r"""Return the rows of a value.

        Args:
            value: a list of tuples, dicts, Rows, named tuples or dataclasses; a value that is none of them is a row
                with one column. Or a text table, the `Path` of a CSV or JSON file, a DataFrame of Spark or pandas.
            columns: the names of columns by position, for rows that do not have them.

        Raises:
            UserError: TEST_ROW_NOT_A_ROW, TEST_ROW_TEXT_INVALID, TEST_ROW_FILE_NOT_FOUND, TEST_ROW_FILE_INVALID,
                TEST_ROW_LENGTH.

        Examples:
            >>> Rows.of("id | name\n1 | Ada").values == Rows.of([{"id": "1", "name": "Ada"}]).values
            True
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            names, lines = parse_text_table(value)
            places = tuple(f"Row {number} (line {row.line})" for number, row in enumerate(lines, start=1))
            return cls(columns=names, values=tuple(row.cells for row in lines), places=places)
        if isinstance(value, Path):
            return cls._of_file(value)
        if isinstance(value, DataFrame):
            rows = [of_spark(row, value.schema) for row in value.collect()]
            return cls(columns=tuple(value.columns), values=tuple(rows), places=_numbered(rows), known=value.schema)
        if type(value).__module__.partition(".")[0] == "pandas" and hasattr(value, "itertuples"):
            return cls._of_pandas(value)
        if isinstance(value, Mapping | bytes) or not isinstance(value, Iterable):
            raise UserError("TEST_ROW_NOT_A_ROW", value=_shown(value))
        return cls._of_items([as_mapping(row) for row in value], columns)

    @classmethod
    def _of_items(cls, items: Sequence[object], columns: Sequence[str] | None) -> Self:
        """Return the rows of dicts, and of values by position; rows of both kinds need the names of the columns."""
        dicts = [item for item in items if isinstance(item, Mapping)]
        if not dicts:
            rows = tuple(_by_position(item) for item in items)
            return cls(columns=None if columns is None else tuple(columns), values=rows, places=_numbered(rows))
        names = list(dict.fromkeys([*(columns or ()), *(str(name) for item in dicts for name in item)]))
        places, found = _numbered(items), list[tuple[Any, ...]]()
        for place, item in zip(places, items, strict=True):
            if isinstance(item, Mapping):
                by_name = {str(name): value for name, value in item.items()}
                found.append(tuple(by_name.get(name) for name in names))
            else:
                found.append(_padded(_by_position(item), columns or names, len(names), place))
        return cls(columns=tuple(names), values=tuple(found), places=places)

    @classmethod
    def _of_pandas(cls, frame: Any) -> Self:
        missing = frame.isna().to_numpy().tolist() if len(frame.columns) else []
        rows = tuple(
            tuple(None if is_missing else value for value, is_missing in zip(row, gaps, strict=True))
            for row, gaps in zip(frame.itertuples(index=False, name=None), missing, strict=True)
        )
        return cls(columns=tuple(map(str, frame.columns)), values=rows, places=_numbered(rows))

    @classmethod
    def _of_file(cls, path: Path) -> Self:
        columns, found = read_rows(path)
        places = tuple(f"Row {number} ({path.name}:{line})" for number, (line, _) in enumerate(found, start=1))
        if columns is not None:
            return cls(columns=columns, values=tuple(tuple(row) for _, row in found), places=places)
        rows = cls._of_items([row for _, row in found], None)
        return cls(columns=rows.columns or (), values=rows.values, places=places)

    def inferred(self) -> StructType:
        """Return the columns with the types of their values; see `framework.sandbox.values.inferred_types`.

        Raises:
            UserError: TEST_ROW_TYPES; TEST_ROW_LENGTH for rows without the names of their columns.
        """
        if self.known is not None:
            return self.known
        if self.columns is None and self.values:
            raise self._unnamed()
        fields = []
        for number, name in enumerate(self.columns or ()):
            try:
                fields.append(StructField(name, inferred_type(row[number] for row in self.values)))
            except NoCommonTypeError as error:
                column = f"{name}{error.path}"
                raise UserError("TEST_ROW_TYPES", column=column, first=error.first, second=error.second) from None
        return StructType(fields)

    def _unnamed(self) -> UserError:
        count = counted(len(self.values[0]), "value")
        return UserError("TEST_ROW_LENGTH", place=self.places[0], count=count, columns="are no names of columns")

    def typed(self, schema: StructType, zone: tzinfo = UTC, *, keep_misfits: bool = False) -> list[tuple[Any, ...]]:
        """Return the rows with a value for each column of a schema, in its type; a missing column is NULL.

        Args:
            schema: the columns.
            zone: the zone of points in time without one: that of the session.
            keep_misfits: whether a `Misfit` stands for a value that its type does not have, instead of an error.

        Returns:
            The values as `framework.sandbox.values.typed_values.typed_value` returns them.

        Raises:
            UserError: TEST_ROW_COLUMN_UNKNOWN, TEST_ROW_COLUMN_TWICE, TEST_ROW_LENGTH, TEST_ROW_VALUE.
        """
        names, sources = schema.fieldNames(), self._sources(schema.fieldNames())
        columns = []
        for name, source in zip(names, sources, strict=True):
            field = schema[name]
            values = [None] * len(self.values) if source is None else [row[source] for row in self.values]
            columns.append(self._column(field, values, zone, keep_misfits=keep_misfits))
        return [*zip(*columns, strict=True)] if columns else [() for _ in self.values]

    def _sources(self, names: Sequence[str]) -> list[int | None]:
        """Return the position of each column of a schema in the rows; None for missing ones."""
        if self.columns is None:
            for place, row in zip(self.places, self.values, strict=True):
                _padded(row, names, len(names), place)
            return [*range(len(names))]
        found: dict[str, int] = {}
        for number, column in enumerate(self.columns):
            similar = [name for name in names if name.lower() == column.lower()]
            if column not in names and len(similar) != 1:
                raise self._unknown(number, column, names)
            name = column if column in names else similar[0]
            if name in found:
                first = self.columns[found[name]]
                raise UserError("TEST_ROW_COLUMN_TWICE", column=name, first=first, second=column)
            found[name] = number
        return [found.get(name) for name in names]

    def _unknown(self, number: int, column: str, names: Sequence[str]) -> UserError:
        """Return the error of a column that the schema does not have, with the first row that has a value in it."""
        places = (place for place, row in zip(self.places, self.values, strict=True) if row[number] is not None)
        return UserError(
            "TEST_ROW_COLUMN_UNKNOWN",
            place=next(places, "The header"),
            column=column,
            columns=", ".join(names),
            hint=nearest_hint(column, names),
        )

    def _column(self, field: StructField, values: Sequence[object], zone: tzinfo, *, keep_misfits: bool) -> list[Any]:
        """Return the values of a column in its type."""
        found: list[Any] = []
        for place, value in zip(self.places, values, strict=True):
            try:
                found.append(typed_value(value, field.dataType, zone))
            except MisfitError as error:
                if not keep_misfits:
                    raise _refused(place, field, error) from None
                found.append(Misfit(value=value, cause=error.cause))
        return found


def _refused(place: str, field: StructField, error: MisfitError) -> UserError:
    return UserError(
        "TEST_ROW_VALUE",
        place=place,
        column=field.name + "".join(error.path),
        value=_shown(error.value),
        type=error.wanted,
        cause=error.cause,
    )


def _numbered(rows: Sequence[object]) -> tuple[str, ...]:
    return tuple(f"Row {number}" for number in range(1, len(rows) + 1))


def _by_position(item: object) -> tuple[Any, ...]:
    return tuple(item) if isinstance(item, tuple | list) else (item,)


def _padded(row: tuple[Any, ...], columns: Sequence[str], length: int, place: str) -> tuple[Any, ...]:
    """Return a row by position with NULL in the columns after the named ones."""
    if len(row) != len(columns):
        found = f"{'is' if len(columns) == 1 else 'are'} {counted(len(columns), 'column')}: {', '.join(columns)}"
        raise UserError("TEST_ROW_LENGTH", place=place, count=counted(len(row), "value"), columns=found)
    return row + (None,) * (length - len(row))


def _shown(value: object) -> str:
    text = repr(str(value)) if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
