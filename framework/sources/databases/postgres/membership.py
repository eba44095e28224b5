"""The tables whose changes are in the log: members of a publication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.sources.databases.postgres.session import Session
from framework.sources.databases.tables import TableName

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a slot and its publication send.

    Args:
        has_slot: whether the slot exists.
        tables: the members of the publication, each with what identifies its membership: a table that was taken out
            and added again has another one. Empty if there is no publication.
        is_owned: whether the role may change the publication, or there is none.
    """

    has_slot: bool
    tables: Mapping[TableName, int]
    is_owned: bool


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
    )
