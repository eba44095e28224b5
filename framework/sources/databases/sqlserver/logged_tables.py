"""The tables that have capture instances or change tracking, and whether the log of each is continuous."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import SluiceError, SourceError, UserError
from framework.sources.databases.source_session import KnownTable, LogName
from framework.sources.databases.sqlserver.connecting import CAPTURE, changes_way
from framework.sources.databases.sqlserver.log.stored_position import StoredPosition
from framework.sources.databases.sqlserver.log.tracked_tables import read_tracked
from framework.sources.databases.sqlserver.lsn import Lsn
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.statements import enable_table, instance_name
from framework.sources.databases.sqlserver.tables.instances import read_instances
from framework.sources.databases.sqlserver.tables.object_ids import find_object_ids
from framework.sources.databases.tables import SourceTable, TableName

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerTables:
    """The tables with a log.

    Args:
        session: a session of the database.
        log: the gateway.
        members: for each table with a log, by its object id, the ids of its parts: change tables, or the version at
            which change tracking was enabled; each with its begin, None if unknown.
    """

    session: Session
    log: LogName
    members: Mapping[int, Mapping[int, Lsn | None]]

    @classmethod
    def read(cls, session: Session, log: LogName) -> SqlServerTables:
        """Read the tables with a log.

        Raises:
            SourceError: the database can't be read.
        """
        members: dict[int, dict[int, Lsn | None]] = {}
        if changes_way(session.connection) == CAPTURE:
            for each in read_instances(session):
                members.setdefault(each.source_id, {})[each.id] = each.begin
        else:
            members = {number: {each.begin: None} for number, each in read_tracked(session).items()}
        return cls(session=session, log=log, members=members)

    @property
    def has_log(self) -> bool:
        """Whether any table has a log."""
        return bool(self.members)

    def has_table(self, name: TableName) -> bool:
        """Whether a table has a log."""
        return find_object_ids(self.session, [name]).get(name) in self.members

    def continuity(self, source: SourceTable) -> str:
        """Return the object ids of a table and of its change tables."""
        parts = sorted(self.members.get(int(source.identity), {}))
        return json.dumps({"version": _VERSION, "table": int(source.identity), "parts": parts})

    def among(self, sources: Sequence[SourceTable]) -> SqlServerTables:
        """Return the same tables: everything is read already."""
        del sources
        return self

    def fault(self, source: SourceTable, continuity: str) -> SluiceError | None:
        """Return the error of a table that was replaced, or none of whose change tables is one of before."""
        table, parts = read_continuity(continuity)
        if table and table != int(source.identity):
            return UserError("INGESTION_TABLE_REPLACED", table=source.name)
        return self._unlogged(source) if parts and not {*parts} & {*self._parts(source)} else None

    def refuse(self, source: SourceTable, known: KnownTable | None) -> None:
        """Refuse a table that was replaced, or whose log has a hole; and one that has no log and can't get one."""
        if known is None:
            return
        for text in (known.continuity, known.planned):
            fault = self.fault(source, text)
            if fault is not None and not self._goes_on(source, fault, known):
                raise fault
        if known.is_begun and not self._parts(source):
            raise self._unlogged(source)

    def missing(self, name: TableName, number: int) -> SourceError:
        """Return the error of a table without a capture instance."""
        statement = enable_table(name, instance_name(self.log, number))
        return SourceError("SQLSERVER_CAPTURE_MISSING", table=name, statement=statement)

    def _parts(self, source: SourceTable) -> Mapping[int, Lsn | None]:
        return self.members.get(int(source.identity), {})

    def _goes_on(self, source: SourceTable, fault: SluiceError, known: KnownTable) -> bool:
        """Whether a newer change table has all changes after the last position, so that the older one isn't needed."""
        if fault.condition != "INGESTION_TABLE_UNPUBLISHED" or not known.position:
            return False
        stored = StoredPosition.from_json(known.position)
        if stored.way != CAPTURE or int(source.identity) not in stored.tables:
            return False
        begins = [begin for begin in self._parts(source).values() if begin is not None]
        return bool(begins) and min(begins) <= stored.lsn

    @staticmethod
    def _unlogged(source: SourceTable) -> UserError:
        return UserError("INGESTION_TABLE_UNPUBLISHED", table=source.name, members="the capture instances")


def read_continuity(text: str) -> tuple[int, tuple[int, ...]]:
    """Return the object ids of a table and of its change tables; 0 and () for an empty text.

    Raises:
        SourceError: DATABASE_CONTINUITY_INVALID.
    """
    if not text:
        return 0, ()
    try:
        value: dict[str, Any] = json.loads(text)
        if value["version"] != _VERSION:
            raise _invalid(problem=f"its version is {value['version']}, but this release reads version {_VERSION}")
        return int(value["table"]), tuple(map(int, value["parts"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _invalid(problem=f"it has a missing or malformed field: {error}") from error


def _invalid(*, problem: str) -> SourceError:
    return SourceError("DATABASE_CONTINUITY_INVALID", problem=problem)
