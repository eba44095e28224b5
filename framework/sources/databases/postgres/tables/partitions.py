"""Partitions of a table in the catalog; `lost_changes` compares them with the partitions of the previous update."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import TableName

Query = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a query without arguments, and returns its rows."""

# The rows of a partition came with the newest attachment between it and the table, which may be that of an outer
# partition. The entry of a system column (`tableoid`) has the transaction that created the partition: it never changes.
_PARTITIONS = """
    SELECT c.oid::bigint, i.xmin::text, path.attached, path.command, format('%I.%I', n.nspname, c.relname), tree.isleaf,
           coalesce(pg_relation_filenode(c.oid), 0)::bigint, has_table_privilege(c.oid, 'SELECT'),
           coalesce(pg_relation_size(c.oid), 0) = 0,
           path.attached = (SELECT a.xmin::text FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum = -6)
    FROM pg_partition_tree({relation}::oid::regclass) AS tree
    JOIN pg_class AS c ON c.oid = tree.relid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_inherits AS i ON i.inhrelid = c.oid
    CROSS JOIN LATERAL (
        SELECT outer_i.xmin::text AS attached, outer_i.cmin::text::bigint AS command
        FROM pg_partition_ancestors(c.oid) AS ancestor JOIN pg_inherits AS outer_i ON outer_i.inhrelid = ancestor.relid
        WHERE ancestor.relid <> ALL (ARRAY(SELECT relid FROM pg_partition_ancestors({relation}::oid::regclass)))
        ORDER BY age(outer_i.xmin) < 0, age(outer_i.xmin), outer_i.cmin::text::bigint DESC LIMIT 1
    ) AS path
    WHERE tree.level > 0
    ORDER BY c.oid
"""
_CONSTRAINT = "SELECT pg_get_partition_constraintdef({oid}::oid)"
_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_IS_PARTITION = "SELECT EXISTS (SELECT FROM pg_partition_ancestors(%s::oid) AS root WHERE root.relid = %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A present partition; the fields are in the order of the query.

    Args:
        oid: identifies it.
        linked: the transaction that made it a partition.
        attached: the transaction that made it, or an outer partition that contains it, a partition of the table.
        command: the number of the command in that transaction.
        name: for SQL.
        is_leaf: whether it has rows of its own.
        file: the number of the file of its rows.
        is_readable: whether the role may read it directly.
        is_empty: whether its file has no block, so that it has no row.
        is_created: whether the transaction that attached it also created it.
    """

    oid: int
    linked: str
    attached: str
    command: int
    name: str
    is_leaf: bool
    file: int
    is_readable: bool
    is_empty: bool
    is_created: bool

    @property
    def link(self) -> str:
        """The id of its attachment, which changes when it is detached and attached again."""
        return f"{self.oid}:{self.linked}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of a table at one time.

    Args:
        links: name by `oid:transaction`: the oid of the partition and the transaction that attached it.
        files: the number of the file by the oid of each partition that has rows of its own.
        horizon: all transactions below it had ended.
        empty: the oids of the partitions without rows.
    """

    links: dict[str, str]
    files: dict[str, int]
    horizon: str
    empty: tuple[int, ...] = ()

    @property
    def oldest(self) -> int:
        """The low 32 bits of the horizon; the log has only these bits of a transaction's id."""
        return int(self.horizon) % (1 << 32)

    def to_json(self) -> str:
        """Return the partitions as JSON, for `from_json`."""
        fields = {"links": self.links, "files": self.files, "horizon": self.horizon, "empty": self.empty}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read partitions of `to_json`."""
        value = json.loads(text)
        return cls(**{**value, "empty": tuple(value["empty"])})


def read_partitions(session: Session, relation: int) -> Partitions:
    """Return the partitions of a table, by its oid.

    Raises:
        SourceError: the database can't be read.
    """
    horizon = session.rows(_HORIZON)[0][0]
    found = present_partitions(session.rows, relation)
    return Partitions(
        links={each.link: each.name for each in found},
        files={str(each.oid): each.file for each in found if each.is_leaf},
        horizon=horizon,
        empty=tuple(each.oid for each in found if each.is_leaf and each.is_empty),
    )


def is_partition(session: Session, relation: int, table: int) -> bool:
    """Return whether a relation is a partition of a table now, at any level; both by their oids.

    Raises:
        SourceError: the database can't be read.
    """
    return bool(session.rows(_IS_PARTITION, [relation, table])[0][0])


def present_partitions(query: Query, relation: int) -> list[Partition]:
    """Return the partitions of a table at all levels, by its oid."""
    fields = Partition.__dataclass_fields__
    rows = query(_PARTITIONS.format(relation=int(relation)))
    return [Partition(**dict(zip(fields, row, strict=True))) for row in rows]


def has_attached_rows(query: Query, table: TableName, partition: Partition) -> bool:
    """Return whether a partition has rows from before its attachment, including rows of the attaching transaction.

    A partition that is created as one has none, although the transaction of a row in it may have begun before.
    """
    same = f"t.xmin = '{int(partition.attached)}'::xid AND t.cmin::text::bigint < {partition.command}"
    older = is_older(f"'{int(partition.attached)}'::xid")
    return has_rows(query, table, partition, same if partition.is_created else f"({older} OR {same})")


def is_older(transaction: str) -> str:
    """Return the condition that a row `t` is from before a transaction, both given in SQL.

    PostgreSQL keeps 32 bits of a transaction's id. The age of a transaction more than 2^31 ids ago is negative; a
    transaction more than 2^32 ids ago can't be distinguished from a new one.
    """
    return f"(age({transaction}) < age(t.xmin) OR age(t.xmin) < 0)"


def has_rows(query: Query, table: TableName, partition: Partition, condition: str) -> bool:
    """Return whether a partition has a row, called `t`, that meets a condition."""
    # The range of addresses makes the server read the blocks in order, even if it would prefer an index.
    source, only = f"ONLY {partition.name}", "t.ctid >= '(0,0)'::tid"
    if not partition.is_readable:
        # A role with rights only on the partitioned table reads through it; other partitions are pruned if possible.
        bounds = query(_CONSTRAINT.format(oid=partition.oid))[0][0]
        source, only = table.quoted, f"tableoid = {partition.oid} AND {bounds or 'true'}"
    return bool(query(f"SELECT EXISTS (SELECT FROM {source} AS t WHERE {only} AND {condition})")[0][0])
