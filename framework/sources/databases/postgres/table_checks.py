"""Preflight of one table: rights of the role, rows hidden from it, and data that the log of the table lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from framework.foundation.errors import SourceError
from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import IDENTITY_COLUMNS, read_table
from framework.sources.databases.postgres.tables.membership import PartlyPublished
from framework.sources.databases.tables import KeyKind, SourceTable, TableName, quote_identifier

_TABLE = """
    SELECT pg_has_role(c.relowner, 'USAGE'),
           has_schema_privilege(n.oid, 'USAGE'),
           has_table_privilege(c.oid, 'SELECT'),
           ARRAY(SELECT a.attname::text FROM pg_attribute AS a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                   AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY a.attnum),
           row_security_active(c.oid),
           ARRAY(SELECT format('%%I.%%I', cn.nspname, child.relname) FROM pg_inherits AS i
                 JOIN pg_class AS child ON child.oid = i.inhrelid
                 JOIN pg_namespace AS cn ON cn.oid = child.relnamespace
                 WHERE i.inhparent = c.oid AND c.relkind = 'r' ORDER BY 1),
           ARRAY(SELECT a.attname::text FROM pg_attribute AS a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                   AND a.attlen = -1 AND a.attstorage IN ('x', 'e') ORDER BY a.attnum)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
# The table itself, or the partitions that contain its rows. Each has a replica identity of its own; `identity` is the
# list of columns that the log has of an old row.
_LEAVES = """
    SELECT format('%%I.%%I', n.nspname, leaf.relname), leaf.relkind, leaf.relpersistence = 'u', leaf.relreplident = 'f',
           {identity},
           EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = leaf.oid AND i.indisprimary AND i.indimmediate),
           (SELECT quote_ident(x.relname) FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
            WHERE i.indrelid = leaf.oid AND i.indisunique AND i.indimmediate AND i.indisvalid
              AND i.indpred IS NULL AND i.indexprs IS NULL
              AND NOT EXISTS (SELECT FROM pg_attribute AS a
                              WHERE a.attrelid = leaf.oid AND a.attnum = ANY (i.indkey::int2[]) AND NOT a.attnotnull)
            ORDER BY i.indnkeyatts, x.relname LIMIT 1)
    FROM pg_class AS leaf JOIN pg_namespace AS n ON n.oid = leaf.relnamespace
    WHERE leaf.oid IN (
        SELECT root.oid FROM root WHERE root.relkind = 'r'
        UNION ALL
        SELECT part.relid FROM root, pg_partition_tree(root.oid) AS part WHERE root.relkind = 'p' AND part.isleaf
    )
    ORDER BY 1
""".replace("{identity}", IDENTITY_COLUMNS)
_ROOT = """
    WITH root AS (
        SELECT c.oid, c.relkind FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = %s AND c.relname = %s
    )
"""
_MEMBER = """
    SELECT 1 FROM pg_publication_tables AS p
    WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication that exists.

    Args:
        name: its name.
        missing: the operations that it does not send.
        is_via_root: whether changes of a partition have the name of the partitioned table.
        is_owned: whether the role may change it.
        partly: the tables for which it sends only some rows or columns under their own names.
        comment: its comment, which names its owner.
    """

    name: str
    missing: tuple[str, ...]
    is_via_root: bool
    is_owned: bool
    partly: Mapping[TableName, PartlyPublished] = field(default_factory=dict)
    comment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """The findings of one table, and whether the role may publish it; None if it does not exist."""

    name: TableName
    findings: tuple[PreflightFinding, ...]
    is_owned: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Access:
    """Rights of the role on a table, and its columns and children, in the order of the query."""

    is_owned: bool
    may_use_schema: bool
    may_select: bool
    forbidden: list[str]
    is_filtered: bool
    children: list[str]
    toastable: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A table that contains rows, in the order of the query."""

    name: str
    kind: str
    is_unlogged: bool
    is_full: bool
    identity: list[str]
    has_primary_key: bool
    unique_index: str | None


def check_table(session: Session, name: TableName, *, role: str, publication: Publication | None) -> CheckedTable:
    """Return the findings of a table; a table that does not exist is one of them.

    Raises:
        SourceError: the server is unreachable.
    """
    try:
        table = read_table(session, name)
    except SourceError as error:
        if error.condition not in ("DATABASE_TABLE_MISSING", "DATABASE_NOT_A_TABLE"):
            raise
        missing = PreflightFinding(
            condition=error.condition, severity=Severity.ERROR, what=error.what, remedy=error.remedy, table=name
        )
        return CheckedTable(name=name, findings=(missing,), is_owned=None)
    place = [name.schema, name.table]
    access = _Access(**_fields(_Access, session.rows(_TABLE, place)[0]))
    leaves = [_Leaf(**_fields(_Leaf, row)) for row in session.rows(_ROOT + _LEAVES, place)]
    findings = (
        *_rights(table.name, access, quote_identifier(role)),
        *_log_findings(table, leaves),
        *_identity_findings(table, [leaf for leaf in leaves if leaf.kind == "r"]),
        *_key_findings(table),
        *_column_findings(table, access, leaves),
        *_membership(session, table, access, publication),
    )
    return CheckedTable(name=name, findings=findings, is_owned=access.is_owned)


def _fields(kind: type, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(kind.__dataclass_fields__, row, strict=True))  # type: ignore[attr-defined]


def _rights(name: TableName, access: _Access, role: str) -> Iterator[PreflightFinding]:
    if not access.may_use_schema:
        yield PreflightFinding.of(
            "DATABASE_SCHEMA_USAGE",
            Severity.ERROR,
            table=name,
            role=role,
            statement=f"GRANT USAGE ON SCHEMA {quote_identifier(name.schema)} TO {role}",
        )
    if not access.may_select and access.forbidden:
        yield PreflightFinding.of(
            "DATABASE_SELECT_MISSING",
            Severity.ERROR,
            table=name,
            role=role,
            columns=f"the columns {', '.join(access.forbidden)}",
            statement=f"GRANT SELECT ON {name.quoted} TO {role}",
        )
    if access.is_filtered:
        yield PreflightFinding.of(
            "DATABASE_ROWS_HIDDEN", Severity.ERROR, table=name, role=role, statement=f"ALTER ROLE {role} BYPASSRLS"
        )


def _log_findings(table: SourceTable, leaves: list[_Leaf]) -> Iterator[PreflightFinding]:
    """Yield findings for parts of the table whose changes are not in the log."""
    unlogged = [leaf.name for leaf in leaves if leaf.is_unlogged]
    if unlogged:
        yield PreflightFinding.of(
            "DATABASE_TABLE_UNLOGGED",
            Severity.ERROR,
            table=table.name,
            statement="; ".join(f"ALTER TABLE {leaf} SET LOGGED" for leaf in unlogged),
        )
    foreign = [leaf.name for leaf in leaves if leaf.kind == "f"]
    if foreign:
        yield PreflightFinding.of(
            "DATABASE_FOREIGN_PARTITION",
            Severity.ERROR,
            table=table.name,
            partitions=", ".join(foreign),
            statement="; ".join(f"ALTER TABLE {table.name.quoted} DETACH PARTITION {leaf}" for leaf in foreign),
        )


def _identity_findings(table: SourceTable, leaves: list[_Leaf]) -> Iterator[PreflightFinding]:
    """Yield findings for missing replica identities, and for replica identities without the key columns."""
    without = [leaf for leaf in leaves if not leaf.is_full and not leaf.identity]
    if without:
        yield PreflightFinding.of(
            "DATABASE_REPLICA_IDENTITY",
            Severity.ERROR,
            table=table.name,
            statement="; ".join(f"ALTER TABLE {leaf.name} REPLICA IDENTITY {_identity_for(leaf)}" for leaf in without),
        )
    partial = [leaf for leaf in leaves if not leaf.is_full and leaf.identity and set(table.key) - set(leaf.identity)]
    if partial:
        yield PreflightFinding.of(
            "DATABASE_KEY_NOT_LOGGED",
            Severity.ERROR,
            table=table.name,
            columns=", ".join(table.key),
            statement="; ".join(f"ALTER TABLE {leaf.name} REPLICA IDENTITY FULL" for leaf in partial),
        )


def _identity_for(leaf: _Leaf) -> str:
    if leaf.has_primary_key:
        return "DEFAULT"
    return f"USING INDEX {leaf.unique_index}" if leaf.unique_index else "FULL"


def _key_findings(table: SourceTable) -> Iterator[PreflightFinding]:
    if table.key_kind is KeyKind.NONE:
        yield PreflightFinding.of("DATABASE_TABLE_WITHOUT_KEY", Severity.WARNING, table=table.name)
    if table.key_kind is KeyKind.NULLABLE_UNIQUE:
        nullable = [name for name in table.key if table.column(name).nullable]
        changes = ", ".join(f"ALTER COLUMN {quote_identifier(name)} SET NOT NULL" for name in nullable)
        yield PreflightFinding.of(
            "DATABASE_KEY_NULLABLE",
            Severity.WARNING,
            table=table.name,
            columns=", ".join(nullable),
            statement=f"ALTER TABLE {table.name.quoted} {changes}",
        )


def _column_findings(table: SourceTable, access: _Access, leaves: list[_Leaf]) -> Iterator[PreflightFinding]:
    """Yield findings for columns and rows that are left out, and for columns that need an additional read."""
    if table.generated:
        yield PreflightFinding.of(
            "DATABASE_GENERATED_COLUMNS", Severity.WARNING, table=table.name, columns=", ".join(table.generated)
        )
    if access.children:
        yield PreflightFinding.of(
            "DATABASE_CHILD_TABLES", Severity.WARNING, table=table.name, children=", ".join(access.children)
        )
    partial = [leaf for leaf in leaves if leaf.kind == "r" and not leaf.is_full]
    if access.toastable and partial:
        yield PreflightFinding.of(
            "DATABASE_TOAST_READ_AGAIN",
            Severity.INFORMATION,
            table=table.name,
            columns=", ".join(access.toastable),
            statement="; ".join(f"ALTER TABLE {leaf.name} REPLICA IDENTITY FULL" for leaf in partial),
        )


def _membership(
    session: Session, table: SourceTable, access: _Access, publication: Publication | None
) -> Iterator[PreflightFinding]:
    """Yield findings for parts of the table that the publication does not send."""
    if publication is None:
        return
    quoted, name = quote_identifier(publication.name), table.name
    if table.is_partitioned and not publication.is_via_root:
        yield PreflightFinding.of(
            "DATABASE_PARTITION_ROOT",
            Severity.ERROR,
            table=name,
            publication=publication.name,
            statement=f"ALTER PUBLICATION {quoted} SET (publish_via_partition_root = true)",
        )
        return
    partly = publication.partly.get(name)
    if partly is not None:
        yield PreflightFinding.of(
            "DATABASE_PUBLICATION_FILTERED",
            Severity.ERROR,
            table=name,
            publication=publication.name,
            reason=partly.reason,
            statement=partly.statement,
        )
        return
    members = session.rows(_MEMBER, [publication.name, name.schema, name.table])
    if not members and not (access.is_owned and publication.is_owned):
        yield PreflightFinding.of(
            "DATABASE_PUBLICATION_WITHOUT_TABLE",
            Severity.ERROR,
            table=name,
            publication=publication.name,
            statement=f"ALTER PUBLICATION {quoted} ADD TABLE ONLY {name.quoted}",
        )
