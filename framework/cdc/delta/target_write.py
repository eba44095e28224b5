"""The port through which AUTO CDC writes a target: rows to remove and rows to add, in one commit.

SCD types 1 and 2 describe the rows. `TransactionWrite` and `MergeWrite` are the two implementations (ADR 22).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from framework.cdc.model.columns import column
from framework.engine.jvm.java import built_once
from framework.engine.sessions.execution import computed_once
from framework.foundation.failpoints import failpoint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.events.key_bounds import Ranges
    from framework.cdc.model.metrics import CdcMetrics

SOURCE = "__sluice_source"
TARGET = "__sluice_target"

CHANGE = "__sluice_change"
"""The change of a row in the table: one of the four constants below, or null."""

INSERTED, UPDATED, REMOVED = "inserted", "updated", "deleted"

FLAGGED = "flagged"
"""A row that a delete flags and that keeps its values: written like an update, counted as a delete."""

BROADCAST_ROWS = 200_000
"""The largest batch, in rows, that is broadcast, so that a table is read without a shuffle."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clauses:
    """The clauses of a MERGE of `SOURCE` into `TARGET`.

    Args:
        delete: condition on which a matched row is deleted.
        update: condition on which a matched row that is not deleted becomes `updated`.
        updated: the new values of an updated row.
        insert: condition on which a key without a row gets the row `inserted`.
        inserted: the values of an inserted row.
        sweep: condition on which a row whose key has no source row is deleted.
    """

    delete: Column
    update: Column
    updated: Mapping[str, Column]
    insert: Column
    inserted: Mapping[str, Column]
    sweep: Column | None = None


class Decide(Protocol):
    """Decides the change of each row that source rows affect."""

    def __call__(self, source: DataFrame, rows: DataFrame, *, how: str, carried: Sequence[str]) -> DataFrame:
        """Return `CHANGE`, null where nothing changes; the carried columns; the columns of the target's table.

        Args:
            source: at most one row per key.
            rows: rows of the target, at most one per key.
            how: the type of the join of source rows with rows.
            carried: further columns of either side that the result keeps.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedMerge:
    """A merge of at most one source row per key into at most one target row per key.

    Args:
        target: the target.
        source: the source rows, computed once.
        row_count: the number of source rows.
        ranges: the bounds of their keys.
        decide: decides the changes from rows of the target.
        new_rows: returns the target's rows for source rows whose keys have no row.
        clauses: MERGE clauses with the same effect as `decide`, to use instead; None if there are none.
        sweeps: whether rows of keys without a source row may change too; only a MERGE can write such a merge.
        apply_recorded: applies the recorded deletes to source rows; None if no delete is recorded.
        checks_rows: whether recorded deletes matter to keys that have a row. If not, `apply_recorded` is only needed
            for new keys, because a row that AUTO CDC wrote is newer than every recorded delete of its key.
        may_delete: whether a source row may delete a row, before `apply_recorded`.
    """

    target: CdcTarget
    source: DataFrame
    row_count: int
    ranges: Ranges
    decide: Decide
    new_rows: Callable[[DataFrame], DataFrame]
    clauses: Clauses | None
    sweeps: bool
    apply_recorded: Callable[[DataFrame], DataFrame] | None
    checks_rows: bool
    may_delete: bool

    def checked_source(self) -> AbstractContextManager[DataFrame]:
        """Return the source rows after the recorded deletes, computed once."""
        if self.apply_recorded is None:
            return nullcontext(self.source)
        return computed_once(self.apply_recorded(self.source))


class Replacement(Protocol):
    """Rows to remove and rows to add, decided from rows that the port returned.

    An implementation reads the rows to remove by their `LOCATION`, or it matches them by `matching`.
    """

    @property
    def target(self) -> CdcTarget:
        """The target."""

    @property
    def row_count(self) -> int:
        """The number of events that the replacement results from."""

    @property
    def removed_rows(self) -> int | None:
        """The number of rows that `removed` returns; None if it is unknown."""

    def added(self) -> DataFrame | None:
        """Return the rows to add; None if there are none."""

    def removed(self) -> DataFrame | None:
        """Return the `LOCATION` of each row to remove; None if there are none."""

    def count_deleted(self) -> int:
        """Count the removed rows that no added row replaces: one job."""

    def changes(self) -> DataFrame:
        """Return the rows to add and the rows to remove, without `LOCATION`, and their `CHANGE`."""

    def matching(self) -> Column:
        """Return whether a row of `changes`, under `SOURCE`, replaces or removes a row of `TARGET`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriorCommit:
    """The commit to the auxiliary table that must precede the target's commit.

    Args:
        write: makes the commit; making it again has no effect.
        failpoint: the failpoint after it.
    """

    write: Callable[[], None]
    failpoint: str

    def reached(self) -> None:
        """Pass the failpoint between the two commits."""
        failpoint(self.failpoint)


class TargetWrite(Protocol):
    """The write of one batch to a target: at most one commit, which the target takes once."""

    def has_applied(self) -> bool:
        """Return whether the target is known to have the batch; if False, the commit may still be skipped."""

    def rows(self, ranges: Ranges) -> DataFrame:
        """Return the target's rows with keys in these ranges, with their `LOCATION`, possibly null; call it once."""

    def merge(self, merge: KeyedMerge, prior: PriorCommit | None) -> CdcMetrics:
        """Commit the changes of a merge after the prior commit.

        Returns:
            The numbers of rows upserted and deleted, or that the batch was skipped.

        Raises:
            pyspark.errors.PySparkException: one of Delta's conflicts.
            RowChangedError: a row changed between the read that decided its change and the commit.
        """

    def replace(self, replacement: Replacement, prior: PriorCommit | None) -> CdcMetrics:
        """Commit a replacement of rows after the prior commit, with the results and errors of `merge`."""


@built_once
def same_key(target: CdcTarget) -> Column:
    """Return whether the rows of `SOURCE` and `TARGET` have the same key."""
    return reduce(operator.and_, (column(key, of=SOURCE) == column(key, of=TARGET) for key in target.keys))


def broadcast_if_small(rows: DataFrame, count: int) -> DataFrame:
    """Return the rows of a batch, with a broadcast hint if they are few."""
    return F.broadcast(rows) if count <= BROADCAST_ROWS else rows
