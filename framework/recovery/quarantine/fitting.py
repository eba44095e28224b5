"""Converts values of quarantined rows to the current types of their columns, and detects values that do not fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, AtomicType, DataType, MapType, StringType, StructType, VariantType

from framework.cdc.model.columns import match_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitted:
    """A value converted to another type.

    Args:
        value: the converted value; a part that does not fit is NULL.
        lost: whether a part of the value does not fit; never NULL. None if it always fits.
    """

    value: Column
    lost: Column | None = None

    @property
    def is_lost(self) -> Column:
        """Whether a part of the value does not fit."""
        return F.lit(False) if self.lost is None else self.lost  # noqa: FBT003 - a literal column


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fitting:
    """Converts values, including nested ones; no conversion fails the query.

    Args:
        session: used to check which types can be cast.
    """

    session: SparkSession

    def fit(self, value: Column, have: DataType, want: DataType) -> Fitted:
        """Convert a value to the type `want`; a field that only `have` has is kept, because the table has it."""
        no = F.lit(False)  # noqa: FBT003 - a literal column
        if have == want:
            return Fitted(value=value)
        if isinstance(have, StructType) and isinstance(want, StructType):
            return self._struct(value, have, want)
        if isinstance(have, ArrayType) and isinstance(want, ArrayType):
            inner = have.elementType, want.elementType
            return Fitted(
                value=F.transform(value, lambda element: self.fit(element, *inner).value),
                lost=F.coalesce(F.exists(value, lambda element: self.fit(element, *inner).is_lost), no),
            )
        if isinstance(have, MapType) and isinstance(want, MapType) and have.keyType == want.keyType:
            inner = have.valueType, want.valueType
            return Fitted(
                value=F.transform_values(value, lambda _, each: self.fit(each, *inner).value),
                lost=F.coalesce(F.exists(F.map_values(value), lambda each: self.fit(each, *inner).is_lost), no),
            )
        if isinstance(have, AtomicType) and isinstance(want, AtomicType):
            return self._atom(value, have, want)
        return Fitted(value=F.lit(None).cast(want), lost=value.isNotNull())

    def _struct(self, value: Column, have: StructType, want: StructType) -> Fitted:
        fields, lost = [], []
        for field in want.fields:
            known = match_field(have, field.name)
            fitted = Fitted(value=F.lit(None).cast(field.dataType))
            if known is not None:
                fitted = self.fit(value.getField(known.name), known.dataType, field.dataType)
            fields.append(fitted.value.alias(field.name))
            lost.append(fitted.is_lost)
        fields += [value.getField(each.name).alias(each.name) for each in have if match_field(want, each.name) is None]
        return Fitted(value=F.when(value.isNotNull(), F.struct(*fields)), lost=reduce(or_, lost))

    def _atom(self, value: Column, have: DataType, want: DataType) -> Fitted:
        """Convert a value: a number or time fits if it survives the round trip, a text or variant if it can be cast."""
        sample = F.lit(None).cast(have)
        if not self._is_valid(sample.try_cast(want).try_cast(have)):
            return Fitted(value=F.lit(None).cast(want), lost=value.isNotNull())
        fitted = value.try_cast(want)
        if isinstance(have, StringType | VariantType):
            return Fitted(value=fitted, lost=value.isNotNull() & fitted.isNull())
        return Fitted(value=fitted, lost=~fitted.try_cast(have).eqNullSafe(value))

    def _is_valid(self, expression: Column) -> bool:
        try:
            return bool(self.session.range(0).select(expression).schema)
        except AnalysisException:  # the analyzer raises an error for types that can't be cast
            return False
