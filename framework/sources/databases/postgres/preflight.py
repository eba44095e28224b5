"""Preflight of a PostgreSQL source: checks server, role, slot and publication before anything is read.

Each finding has the statement that fixes it. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.postgres.log.position import is_marked, mark_sql
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.table_checks import CheckedTable, Publication, check_table
from framework.sources.databases.postgres.tables.membership import read_partly
from framework.sources.databases.tables import TableName, quote_identifier

OLDEST_VERSION = 14  # range scans of TIDs

_SERVER = """
    SELECT current_setting('server_version_num')::int / 10000, current_setting('server_version'),
           pg_is_in_recovery(), pg_encoding_to_char(d.encoding), current_setting('wal_level'),
           current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
           current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication),
           current_setting('max_slot_wal_keep_size', true), current_setting('idle_replication_slot_timeout', true),
           current_user::text, d.datname::text,
           r.rolreplication OR r.rolsuper OR EXISTS (
               SELECT FROM pg_roles AS m WHERE m.rolname = 'rds_replication' AND pg_has_role(r.oid, m.oid, 'member')
           ),
           has_database_privilege(d.oid, 'CREATE')
    FROM pg_database AS d, pg_roles AS r
    WHERE d.datname = current_database() AND r.rolname = current_user
"""
_SLOT = (
    "SELECT plugin::text, database::text, wal_status, active, two_phase FROM pg_replication_slots WHERE slot_name = %s"
)
# Text of the publication's operations; the owner may change it.
_PUBLICATION = """
    SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, pg_has_role(pubowner, 'USAGE'),
           coalesce(obj_description(oid, 'pg_publication'), '')
    FROM pg_publication WHERE pubname = %s
"""
_OPERATIONS = ("insert", "update", "delete", "truncate")
_ALL_OPERATIONS = ", ".join(_OPERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slot:
    """A replication slot that exists, in the order of the query."""

    plugin: str | None
    database: str | None
    wal_status: str | None
    is_active: bool
    is_two_phase: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """Settings of the server, and rights of the role, in the order of the query."""

    major_version: int
    version: str
    is_standby: bool
    encoding: str
    wal_level: str
    most_slots: int
    slots: int
    most_senders: int
    senders: int
    slot_log_limit: str | None
    slot_idle_limit: str | None
    role: str
    database: str
    may_replicate: bool
    may_create: bool


def check(
    session: Session, tables: Sequence[TableName], *, slot: str, publication: str
) -> tuple[PreflightFinding, ...]:
    """Return the findings that must or should be fixed before tables are read; () if there are none.

    A missing publication, or a missing table of it, is not a finding if the role may add it itself.

    Args:
        session: a connection with the role of the ingestion.
        tables: the tables.
        slot: name of the replication slot; it need not exist.
        publication: name of the publication; it need not exist.

    Raises:
        SourceError: the server is unreachable.
    """
    server = _Server(**dict(zip(_Server.__dataclass_fields__, session.rows(_SERVER)[0], strict=True)))
    if server.major_version < OLDEST_VERSION:
        return (_too_old(server),)  # its catalog lacks columns that the other checks read
    existing = _read_slot(session, slot)
    published = _read_publication(session, publication)
    checked = [check_table(session, name, role=server.role, publication=published) for name in tables]
    return (
        *_server_findings(server),
        *_replication_findings(server, existing),
        *_slot_findings(server, slot, existing),
        *_missing_publication(server, slot, publication, published, checked),
        *_publication_findings(slot, published),
        *(finding for each in checked for finding in each.findings),
    )


def _too_old(server: _Server) -> PreflightFinding:
    return PreflightFinding.of(
        "DATABASE_VERSION_TOO_OLD", Severity.ERROR, version=server.version, oldest=OLDEST_VERSION
    )


def _server_findings(server: _Server) -> Iterator[PreflightFinding]:
    if server.is_standby:
        yield PreflightFinding.of("DATABASE_STANDBY", Severity.ERROR)
    if server.encoding == "SQL_ASCII":
        yield PreflightFinding.of("DATABASE_ENCODING_UNKNOWN", Severity.WARNING)
    if server.wal_level != "logical":
        yield PreflightFinding.of(
            "DATABASE_WAL_LEVEL",
            Severity.ERROR,
            level=server.wal_level,
            statement="ALTER SYSTEM SET wal_level = 'logical'",
        )


def _replication_findings(server: _Server, slot: _Slot | None) -> Iterator[PreflightFinding]:
    role = quote_identifier(server.role)
    if not server.may_replicate:
        yield PreflightFinding.of(
            "DATABASE_REPLICATION_ROLE", Severity.ERROR, role=role, statement=f"ALTER ROLE {role} REPLICATION"
        )
    if server.slots >= server.most_slots and slot is None:
        yield PreflightFinding.of(
            "DATABASE_SLOTS_EXHAUSTED",
            Severity.ERROR,
            most=server.most_slots,
            statement=f"ALTER SYSTEM SET max_replication_slots = {server.most_slots + 5}",
        )
    if server.senders >= server.most_senders and not (slot is not None and slot.is_active):
        yield PreflightFinding.of(
            "DATABASE_SENDERS_EXHAUSTED",
            Severity.ERROR,
            most=server.most_senders,
            statement=f"ALTER SYSTEM SET max_wal_senders = {server.most_senders + 5}",
        )
    limits = {
        "max_slot_wal_keep_size": (server.slot_log_limit, "-1"),
        "idle_replication_slot_timeout": (server.slot_idle_limit, "0"),
    }
    for setting, (limit, unlimited) in limits.items():
        if limit not in (None, unlimited):
            yield PreflightFinding.of(
                "DATABASE_SLOT_LOG_LIMITED",
                Severity.WARNING,
                setting=setting,
                limit=limit,
                statement=f"ALTER SYSTEM SET {setting} = {unlimited}",
            )


def _slot_findings(server: _Server, name: str, slot: _Slot | None) -> Iterator[PreflightFinding]:
    drop = f"SELECT pg_drop_replication_slot('{name}')"
    if slot is None:
        return
    if slot.plugin != "pgoutput" or slot.database != server.database:
        yield PreflightFinding.of(
            "DATABASE_SLOT_FOREIGN",
            Severity.ERROR,
            slot=name,
            plugin=slot.plugin or "none (physical)",
            database=slot.database or "none",
        )
    elif slot.wal_status == "lost":
        yield PreflightFinding.of("DATABASE_SLOT_LOST", Severity.ERROR, slot=name, statement=drop)
    elif slot.is_two_phase:
        yield PreflightFinding.of("DATABASE_POSITION_LOST.TWO_PHASE", Severity.ERROR, slot=name)


def _read_slot(session: Session, name: str) -> _Slot | None:
    """Return the slot; None if there is none."""
    found = session.rows(_SLOT, [name])
    return _Slot(**dict(zip(_Slot.__dataclass_fields__, found[0], strict=True))) if found else None


def _read_publication(session: Session, name: str) -> Publication | None:
    """Return the publication; None if there is none."""
    for *sent, via_root, is_owned, comment in session.rows(_PUBLICATION, [name]):
        missing = tuple(operation for operation, is_sent in zip(_OPERATIONS, sent, strict=True) if not is_sent)
        partly = read_partly(session, name)
        return Publication(
            name=name, missing=missing, is_via_root=via_root, is_owned=is_owned, partly=partly, comment=comment
        )
    return None


def _missing_publication(
    server: _Server, slot: str, name: str, publication: Publication | None, checked: Sequence[CheckedTable]
) -> Iterator[PreflightFinding]:
    existing = [table for table in checked if table.is_owned is not None]
    if publication is None and not (server.may_create and all(table.is_owned for table in existing)):
        listed = ", ".join(f"ONLY {table.name.quoted}" for table in existing)
        yield PreflightFinding.of(
            "DATABASE_PUBLICATION_MISSING",
            Severity.ERROR,
            publication=name,
            statement=f"CREATE PUBLICATION {quote_identifier(name)} FOR TABLE {listed} "
            f"WITH (publish_via_partition_root = true); {mark_sql(slot, name)}",
        )


def _publication_findings(slot: str, publication: Publication | None) -> Iterator[PreflightFinding]:
    if publication is not None and not is_marked(publication.comment, slot):
        yield PreflightFinding.of(
            "DATABASE_PUBLICATION_NOT_OURS",
            Severity.ERROR,
            publication=publication.name,
            slot=slot,
            statement=mark_sql(slot, publication.name),
        )
    if publication is not None and publication.missing:
        yield PreflightFinding.of(
            "DATABASE_PUBLICATION_INCOMPLETE",
            Severity.ERROR,
            publication=publication.name,
            missing=", ".join(publication.missing),
            statement=f"ALTER PUBLICATION {quote_identifier(publication.name)} SET (publish = '{_ALL_OPERATIONS}')",
        )
