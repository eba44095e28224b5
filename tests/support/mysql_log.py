"""The log of a server of MySQL or MariaDB, read by the reader of `framework.sources.databases.mysql.log`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

from framework.sources.databases.mysql.log.binlog_connection import EventStream, LogStart
from framework.sources.databases.mysql.log.changes import CopiedTable
from framework.sources.databases.mysql.log.gtids import MariaGtids, MySqlGtids
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.mysql.log.statements import Statement
from framework.sources.databases.mysql.log.texts import ServerTexts
from framework.sources.databases.mysql.log.transactions import Begin, Commit, Idle, TransactionReader
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.tables import TableName
from tests.support.mysql_servers import MysqlServer

_SERVER_IDS = count(77_001)


@dataclass(frozen=True, slots=True)
class Address:
    """What an event stream says of its server in error texts."""

    address: str = "127.0.0.1"
    name: str = "tested"

    def hide(self, text: str) -> str:
        """Return a text without secrets; it has none."""
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of changes."""

    table: str
    operation: str
    payload: dict[str, Any] | str | None
    position: int
    schema_version: int


class LogReading:
    """Reads the log of a server from a place.

    Args:
        server: the server.
        tables: the copied tables.
        start: where it begins; at the present end of the log if omitted.
        gtids: begin after these transactions instead.
        options: of the `TransactionReader`.
    """

    def __init__(
        self,
        server: MysqlServer,
        tables: Mapping[TableName, CopiedTable],
        start: LogPlace | None = None,
        *,
        gtids: MySqlGtids | MariaGtids | None = None,
        **options: Any,
    ) -> None:
        self.server = server
        self.place = start or end_of_log(server)
        self.begins: list[Begin] = []
        self.commits: list[Commit] = []
        self.statements: list[Statement] = []
        self._buffer = ChangeBuffer()
        self.events = open_stream(server, None if gtids is not None else self.place, gtids=gtids)
        self.reader = TransactionReader(
            self.events,
            tables,
            self._buffer,
            ServerTexts(lambda query, values: server.query(query, *values)),
            reopen=lambda place: open_stream(server, place),
            **{"keeps_unreadable": True, **options},
        )
        self._steps = self.reader.steps()

    def read(self, target: LogPlace | None = None) -> list[Change]:
        """Return the changes up to a place, the present end of the log if omitted."""
        target = target or end_of_log(self.server)
        changes: list[Change] = []
        while self.place < target:
            changes += self._step()
        return changes

    def read_rows(self, rows: int) -> list[Change]:
        """Return at least so many changes, in the middle of a transaction if it has more."""
        changes: list[Change] = []
        while len(changes) < rows:
            changes += self._step()
        return changes

    def _step(self) -> list[Change]:
        step = next(self._steps)
        if isinstance(step, Begin):
            self.begins.append(step)
            return []
        if isinstance(step, Statement):
            self.statements.append(step)
        elif isinstance(step, Commit | Idle):
            self.place = step.place
            if isinstance(step, Commit):
                self.commits.append(step)
        return self._taken()

    def _taken(self) -> list[Change]:
        position = self.begins[-1].position if self.begins else 0
        kinds = [self.reader.kinds[index] for index in self._buffer.kinds]
        changes = [
            Change(
                table=str(kind.relation.table),
                operation=kind.operation,
                payload=json.loads(payload, parse_float=str, parse_int=str)
                if payload and payload[0] == "{"
                else payload,
                position=position,
                schema_version=kind.relation.schema_version,
            )
            for kind, payload in zip(kinds, self._buffer.payloads, strict=True)
        ]
        self._buffer.clear()
        return changes

    def close(self) -> None:
        """End the reading."""
        self.events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_stream(
    server: MysqlServer, place: LogPlace | None, *, gtids: MySqlGtids | MariaGtids | None = None
) -> EventStream:
    """Open the events of a server's log."""
    start = LogStart(server_id=next(_SERVER_IDS), place=place, gtids=gtids, heartbeat_seconds=0.05)
    return EventStream(Address(), server.connect, start)  # type: ignore[arg-type]


def end_of_log(server: MysqlServer) -> LogPlace:
    """Return the present end of a server's log."""
    statement = "SHOW MASTER STATUS" if server.is_mariadb else "SHOW BINARY LOG STATUS"
    file, offset = server.query(statement)[0][:2]
    return LogPlace(str(file), int(offset))
