"""Rows that repeat the key of another row, and so violate the unique expectations of a table.

A key that contains NULL repeats no other key, as with UNIQUE in SQL. Of the rows with one key the first one is kept, in
the order of their columns, so that the same rows always have the same result. A row of the table comes before all rows
of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StructType,
)

from framework.cdc.model.columns import column
from framework.declare.specs import ExpectationSpec, ViolationAction

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REPEATED = "__sluice_repeated"
"""The column with the names of the unique expectations that a row violates."""
_KEY, _FLAG, _FOUND = "__sluice_key", "__sluice_repeats", "__sluice_found"
_BOUNDED = (ByteType, ShortType, IntegerType, LongType, DateType)
"""The key types whose bounds allow files to be skipped, because all programs order their values the same way."""

_MOST_SENT = 100_000


def unique_ones(expectations: Sequence[ExpectationSpec]) -> tuple[ExpectationSpec, ...]:
    """Return the expectations that compare rows with other rows."""
    return tuple(each for each in expectations if each.unique is not None)


def row_ones(expectations: Sequence[ExpectationSpec]) -> tuple[ExpectationSpec, ...]:
    """Return the expectations that check single rows."""
    return tuple(each for each in expectations if each.unique is None)


def with_repeated(
    rows: DataFrame, expectations: Sequence[ExpectationSpec], *, is_checked: Column, table: DataFrame | None = None
) -> DataFrame:
    """Return the rows with the column `REPEATED`.

    Args:
        rows: the rows; with a `table` they are read several times.
        expectations: unique expectations, in their order. A row that one of them drops is ignored by the next ones.
        is_checked: whether a row counts; all other rows repeat none.
        table: the rows already in the table; None if `rows` are all of its rows.
    """
    columns, flags = rows.columns, list[str]()
    known = None if table is None else _Known.of(_with_columns_of(table, rows), rows, expectations)
    for number, spec in enumerate(expectations):
        flag, keys = f"{_FLAG}_{number}", _keys(spec, number)
        counts = reduce(and_, (F.col(name).isNotNull() for name in keys), is_checked)
        order = [column(field.name) for field in rows.schema.fields if _is_ordered(field.dataType)]
        first = Window.partitionBy(*keys, counts).orderBy(*(order or [F.lit(0)]))
        keyed = rows.withColumns(keys).withColumn(flag, counts & (F.row_number().over(first) > 1))
        if known is not None:
            keyed = keyed.join(known.found(keys), on=list(keys), how="left")
            keyed = keyed.withColumn(flag, column(flag) | (counts & F.col(_FOUND).isNotNull()))
        rows = keyed.select(*map(column, columns), *flags, flag)
        flags.append(flag)
        if spec.action is ViolationAction.DROP:
            is_checked = is_checked & ~F.col(flag)
    named = [F.when(F.col(flag), F.lit(spec.name)) for flag, spec in zip(flags, expectations, strict=True)]
    return rows.withColumn(REPEATED, F.array_compact(F.array(*named).cast("array<string>"))).drop(*flags)


def _with_columns_of(table: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the table's rows with NULL in the columns that this batch adds."""
    present = {name.lower() for name in table.columns}
    lacking = {field.name: field.dataType for field in rows.schema.fields if field.name.lower() not in present}
    return table.withColumns({name: F.lit(None).cast(kind) for name, kind in lacking.items()}) if lacking else table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Known:
    """The keys of a batch that are already in the table.

    Args:
        table: the rows of the table, with the columns of the batch.
        rows: the original batch, because a plan that contains its own part twice doubles with each expectation.
        bounds: the minimum and maximum in the batch, as numbers, of the keys by which files can be skipped.
        is_small: whether the batch's keys are broadcast to the tasks that read the table; else both are shuffled.
    """

    table: DataFrame
    rows: DataFrame
    bounds: dict[str, tuple[int | None, int | None]]
    is_small: bool

    @classmethod
    def of(cls, table: DataFrame, rows: DataFrame, expectations: Sequence[ExpectationSpec]) -> _Known:
        """Compute the size and the key bounds of a batch, in one job."""
        keys = {name: key for number, spec in enumerate(expectations) for name, key in _keys(spec, number).items()}
        kinds = {field.name: field.dataType for field in rows.select(*_named(keys)).schema.fields}
        bounded = {name: _number(keys[name], kind) for name, kind in kinds.items() if isinstance(kind, _BOUNDED)}
        ends = [of(number) for number in bounded.values() for of in (F.min, F.max)]
        found = rows.agg(F.count(F.lit(1)), *ends).first()
        assert found is not None  # an aggregate without groups has one row
        bounds = dict(zip(bounded, zip(found[1::2], found[2::2], strict=True), strict=True))
        return cls(table=table, rows=rows, bounds=bounds, is_small=found[0] <= _MOST_SENT)

    def found(self, keys: dict[str, Column]) -> DataFrame:
        """Return the distinct keys of the batch that the table has, with a marker column."""
        wanted = self.rows.select(*_named(keys)).distinct()
        existing = self.table.select(*_named(keys))
        for field in existing.schema.fields:
            least, most = self.bounds.get(field.name, (None, None))
            if least is not None and isinstance(field.dataType, _BOUNDED):
                made = F.date_from_unix_date if isinstance(field.dataType, DateType) else F.lit
                existing = existing.where(F.col(field.name).between(made(F.lit(least)), made(F.lit(most))))
        existing = existing.join(self._sent(wanted), on=list(keys), how="left_semi").distinct()
        return self._sent(existing).withColumn(_FOUND, F.lit(True))  # noqa: FBT003 - a literal column

    def _sent(self, keys: DataFrame) -> DataFrame:
        return F.broadcast(keys) if self.is_small else keys


def _keys(spec: ExpectationSpec, number: int) -> dict[str, Column]:
    return {f"{_KEY}_{number}_{place}": F.expr(text) for place, text in enumerate(spec.unique or ())}


def _named(keys: dict[str, Column]) -> list[Column]:
    return [key.alias(name) for name, key in keys.items()]


def _number(key: Column, kind: DataType) -> Column:
    """Return a key as a number, because Python can't represent all dates."""
    return F.unix_date(key) if isinstance(kind, DateType) else key


def _is_ordered(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_ordered(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_ordered(kind.elementType)
    return not isinstance(kind, MapType | NullType) and kind.typeName() not in {"variant", "geometry", "geography"}
