"""Partitions of a table, and what happened to them that the log does not have.

A publication with `publish_via_partition_root` sends the changes of rows, and a TRUNCATE of the partitioned table. It
sends nothing when a partition is attached with its rows, detached, dropped or truncated by itself. So each update
compares the partitions with those of the update before. A partition that is created, or rewritten by VACUUM FULL, is no
loss: the transactions that wrote its rows distinguish it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import TableName

_PARTITIONS = """
    SELECT c.oid::bigint, i.xmin::text, i.cmin::text::bigint, format('%%I.%%I', n.nspname, c.relname), tree.isleaf,
           coalesce(pg_relation_filenode(c.oid), 0)::bigint, c.xmin::text, has_table_privilege(c.oid, 'SELECT')
    FROM pg_partition_tree(%s::oid::regclass) AS tree
    JOIN pg_class AS c ON c.oid = tree.relid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_inherits AS i ON i.inhrelid = c.oid
    WHERE tree.level > 0
    ORDER BY c.oid
"""
_HORIZON = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """A partition now, in the order of the query.

    Args:
        oid: what identifies it.
        attached: the transaction that made it a partition.
        command: the number of the command in that transaction.
        name: for SQL.
        is_leaf: whether it has rows of its own.
        file: the number of their file.
        stored: the transaction that changed its entry in the catalog last.
        is_readable: whether the role may read it by itself.
    """

    oid: int
    attached: str
    command: int
    name: str
    is_leaf: bool
    file: int
    stored: str
    is_readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of a table at one time.

    Args:
        links: name by `oid:transaction`, of the partition and of what attached it.
        files: the number of the file by the oid of each partition that has rows of its own.
        horizon: all transactions below it had ended.
    """

    links: dict[str, str]
    files: dict[str, int]
    horizon: str

    def to_json(self) -> str:
        """Return the partitions as JSON, for `from_json`."""
        return json.dumps({"links": self.links, "files": self.files, "horizon": self.horizon}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read partitions of `to_json`."""
        value = json.loads(text)
        return cls(links=value["links"], files=value["files"], horizon=value["horizon"])


def read_partitions(session: Session, relation: int) -> Partitions:
    """Return the partitions of a table, by its oid.

    Raises:
        SourceError: the database can't be read.
    """
    horizon = session.rows(_HORIZON)[0][0]
    found = _read(session, relation)
    return Partitions(
        links={f"{each.oid}:{each.attached}": each.name for each in found},
        files={str(each.oid): each.file for each in found if each.is_leaf},
        horizon=horizon,
    )


def lost_changes(session: Session, table: TableName, relation: int, before: Partitions) -> str | None:
    """Return what happened to partitions that the log does not have, as the end of a sentence; None for nothing.

    A TRUNCATE of the partitioned table is in the log: all partitions have then new files of one transaction.

    Raises:
        SourceError: the database can't be read.
    """
    found = _read(session, relation)
    links = {f"{each.oid}:{each.attached}" for each in found}
    gone = [name for link, name in before.links.items() if link not in links]
    if gone:
        return f"{', '.join(gone)} was detached or dropped"
    new = [each for each in found if each.is_leaf and f"{each.oid}:{each.attached}" not in before.links]
    filled = [each.name for each in new if _has_rows(session, table, each, _attached_rows(each))]
    if filled:
        return f"{', '.join(filled)} was attached with its rows"
    known = [each for each in found if str(each.oid) in before.files]
    changed = [each for each in known if each.file != before.files[str(each.oid)]]
    older = f"age('{int(before.horizon)}'::xid8::xid) < age(t.xmin)"
    emptied = [each for each in changed if not _has_rows(session, table, each, older)]
    is_whole = len(emptied) == len(known) and len({each.stored for each in emptied}) == 1
    return f"{', '.join(each.name for each in emptied)} was truncated" if emptied and not is_whole else None


def _read(session: Session, relation: int) -> list[_Partition]:
    fields = _Partition.__dataclass_fields__
    return [_Partition(**dict(zip(fields, row, strict=True))) for row in session.rows(_PARTITIONS, [relation])]


def _attached_rows(partition: _Partition) -> str:
    """The condition of rows that were in a table when it became a partition, the same transaction included."""
    same = f"t.xmin = '{int(partition.attached)}'::xid AND t.cmin::text::bigint < {partition.command}"
    return f"(age('{int(partition.attached)}'::xid) < age(t.xmin) OR {same})"


def _has_rows(session: Session, table: TableName, partition: _Partition, condition: str) -> bool:
    """Whether a partition has a row that meets a condition."""
    # A role with rights on the partitioned table only reads through it.
    source, only = f"ONLY {partition.name}", "true"
    if not partition.is_readable:
        source, only = table.quoted, f"tableoid = {partition.oid}"
    query = f"SELECT EXISTS (SELECT FROM {source} AS t WHERE {only} AND {condition})"
    return bool(session.rows(query, table=table)[0][0])
