"""The tables whose changes are in the log: members of a publication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
# PostgreSQL 14 has neither column lists nor row filters. Without a list, `attnames` are all columns.
_FILTERED = """
    SELECT p.schemaname::text, p.tablename::text
    FROM pg_publication_tables AS p
    WHERE p.pubname = %s AND (to_jsonb(p) ->> 'rowfilter' IS NOT NULL OR EXISTS (
        SELECT FROM pg_attribute AS a
        WHERE a.attrelid = (
                SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE n.nspname = p.schemaname AND c.relname = p.tablename
            )
            AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
            AND NOT (to_jsonb(p) -> 'attnames') ? a.attname::text))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a slot and its publication send.

    Args:
        has_slot: whether the slot exists.
        tables: the members of the publication, each with what identifies its membership: a table that was taken out
            and added again has another one. Empty if there is no publication.
        is_owned: whether the role may change the publication, or there is none.
        filtered: the members of which it sends only some rows or columns.
    """

    has_slot: bool
    tables: Mapping[TableName, int]
    is_owned: bool
    filtered: frozenset[TableName] = frozenset()


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
        filtered=frozenset(
            TableName(schema=schema, table=table) for schema, table in session.rows(_FILTERED, [publication])
        ),
    )


def refuse_filtered(membership: Membership, publication: str, tables: Iterable[TableName]) -> None:
    """Refuse tables of which the log has only some rows or columns.

    Raises:
        SourceError: DATABASE_PUBLICATION_FILTERED.
    """
    for table in tables:
        if table in membership.filtered:
            raise SourceError(
                "DATABASE_PUBLICATION_FILTERED", table=table, publication=publication,
                statement=publish_whole_sql(publication, table),
            )  # fmt: skip


def publish_whole_sql(publication: str, table: TableName) -> str:
    """Return the statements after which the publication sends all rows and columns of a table."""
    quoted = quote_identifier(publication)
    return f"ALTER PUBLICATION {quoted} DROP TABLE {table.quoted}; ALTER PUBLICATION {quoted} ADD TABLE {table.quoted}"
