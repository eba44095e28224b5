"""First load of a target: writes rows with unique keys directly.

A snapshot is read once, from its source into the new files of the target. Duplicate keys are detected in
those files, before the commit makes them visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType

from framework.cdc.events.batch_validation import BatchCounts, count_events
from framework.cdc.events.normalize import OPERATION, ORDER, UPSERT
from framework.cdc.model.columns import column
from framework.cdc.model.event_order import order_of
from framework.cdc.model.reserved_names import HIDDEN_COLUMN, ONCE, SEQUENCE
from framework.cdc.scd1.latest_events import unflagged
from framework.cdc.scd1.merge import rows_of
from framework.cdc.scd2.merge import open_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.delta.transaction import Transaction
    from framework.declare.specs import AutoCdcSpec

_KEY_HASH = "__sluice_key_hash"
_BITS = "__sluice_bits"
_WORD_BITS = 6
_WORD = 1 << _WORD_BITS
_SPARSE = 32
"""Whole-number keys are dense if their range has fewer numbers per row than this."""
_ROWS, _NULLS, _LEAST, _MOST = "numRecords", "nullCount", "minValues", "maxValues"


def may_load(spec: AutoCdcSpec, target: CdcTarget) -> bool:
    """Return whether each event of a flow is a complete row if keys are unique: an upsert of the whole row.

    A load is checked after it is stored, and storing changes some values of a key that is a string partition column.
    """
    is_stored_unchanged = not set(target.keys) & set(target.text_partitions)
    is_upsert = spec.apply_as_deletes is None and spec.apply_as_truncates is None
    return is_upsert and not target.is_authored and is_stored_unchanged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """Events as rows in new files of a target without rows.

    Args:
        transaction: the transaction that can commit the rows.
        counts: the counts for the contract check.
        events: the same events, read from the files.
        has_distinct_keys: whether the rows can be committed unchanged.
    """

    transaction: Transaction
    counts: BatchCounts
    events: DataFrame
    has_distinct_keys: bool

    @classmethod
    def prepare(cls, events: DataFrame, transaction: Transaction, target: CdcTarget) -> Self:
        """Write the events, in the shape of `read_events`, to new files of the target."""
        transaction.add(_rows(events, target))
        written = transaction.added_rows()
        order = order_of(column(HIDDEN_COLUMN), target.hidden_type)
        reread = written.select(
            *(column(name) for name in target.row_schema.fieldNames()),
            order.alias(ORDER),
            F.lit(UPSERT).alias(OPERATION),
        )
        statistics = NewFileStatistics(files=transaction.added_statistics())
        counts = statistics.counts(target) or count_events(reread, target)
        return cls(
            transaction=transaction,
            counts=counts,
            events=reread,
            has_distinct_keys=has_distinct_keys(written, target, statistics, counts.rows),
        )


def _rows(events: DataFrame, target: CdcTarget) -> DataFrame:
    """Return the target's rows for events with unique keys."""
    if target.scd_type == 2:
        return open_rows(events, target)
    return rows_of(events if target.flag is None else unflagged(events), target)


def has_distinct_keys(written: DataFrame, target: CdcTarget, statistics: NewFileStatistics, row_count: int) -> bool:
    """Return whether all keys are known to be unique; a false negative only costs time."""
    key = column(target.keys[0])
    span = statistics.span(target.keys[0]) if is_one_number(target) else None
    if span is not None and span[1] - span[0] < _SPARSE * row_count:
        # Dense numbers fit a bitmap of a few words, so no row is kept or shuffled.
        number = key.cast("bigint")
        bit = F.call_function("shiftleft", F.lit(1).cast("bigint"), number.bitwiseAND(_WORD - 1).cast("int"))
        words = written.groupBy(F.shiftright(number, _WORD_BITS)).agg(F.bit_or(bit).alias(_BITS))
        found = words.agg(F.sum(F.bit_count(_BITS))).first()
        assert found is not None  # an aggregate without groups has one row
        return bool(found[0] == row_count)
    # Two keys with the same hash count as a duplicate.
    hashes = written.select(F.xxhash64(*map(column, target.keys)).alias(_KEY_HASH))
    return not hashes.groupBy(_KEY_HASH).count().where("count > 1").limit(1).count()


def is_one_number(target: CdcTarget) -> bool:
    """Return whether the key is one column of whole numbers."""
    return len(target.keys) == 1 and isinstance(target.table_schema[target.keys[0]].dataType, IntegralType)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFileStatistics:
    """Delta's statistics of new files.

    Args:
        files: one mapping per file; statistics that were not collected are absent.
    """

    files: Sequence[Mapping[str, Any]]

    def counts(self, target: CdcTarget) -> BatchCounts | None:
        """Return the counts of valid events; None if an event may violate the contract or statistics are missing."""
        if not all(_ROWS in file and _is_faultless(file.get(_NULLS, {}), target) for file in self.files):
            return None
        rows = sum(int(file[_ROWS]) for file in self.files)
        return BatchCounts(rows=rows, null_sequences=0, null_keys=dict.fromkeys(target.keys, 0), ranges={})

    def key_counts(self, target: CdcTarget) -> int | None:
        """Return the number of rows; None if a key may be null or statistics are missing."""
        nulls = (file.get(_NULLS, {}).get(key) for file in self.files for key in target.keys)
        if any(count != 0 for count in nulls) or not all(_ROWS in file for file in self.files):
            return None
        return sum(int(file[_ROWS]) for file in self.files)

    def span(self, column: str) -> tuple[int, int] | None:
        """Return the bounds of a column of whole numbers; None if they are unknown."""
        least = [file.get(_LEAST, {}).get(column) for file in self.files]
        most = [file.get(_MOST, {}).get(column) for file in self.files]
        bounds = [value for value in (*least, *most) if isinstance(value, int)]
        return (min(bounds), max(bounds)) if bounds and len(bounds) == 2 * len(self.files) else None


def _is_faultless(nulls: Mapping[str, Any], target: CdcTarget) -> bool:
    """Return whether no key and no order is null; an order exists if some leaf of the point is never null."""
    hidden = nulls.get(HIDDEN_COLUMN, {})
    points = [leaf for part in (SEQUENCE, ONCE) for leaf in _leaves(hidden.get(part))]
    return 0 in points and all(nulls.get(key) == 0 for key in target.keys)


def _leaves(count: int | Mapping[str, Any] | None) -> Iterator[int]:
    if isinstance(count, Mapping):
        for inner in count.values():
            yield from _leaves(inner)
    elif count is not None:
        yield count
