"""Partitions of a table as the catalog has them; `lost_changes` compares them with those of the update before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from framework.sources.databases.postgres.session import Session

_PARTITIONS = """
    SELECT c.oid::bigint, i.xmin::text, i.cmin::text::bigint, format('%%I.%%I', n.nspname, c.relname), tree.isleaf,
           coalesce(pg_relation_filenode(c.oid), 0)::bigint, has_table_privilege(c.oid, 'SELECT'),
           coalesce(pg_relation_size(c.oid), 0) = 0
    FROM pg_partition_tree(%s::oid::regclass) AS tree
    JOIN pg_class AS c ON c.oid = tree.relid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_inherits AS i ON i.inhrelid = c.oid
    WHERE tree.level > 0
    ORDER BY c.oid
"""
_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_IS_PARTITION = "SELECT EXISTS (SELECT FROM pg_partition_ancestors(%s::oid) AS root WHERE root.relid = %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition now, in the order of the query.

    Args:
        oid: what identifies it.
        attached: the transaction that made it a partition.
        command: the number of the command in that transaction.
        name: for SQL.
        is_leaf: whether it has rows of its own.
        file: the number of their file.
        is_readable: whether the role may read it by itself.
        is_empty: whether its file has no block, so that it has no row.
    """

    oid: int
    attached: str
    command: int
    name: str
    is_leaf: bool
    file: int
    is_readable: bool
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of a table at one time.

    Args:
        links: name by `oid:transaction`, of the partition and of what attached it.
        files: the number of the file by the oid of each partition that has rows of its own.
        horizon: all transactions below it had ended.
        empty: those that had no row, by oid.
    """

    links: dict[str, str]
    files: dict[str, int]
    horizon: str
    empty: tuple[int, ...] = ()

    @property
    def oldest(self) -> int:
        """The low 32 bits of the horizon, which are all that the log has of a transaction."""
        return int(self.horizon) % (1 << 32)

    def to_json(self) -> str:
        """Return the partitions as JSON, for `from_json`."""
        fields = {"links": self.links, "files": self.files, "horizon": self.horizon, "empty": self.empty}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read partitions of `to_json`."""
        value = json.loads(text)
        # An earlier release did not record those that were empty.
        empty = tuple(value.get("empty", ()))
        return cls(links=value["links"], files=value["files"], horizon=value["horizon"], empty=empty)


def read_partitions(session: Session, relation: int) -> Partitions:
    """Return the partitions of a table, by its oid.

    Raises:
        SourceError: the database can't be read.
    """
    horizon = session.rows(_HORIZON)[0][0]
    found = present_partitions(session, relation)
    return Partitions(
        links={f"{each.oid}:{each.attached}": each.name for each in found},
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


def present_partitions(session: Session, relation: int) -> list[Partition]:
    """Return the partitions of a table at all levels, by its oid.

    Raises:
        SourceError: the database can't be read.
    """
    fields = Partition.__dataclass_fields__
    return [Partition(**dict(zip(fields, row, strict=True))) for row in session.rows(_PARTITIONS, [relation])]
