"""Positions in the log of a SQL Server database: an LSN with change data capture, a version with change tracking."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from framework.foundation.errors import SourceError
from framework.sources.databases.position import Position
from framework.sources.databases.source_session import Gap
from framework.sources.databases.sqlserver.connecting import CAPTURE, TRACKING, changes_way
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.instances import is_capturing, read_instances

_VERSION = 1
_IDENTITY = (
    "SELECT CONVERT(varchar(36), r.recovery_fork_guid), CONVERT(varchar(36), d.service_broker_guid) "
    "FROM sys.databases AS d LEFT JOIN sys.database_recovery_status AS r ON r.database_id = d.database_id "
    "WHERE d.database_id = DB_ID()"
)
_LOG_END = "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping"
_TRACKED_END = "SELECT CHANGE_TRACKING_CURRENT_VERSION()"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseIdentity:
    """What distinguishes a database from another one at its address; empty texts are unknown.

    Args:
        fork: the recovery fork, which changes when the database is restored. The replicas of an availability group
            share it.
        broker: the id of the database's service broker, which every database has.
    """

    fork: str
    broker: str

    def differs(self, other: DatabaseIdentity) -> bool:
        """Whether another database is meant; the fork decides if both are known."""
        if self.fork and other.fork:
            return self.fork != other.fork
        return self.broker != other.broker

    def __str__(self) -> str:
        return f"{self.fork}/{self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosition:
    """The offset of a stream of changes.

    Args:
        way: CAPTURE or TRACKING.
        position: an LSN, or a version as text.
        identity: the database.
        tables: the object ids of the tables whose changes were read up to here; another table joins at its begin.
    """

    way: str
    position: str
    identity: DatabaseIdentity
    tables: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """The number that sorts positions."""
        return order_of(self.way, self.position)

    @property
    def lsn(self) -> Lsn:
        """The LSN of CAPTURE."""
        return Lsn.of_text(self.position)

    def to_json(self) -> str:
        """Return it as JSON, for `from_json`."""
        return json.dumps(
            {
                "version": _VERSION,
                "order": self.order,
                "text": self.position,
                "source": str(self.identity),
                "way": self.way,
                "tables": list(self.tables),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an offset.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        try:
            value = json.loads(text)
            if value["version"] != _VERSION:
                raise _invalid(problem=f"its version is {value['version']}, but this release reads version {_VERSION}")
            fork, _, broker = str(value["source"]).partition("/")
            found = cls(
                way=str(value["way"]),
                position=str(value["text"]),
                identity=DatabaseIdentity(fork=fork, broker=broker),
                tables=tuple(map(int, value["tables"])),
            )
            if found.order != int(value["order"]):
                raise _invalid(problem="its order is not that of its position")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _invalid(problem=f"it has a missing or malformed field: {error}") from error
        return found


def order_of(way: str, position: str) -> int:
    """Return the order of a position; a version begins at 0, and an order at 1."""
    return int(position) + 1 if way == TRACKING else Lsn.of_text(position).order


def position_at(way: str, position: str) -> Position:
    """Return a position as the engine knows it."""
    return Position(order=order_of(way, position), text=position)


def read_identity(session: Session) -> DatabaseIdentity:
    """Return the identity of the database.

    Raises:
        SourceError: the database can't be read.
    """
    fork, broker = session.rows(_IDENTITY)[0]
    return DatabaseIdentity(fork=fork or "", broker=broker or "")


def captured_end(session: Session) -> Lsn | None:
    """Return the LSN up to which the capture job has read the log; None before its first run.

    The end of the log itself is greater, and no statement without the rights of an administrator shows it.

    Raises:
        SourceError: SQLSERVER_CAPTURE_DISABLED, or the database can't be read.
    """
    if not is_capturing(session):
        raise SourceError("SQLSERVER_CAPTURE_DISABLED", address=session.connection.address)
    end = session.rows(_LOG_END)[0][0]
    return None if end is None else Lsn(bytes(end))


def read_end(session: Session) -> str:
    """Return the end of the log that can be read now: without any transaction, the begin of the newest instance.

    Raises:
        SourceError: SQLSERVER_CAPTURE_DISABLED, SQLSERVER_CAPTURE_MISSING, SQLSERVER_TRACKING_DISABLED, or the database
            can't be read.
    """
    if changes_way(session.connection) == TRACKING:
        version = session.rows(_TRACKED_END)[0][0]
        if version is None:
            raise SourceError("SQLSERVER_TRACKING_DISABLED", address=session.connection.address)
        return str(version)
    begins = [each.begin for each in read_instances(session) if each.begin is not None]
    end = captured_end(session) or max(begins, default=None)
    if end is None:
        raise SourceError("SQLSERVER_CAPTURE_EMPTY", address=session.connection.address)
    return str(end)


def find_gap(session: Session, stored: StoredPosition, reader: str) -> Gap | None:
    """Return why changes can't be read on from a position; None if they can.

    A capture instance that begins later is a gap of its own table, see `change_tables`.

    Args:
        session: a session.
        stored: the position.
        reader: the name of the gateway, for the text.

    Raises:
        SourceError: the database can't be read.
    """
    common = {"reader": reader, "position": stored.position}
    way, now = changes_way(session.connection), read_identity(session)
    if stored.identity.differs(now):
        fields = {**common, "kind": "the recovery fork", "before": stored.identity, "now": now}
        return Gap(condition="DATABASE_POSITION_LOST.SOURCE", fields=fields)
    if way != stored.way:
        return Gap(
            condition="DATABASE_POSITION_LOST.SQLSERVER_WAY", fields={**common, "before": stored.way, "now": way}
        )
    begins = [each.begin for each in read_instances(session) if each.begin is not None] if way == CAPTURE else []
    if way == CAPTURE and not begins:
        return Gap(condition="DATABASE_POSITION_LOST.SQLSERVER_DISABLED", fields=common)
    end = read_end(session)
    if order_of(way, end) < stored.order:
        return Gap(condition="DATABASE_POSITION_LOST.LOG_RESET", fields={**common, "end": end})
    is_removed = bool(begins) and min(begins) > stored.lsn
    return Gap(condition="DATABASE_POSITION_LOST.LOG_REMOVED", fields=common) if is_removed else None


def _invalid(*, problem: str) -> SourceError:
    return SourceError("DATABASE_POSITION_INVALID", problem=problem)
