"""The exact differences of two tables, found by checksums first.

The first pass reads both tables once: it divides the keys into buckets by hash, and sums two independent hashes of the
rows of each bucket. It uses sums, not XOR, because a duplicate row must count twice. The second pass reads the rows of
the buckets that differ and compares them value by value. So tables of ten million rows with ten differences are read
twice, and a few thousand rows are compared. If no bucket differs, there is no second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from framework.cdc.model.columns import column
from framework.cdc.model.equality import comparable, fingerprint
from framework.recovery.alignment import Alignment, ColumnPair
from framework.recovery.comparison import DifferenceKind, KeyDifference, Totals

if TYPE_CHECKING:
    from pyspark.sql import Row


_MASK_BITS = 60
_LOW_BITS = 0xFFFFFFFF


BUCKETS = 1 << 14
"""The number of checksums of a table. Ten differences select at most ten buckets, 0.06 % of the rows."""

_KEY_SEED, _ROW_SEEDS, _VALUE_SEED = 1, (2, 3), 4
_BUCKET, _SIDE, _FIRST, _SECOND, _DIFFERS, _KIND = "bucket", "side", "first_rows", "second_rows", "differs", "kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """Exact row and key counts, and the first differing keys."""

    first_rows: int
    second_rows: int
    totals: Totals
    keys: tuple[KeyDifference, ...]


def find_differences(first: DataFrame, second: DataFrame, alignment: Alignment, *, limit: int) -> Differences:
    """Compare two tables as multisets of rows; each table is read at most twice.

    A difference is missed only if two independent 64-bit hashes collide in the sum of a bucket.

    Args:
        first: the first table; its rows must not change during the read.
        second: the second table, likewise.
        alignment: the pairs of columns.
        limit: the largest number of keys to return.
    """
    pairs = [*alignment.keys, *alignment.values]
    names = [f"c{place}" for place in range(len(pairs))]
    width = len(alignment.keys) or len(pairs)  # without a key, the whole row is the key
    tables = _Tables(
        first=_selected(first, pairs, names, [pair.first for pair in pairs]),
        second=_selected(second, pairs, names, [pair.second for pair in pairs]),
        keys=tuple(names[:width]),
        values=tuple(names[width:]),
    )
    found = tables.checksums()
    buckets: list[int] = sorted(found["buckets"])
    totals = Totals()
    keys: tuple[KeyDifference, ...] = ()
    if buckets:
        totals, keys = _compared(tables, buckets, [pair.name for pair in pairs[width:]], limit)
    return Differences(first_rows=found["first"] or 0, second_rows=found["second"] or 0, totals=totals, keys=keys)


def _selected(frame: DataFrame, pairs: Sequence[ColumnPair], names: Sequence[str], places: Sequence[int]) -> DataFrame:
    """Return the columns of the pairs under neutral names, cast to types that Spark can compare."""
    fields = frame.schema.fields
    # By place: a name may occur twice, in different cases.
    renamed = frame.toDF(*(f"p{place}" for place in range(len(fields))))
    columns = []
    for pair, name, place in zip(pairs, names, places, strict=True):
        value = F.col(f"p{place}")
        same = fields[place].dataType == pair.data_type
        columns.append(comparable(value if same else value.cast(pair.data_type), pair.data_type).alias(name))
    return renamed.select(*columns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tables:
    """Both tables with the same columns: `keys` and `values`."""

    first: DataFrame
    second: DataFrame
    keys: tuple[str, ...]
    values: tuple[str, ...]

    def checksums(self) -> Row:
        """Return the row counts, and the buckets with different counts or checksums."""
        rows = self._both(None)
        hashes = [row_hash(rows.drop(_SIDE).schema.fields, seed).alias(f"h{seed}") for seed in _ROW_SEEDS]
        hashed = rows.select(self._bucket(rows).alias(_BUCKET), _SIDE, *hashes)
        parts = [half for seed in _ROW_SEEDS for half in halves(F.col(f"h{seed}"))]
        sums = [F.sum(F.col(_SIDE) * part).alias(f"s{place}") for place, part in enumerate(parts)]
        by_bucket = hashed.groupBy(_BUCKET).agg(
            F.sum(F.when(F.col(_SIDE) > 0, 1).otherwise(0)).alias(_FIRST),
            F.sum(F.when(F.col(_SIDE) < 0, 1).otherwise(0)).alias(_SECOND),
            *sums,
        )
        differs = [F.col(f"s{place}") != 0 for place in range(len(parts))]
        differs.append(F.col(_FIRST) != F.col(_SECOND))
        found = by_bucket.agg(
            F.sum(_FIRST).alias("first"),
            F.sum(_SECOND).alias("second"),
            F.collect_list(F.when(_any(differs), F.col(_BUCKET))).alias("buckets"),
        ).first()
        assert found is not None
        return found

    def differing_keys(self, buckets: Sequence[int]) -> DataFrame:
        """Return one row for each key with different rows in the buckets, with a flag `d<n>` for each value column.

        Rows are equal if Spark groups them together, which compares values. Hashes decide only which columns differ,
        because a key may have several rows.
        """
        rows = self._both(buckets)
        counted = (
            rows.repartition(*self.keys)
            .groupBy(*self.keys, *self.values)
            .agg(
                F.sum(F.when(F.col(_SIDE) > 0, 1).otherwise(0)).alias(_FIRST),
                F.sum(F.when(F.col(_SIDE) < 0, 1).otherwise(0)).alias(_SECOND),
            )
        )
        fields = {field.name: field for field in counted.schema.fields}
        hashes = [row_hash([fields[name]], _VALUE_SEED).alias(f"h{place}") for place, name in enumerate(self.values)]
        surplus = F.col(_FIRST) - F.col(_SECOND)
        flags = [
            _any([F.sum(surplus * half) != 0 for half in halves(F.col(f"h{place}"))]).alias(f"d{place}")
            for place in range(len(self.values))
        ]
        found = (
            counted.select(*self.keys, _FIRST, _SECOND, *hashes)
            .groupBy(*self.keys)
            .agg(
                F.max(surplus != 0).alias(_DIFFERS), *flags, F.sum(_FIRST).alias(_FIRST), F.sum(_SECOND).alias(_SECOND)
            )
        )
        return found.where(_DIFFERS).drop(_DIFFERS).withColumn(_KIND, _kind())

    def _both(self, buckets: Sequence[int] | None) -> DataFrame:
        """Return the rows of both tables with their side, 1 or -1; `buckets` restricts them to some buckets."""
        sides = [
            frame.withColumn(_SIDE, F.lit(side).cast("bigint")) for frame, side in ((self.first, 1), (self.second, -1))
        ]
        if buckets is not None:
            sides = [frame.where(_is_in(self._bucket(frame), buckets)) for frame in sides]
        return sides[0].unionAll(sides[1])

    def _bucket(self, frame: DataFrame) -> Column:
        fields = [frame.schema[name] for name in self.keys]
        return F.pmod(row_hash(fields, _KEY_SEED), F.lit(BUCKETS)).cast("int")


def _is_in(bucket: Column, buckets: Sequence[int]) -> Column:
    """Return whether a bucket is in a list: one look-up in a byte array, regardless of the length of the list."""
    flags = bytearray(BUCKETS)
    for number in buckets:
        flags[number] = 1
    return F.substring(F.lit(flags), bucket + 1, F.lit(1)) == F.lit(bytearray(b"\1"))


def _any(conditions: Sequence[Column]) -> Column:
    return reduce(Column.__or__, conditions)


def _kind() -> Column:
    return (
        F.when(F.col(_SECOND) == 0, F.lit(DifferenceKind.ONLY_FIRST.value))
        .when(F.col(_FIRST) == 0, F.lit(DifferenceKind.ONLY_SECOND.value))
        .otherwise(F.lit(DifferenceKind.DIFFERENT.value))
    )


def _compared(
    tables: _Tables, buckets: Sequence[int], columns: Sequence[str], limit: int
) -> tuple[Totals, tuple[KeyDifference, ...]]:
    # Cached, so that totals and keys are computed from one read of the tables.
    found = tables.differing_keys(buckets).persist()
    try:
        totals = _totals(found, columns)
        rows = found.orderBy(*tables.keys).limit(limit).collect()
    finally:
        found.unpersist()
    return totals, tuple(_difference(row, len(tables.keys), columns) for row in rows)


def _totals(found: DataFrame, columns: Sequence[str]) -> Totals:
    is_kind = {kind: F.col(_KIND) == kind.value for kind in DifferenceKind}
    flags = [is_kind[DifferenceKind.DIFFERENT] & F.col(f"d{place}") for place in range(len(columns))]
    duplicate = (F.col(_FIRST) > 1) | (F.col(_SECOND) > 1)
    row = found.agg(*(F.count_if(each) for each in (*is_kind.values(), duplicate, *flags))).first()
    assert row is not None
    counts = [int(count) for count in row]
    changed = zip(columns, counts[4:], strict=True)
    return Totals(
        only_first=counts[0],
        only_second=counts[1],
        different=counts[2],
        duplicate=counts[3],
        columns=tuple((name, count) for name, count in changed if count),
    )


def _difference(row: Row, width: int, columns: Sequence[str]) -> KeyDifference:
    kind = DifferenceKind(row[_KIND])
    changed = [name for place, name in enumerate(columns) if row[f"d{place}"]]
    return KeyDifference(
        kind=kind,
        key=tuple(row)[:width],
        columns=tuple(changed) if kind is DifferenceKind.DIFFERENT else (),
        first_rows=row[_FIRST],
        second_rows=row[_SECOND],
    )


def row_hash(fields: Sequence[StructField], seed: int) -> Column:
    """Return a 64-bit hash of the values of columns; hashes with two seeds are independent.

    Args:
        fields: the columns, none of which contains a map or a variant.
        seed: any number.
    """
    masks = [_null_mask(fields[start : start + _MASK_BITS]) for start in range(0, len(fields), _MASK_BITS)]
    values = [part for field in fields for part in _parts(field)]
    return F.xxhash64(F.lit(seed), *masks, *values)


def halves(value: Column) -> tuple[Column, Column]:
    """Return the lower and upper 32 bits of a 64-bit hash as non-negative numbers, whose sums can't overflow."""
    return value.bitwiseAND(F.lit(_LOW_BITS)), F.shiftrightunsigned(value, 32)


def _parts(field: StructField) -> tuple[Column, ...]:
    value = column(field.name)
    if not isinstance(field.dataType, StructType | ArrayType):
        return (value,)
    # Spark's own hash skips NULL elements; the fingerprint does not, but has only one seed.
    return fingerprint([field]), value


def _null_mask(fields: Sequence[StructField]) -> Column:
    none = F.lit(0).cast("bigint")
    bits = [
        F.when(column(field.name).isNull(), F.lit(1 << place).cast("bigint")).otherwise(none)
        for place, field in enumerate(fields)
    ]
    return reduce(Column.bitwiseOR, bits, none)
