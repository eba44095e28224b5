"""The tables whose changes are in the log: members of a publication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import TableName, quote_identifier

_SLOT = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s"
_IS_OWNED = "SELECT coalesce(bool_and(pg_has_role(pubowner, 'USAGE')), true) FROM pg_publication WHERE pubname = %s"
_MEMBERS = """
    SELECT n.nspname, c.relname, r.oid::bigint
    FROM pg_publication AS p
    JOIN pg_publication_rel AS r ON r.prpubid = p.oid
    JOIN pg_class AS c ON c.oid = r.prrelid
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE p.pubname = %s
"""
# `sent` are the tables under whose names changes are sent. PostgreSQL 14 has neither column lists nor row filters;
# without a list, `attnames` are all columns. Changes of a partition are sent under one name only: the partitioned table
# with `publish_via_partition_root`, and the partition without it. Generated columns, which copies leave out, are sent
# since PostgreSQL 18 if the publication or a column list includes them.
_PARTLY = """
    WITH sent AS (
        SELECT c.oid, to_jsonb(p) ->> 'rowfilter' IS NOT NULL OR EXISTS (
                   SELECT FROM pg_attribute AS a
                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                     AND NOT (to_jsonb(p) -> 'attnames') ? a.attname::text) AS is_part,
               to_jsonb(own) ? 'pubgencols' AND EXISTS (
                   SELECT FROM pg_attribute AS a
                   WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attgenerated <> ''
                     AND (to_jsonb(p) -> 'attnames') ? a.attname::text) AS has_generated,
               to_jsonb(own) ->> 'pubgencols' = 's' AS sends_generated
        FROM pg_publication_tables AS p
        JOIN pg_publication AS own ON own.pubname = p.pubname
        JOIN pg_namespace AS n ON n.nspname = p.schemaname
        JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = p.tablename
        WHERE p.pubname = %(name)s
    ), member AS (
        SELECT r.prrelid AS oid, p.pubviaroot FROM pg_publication AS p JOIN pg_publication_rel AS r ON r.prpubid = p.oid
        WHERE p.pubname = %(name)s
    ), partly (oid, cause, reason) AS (
        SELECT oid, oid, CASE WHEN sends_generated AND NOT is_part THEN 'GENERATED' ELSE 'FILTERED' END
        FROM sent WHERE is_part OR has_generated
        UNION ALL
        SELECT member.oid, root.relid, 'BELOW'
        FROM member CROSS JOIN pg_partition_ancestors(member.oid) AS root
        WHERE member.pubviaroot AND root.relid <> member.oid AND root.relid IN (SELECT oid FROM sent)
        UNION ALL
        SELECT root.relid, member.oid, 'ABOVE'
        FROM member CROSS JOIN pg_partition_ancestors(member.oid) AS root
        WHERE NOT member.pubviaroot AND root.relid <> member.oid AND root.relid IN (SELECT oid FROM member)
    )
    SELECT DISTINCT ON (partly.oid)
           n.nspname::text, c.relname::text, partly.reason, cn.nspname::text, cause.relname::text
    FROM partly
    JOIN pg_class AS c ON c.oid = partly.oid JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_class AS cause ON cause.oid = partly.cause JOIN pg_namespace AS cn ON cn.oid = cause.relnamespace
    ORDER BY partly.oid, partly.reason DESC, partly.cause
"""
_REASONS = {
    "FILTERED": "it has a row filter or a list of columns of its own",
    "GENERATED": "it sends generated columns, too (publish_generated_columns)",
    "BELOW": "changes of this partition have the name of {cause}, which is published, too. Copy only one of both",
    "ABOVE": "changes of its partition {cause} have the name of the partition, which is published by itself",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartlyPublished:
    """Why a publication sends only some rows or columns of a table.

    Args:
        reason: the end of a sentence.
        statement: the statement that makes the publication send all rows and columns.
    """

    reason: str
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The tables that a slot and its publication send.

    Args:
        has_slot: whether the slot exists.
        tables: the members of the publication, each with the id of its membership: a table that was removed and added
            again has another id. Empty if there is no publication.
        is_owned: whether the role may change the publication, or there is none.
        partly: the tables for which it sends only some rows or columns under their own names.
    """

    has_slot: bool
    tables: Mapping[TableName, int]
    is_owned: bool
    partly: Mapping[TableName, PartlyPublished] = field(default_factory=dict)


def read_membership(session: Session, slot: str, publication: str) -> Membership:
    """Return whether a slot exists, and the tables of a publication.

    Raises:
        SourceError: the database can't be read.
    """
    return Membership(
        has_slot=bool(session.rows(_SLOT, [slot])[0][0]),
        tables={
            TableName(schema=schema, table=table): member
            for schema, table, member in session.rows(_MEMBERS, [publication])
        },
        is_owned=bool(session.rows(_IS_OWNED, [publication])[0][0]),
        partly=read_partly(session, publication),
    )


def read_partly(session: Session, publication: str) -> dict[TableName, PartlyPublished]:
    """Return the tables for which a publication sends only some rows or columns under their own names.

    Raises:
        SourceError: the database can't be read.
    """
    found = {}
    for schema, table, reason, *cause in session.rows(_PARTLY, {"name": publication}):
        name, other = TableName(schema=schema, table=table), TableName(schema=cause[0], table=cause[1])
        found[name] = PartlyPublished(
            reason=_REASONS[reason].format(cause=other), statement=_whole_sql(publication, other, reason)
        )
    return found


def refuse_filtered(membership: Membership, publication: str, tables: Iterable[TableName]) -> None:
    """Refuse tables for which the log has only some rows or columns.

    Raises:
        SourceError: DATABASE_PUBLICATION_FILTERED.
    """
    for table in tables:
        partly = membership.partly.get(table)
        if partly is not None:
            raise SourceError(
                "DATABASE_PUBLICATION_FILTERED",
                table=table,
                publication=publication,
                reason=partly.reason,
                statement=partly.statement,
            )


def _whole_sql(publication: str, table: TableName, reason: str) -> str:
    changed = f"ALTER PUBLICATION {quote_identifier(publication)}"
    if reason == "GENERATED":
        return f"{changed} SET (publish_generated_columns = none)"
    added = f"; {changed} ADD TABLE ONLY {table.quoted}" if reason == "FILTERED" else ""
    return f"{changed} DROP TABLE ONLY {table.quoted}{added}"
