"""Checks whether the log can still be read from a stored position: a gap is a named state, never a silent restart."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from framework.foundation.errors import SourceError
from framework.sources.databases.postgres.faults import named_errors
from framework.sources.databases.postgres.log.pgoutput import Commit
from framework.sources.databases.postgres.log.seen_partitions import SeenPartitions
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import UNKNOWN_SYSTEM, SourceIdentity, read_identity
from framework.sources.databases.source_session import Gap

_VERSION = 1
_NO_TIME = 0
_SLOT = """
SELECT coalesce(plugin, 'none'), coalesce(database, 'none'), coalesce(wal_status, 'lost'), confirmed_flush_lsn,
       coalesce(to_jsonb(s) ->> 'invalidation_reason', 'wal_removed'), two_phase
FROM pg_replication_slots AS s WHERE slot_name = %s
"""
_INVALIDATIONS = {
    "wal_removed": ("has removed the log that it needs", "Raise max_slot_wal_keep_size before."),
    "idle_timeout": (
        "has invalidated it, because nothing read it for idle_replication_slot_timeout",
        "Raise idle_replication_slot_timeout before, or update more often.",
    ),
}
"""The cause, and what to do before creating a new slot, by the reason that PostgreSQL 17 and newer record."""
_PUBLICATION = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosition:
    """A position in a checkpoint.

    Args:
        slot: the slot.
        publication: the publication.
        lsn: all transactions that end at or before it are durable here.
        identity: the server and the database.
        seen: partitions and truncates in the log up to the position that the catalog may no longer show.
        last: the end of the last transaction that was read, or the start of reading (`none_from`); None if it is
            unknown.
    """

    slot: str
    publication: str
    lsn: int
    identity: SourceIdentity
    seen: SeenPartitions = field(default_factory=SeenPartitions)
    last: Commit | None = None

    def at(self, lsn: int, seen: SeenPartitions, last: Commit | None) -> StoredPosition:
        """Return a later position of the same log; without a transaction in between, `last` is unchanged."""
        return replace(self, lsn=lsn, seen=seen, last=last or self.last)

    def to_json(self) -> str:
        """Return the position as JSON, for `from_json`."""
        identity = {
            "system": self.identity.system,
            "timeline": self.identity.timeline,
            "database": self.identity.database,
        }
        position = {"order": self.lsn, "text": format_lsn(self.lsn)}
        fields = {"slot": self.slot, "publication": self.publication, **position, "source": identity}
        seen = {"partitions": self.seen.to_value()} if self.seen else {}
        last = {} if self.last is None else {"last": _commit_value(self.last)}
        return json.dumps({"version": _VERSION, **fields, **last, **seen}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> StoredPosition:
        """Read a position of `to_json`.

        Raises:
            SourceError: DATABASE_POSITION_INVALID, with the problem.
        """
        try:
            value = json.loads(text)
            if value["version"] != _VERSION:
                raise _invalid(problem=f"its version is {value['version']}, but this release reads version {_VERSION}")
            identity = SourceIdentity(
                system=str(value["source"]["system"]),
                timeline=int(value["source"]["timeline"]),
                database=str(value["source"]["database"]),
            )
            seen = SeenPartitions.from_value(value["partitions"]) if "partitions" in value else SeenPartitions()
            slot, publication, lsn = str(value["slot"]), str(value["publication"]), int(value["order"])
            last = _commit_of(value["last"]) if "last" in value else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _invalid(problem=f"it has a missing or malformed field: {error}") from error
        return cls(slot=slot, publication=publication, lsn=lsn, identity=identity, seen=seen, last=last)


def _invalid(*, problem: str) -> SourceError:
    return SourceError("DATABASE_POSITION_INVALID", problem=problem)


def check_position(session: Session, stored: StoredPosition) -> Gap | None:
    """Return the gap between a stored position and the log; None if the log can be read on.

    A slot with `wal_status` unreserved is not a gap: its log still exists. If the server removes the log, the slot is
    lost.

    Args:
        session: any session of the database.
        stored: the position.

    Raises:
        SourceError: DATABASE_UNREACHABLE and other errors of the connection.
    """
    with named_errors(session.connection), session.raw.cursor() as cursor:
        return _server_gap(session, stored) or _slot_gap(cursor, stored) or _publication_gap(cursor, stored)


def none_from(lsn: int) -> Commit:
    """Return a placeholder without a time for `last`, if no transaction was read since this position."""
    return Commit(position=lsn, end=lsn, commit_microseconds=_NO_TIME)


def other_slot_gap(stored: StoredPosition, slot: str, publication: str) -> Gap | None:
    """Detect a stored position from another slot or publication than the named ones; None if they are the same.

    Reading on from the stored slot would miss the tables that only the named publication has. Reading from the named
    slot would miss changes that it has never sent.
    """
    if (stored.slot, stored.publication) == (slot, publication):
        return None
    return _gap(stored, "OTHER_SLOT", publication=stored.publication, named=slot, named_publication=publication)


def unconfirmed_from(session: Session, stored: StoredPosition) -> int | None:
    """Return the position of a slot that is behind the stored one, if the log in between can be compared; else None.

    A slot is behind if its source was restored to an older state; the log of that source may have passed the stored
    position since. A slot is also behind after a server crash, and before an acknowledgement.

    Args:
        session: any session of the database.
        stored: the position; it has no other gap.

    Raises:
        SourceError: DATABASE_UNREACHABLE and other errors of the connection.
    """
    if stored.last is None:
        return None
    confirmed = parse_lsn(session.rows(_SLOT, [stored.slot])[0][3])
    if stored.last.commit_microseconds == _NO_TIME and confirmed < stored.last.end:
        return None  # the log in between was read from another checkpoint, or never
    return confirmed if confirmed < stored.lsn else None


def history_gap(stored: StoredPosition, confirmed: int, found: Commit | None) -> Gap | None:
    """Detect a replaced log: before the stored position it differs from the log that was read.

    Args:
        stored: the position.
        confirmed: the position of the slot, where the comparison of the log began.
        found: the last transaction of that log that ends at or before the stored position; None without one.
    """
    expected = None if stored.last is None or confirmed >= stored.last.end else stored.last
    return None if found == expected else _gap(stored, "LOG_REPLACED")


def _commit_value(commit: Commit) -> list[object]:
    return [format_lsn(commit.position), format_lsn(commit.end), commit.commit_microseconds]


def _commit_of(value: list[Any]) -> Commit:
    start, end, microseconds = value
    return Commit(position=parse_lsn(start), end=parse_lsn(end), commit_microseconds=int(microseconds))


def _server_gap(session: Session, stored: StoredPosition) -> Gap | None:
    found = read_identity(session)
    known, now = (_known(identity) for identity in (stored.identity, found))
    for name, before in known.items():
        if before != now.get(name, before):
            return _gap(stored, "SOURCE", kind=name, before=before, now=now[name])
    end = session.rows("SELECT pg_current_wal_insert_lsn()::text")[0][0]
    return _gap(stored, "LOG_RESET", end=end) if stored.lsn > parse_lsn(end) else None


def _known(identity: SourceIdentity) -> dict[str, object]:
    """Return the parts of an identity that the role may read, by their names in messages."""
    parts = {"system identifier": identity.system, "timeline": identity.timeline, "database": identity.database}
    return {name: part for name, part in parts.items() if part not in (UNKNOWN_SYSTEM, 0)}


def _slot_gap(cursor: Any, stored: StoredPosition) -> Gap | None:
    cursor.execute(_SLOT, [stored.slot])
    row = cursor.fetchone()
    if row is None:
        return _gap(stored, "SLOT_MISSING")
    plugin, database, status, confirmed, reason, is_two_phase = row
    if plugin != "pgoutput" or database != stored.identity.database:
        return _gap(stored, "SLOT_REPLACED", plugin=plugin, database=database)
    if confirmed is None:  # another slot of this name is being created
        return _gap(stored, "SLOT_MISSING")
    if status == "lost":
        cause, mend = _INVALIDATIONS.get(reason, (f"has invalidated it ({reason})", "Correct the cause before."))
        return _gap(stored, "SLOT_INVALID", cause=cause, mend=mend)
    if parse_lsn(confirmed) > stored.lsn:
        # START_REPLICATION would start at the confirmed position, without an error.
        return _gap(stored, "SLOT_AHEAD", confirmed=confirmed)
    return _gap(stored, "TWO_PHASE") if is_two_phase else None


def _publication_gap(cursor: Any, stored: StoredPosition) -> Gap | None:
    cursor.execute(_PUBLICATION, [stored.publication])
    row = cursor.fetchone()
    if row is None or not row[0]:
        return _gap(stored, "PUBLICATION", publication=stored.publication)
    return None if row[1] else _gap(stored, "PARTITION_ROOT", publication=stored.publication)


def _gap(stored: StoredPosition, reason: str, **fields: object) -> Gap:
    lsn = format_lsn(stored.lsn)
    common = {"slot": stored.slot, "lsn": lsn, "reader": f"slot {stored.slot}", "position": lsn}
    return Gap(condition=f"DATABASE_POSITION_LOST.{reason}", fields={**common, **fields})
