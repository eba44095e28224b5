"""Partitions as the log shows them: it names the partition of a row before the first change of that partition.

With `publish_via_partition_root` a change has the name of the partitioned table. But in PostgreSQL 14 to 18 the
relation message of the table is followed by the relation message of the partition that has the row. So a partition that
was created and filled after the catalog was read is known, even if it is dropped before the next read of the catalog.
The log does not show the partition of later rows of the same transaction, so such a table is refused, not repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from framework.sources.databases.postgres.log.pgoutput import Relation, Truncate
from framework.sources.databases.tables import TableName

_HALF = 1 << 31


def precedes(xid: int, other: int) -> bool:
    """Return whether a transaction id precedes another one; ids have 32 bits and wrap around."""
    return (xid - other) % (2 * _HALF) >= _HALF


class SeenPartition(NamedTuple):
    """A partition in the log.

    Args:
        table: oid of the partitioned table.
        name: the name of the partition itself at that time.
        xid: the transaction of the first change.
    """

    table: int
    name: str
    xid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPartitions:
    """Partitions that were missing from the catalog when it was read, and truncated tables, by oid.

    Args:
        partitions: the partitions with changes.
        truncates: the transaction of the last TRUNCATE of each partitioned table.
    """

    partitions: Mapping[int, SeenPartition] = field(default_factory=dict)
    truncates: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything was seen."""
        return bool(self.partitions or self.truncates)

    def then(self, later: SeenPartitions) -> SeenPartitions:
        """Return the partitions and truncates seen up to the end of a later part of the log."""
        return SeenPartitions(
            partitions={**later.partitions, **self.partitions}, truncates={**self.truncates, **later.truncates}
        )

    def since(self, horizons: Mapping[int, int]) -> SeenPartitions:
        """Return the partitions and truncates of these tables seen after the last comparison of each table.

        Args:
            horizons: by the oid of the table, the transaction below which all were visible at the comparison.
        """
        return SeenPartitions(
            partitions={
                oid: seen
                for oid, seen in self.partitions.items()
                if seen.table in horizons and not precedes(seen.xid, horizons[seen.table])
            },
            truncates={
                table: xid
                for table, xid in self.truncates.items()
                if table in horizons and not precedes(xid, horizons[table])
            },
        )

    def to_value(self) -> dict[str, Any]:
        """Return a value of JSON, for `from_value`."""
        return {
            "seen": {str(oid): list(seen) for oid, seen in self.partitions.items()},
            "truncated": {str(table): xid for table, xid in self.truncates.items()},
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        """Read a value of `to_value`.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: the value is invalid.
        """
        return cls(
            partitions={
                int(oid): SeenPartition(table=int(table), name=str(name), xid=int(xid))
                for oid, (table, name, xid) in value["seen"].items()
            },
            truncates={int(table): int(xid) for table, xid in value["truncated"].items()},
        )


class PartitionWatch:
    """Collects partitions and truncates from messages of the log.

    Args:
        tables: oids of the partitioned tables.
        known: oids of their partitions in the catalog, which are ignored.
    """

    def __init__(self, tables: Iterable[int], known: Iterable[int] = ()) -> None:
        self._tables = frozenset(tables)
        self._known = self._tables | frozenset(known)
        self._last: int | None = None
        self.met: dict[int, SeenPartition] = {}
        """The partitions of the transaction that is being read."""
        self._partitions: dict[int, SeenPartition] = {}
        self._truncates: dict[int, int] = {}

    def relate(self, relation: Relation, xid: int) -> None:
        """Take a relation; right after a partitioned table's relation, it is the partition of the following change."""
        table, self._last = self._last, relation.oid
        if table is not None and table in self._tables and relation.oid not in self._known:
            seen = SeenPartition(table=table, name=str(relation.table), xid=xid)
            self.met.setdefault(relation.oid, seen)

    def truncate(self, message: Truncate, xid: int) -> None:
        """Take a TRUNCATE, before which the relations of all its tables are sent."""
        self._last = None
        for oid in message.relations:
            self.met.pop(oid, None)
            if oid in self._tables:
                self._truncates[oid] = xid

    def commit(self) -> Sequence[tuple[int, SeenPartition]]:
        """End the transaction, and return its partitions with their oids."""
        found = [*self.met.items()]
        for oid, seen in found:
            self._partitions.setdefault(oid, seen)
        self.met.clear()
        return found

    def take(self) -> SeenPartitions:
        """Return the partitions and truncates seen since the last call."""
        seen = SeenPartitions(partitions=self._partitions, truncates=self._truncates)
        self.met.clear()
        self._last, self._partitions, self._truncates = None, {}, {}
        return seen


def horizons_of(tables: Sequence[tuple[int, TableName]], since: Sequence[tuple[int, TableName]]) -> dict[int, int]:
    """Return the horizon of each partitioned table by its oid.

    Args:
        tables: oids of tables with their names; a table may have several names.
        since: low 32 bits of the horizons of the partitioned tables, with their names.
    """
    by_name = {name: horizon for horizon, name in since}
    return {oid: by_name[name] for oid, name in tables if name in by_name}
