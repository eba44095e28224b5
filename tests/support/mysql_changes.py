"""The stream of changes of a server as a flow reads it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.changes_source import ChangesRequest, MysqlLog
from framework.sources.databases.options import Options
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolLimits
from tests.support.mysql_servers import MysqlServer
from tests.support.postgres_log import rows_of


class _Given(Options):
    """Options whose connection is given, not named."""

    uri = ""

    def connection(self) -> Connection:
        """Return the connection."""
        return Connection(name="bank", uri=self.uri)


def log_of(server: MysqlServer, tables: Sequence[str], folder: Path, **options: str) -> MysqlLog:
    """Return the log of tables, `schema.table`, as a process has it that started now."""
    uri = server.uri()

    class Here(_Given):
        pass

    Here.uri = uri
    request = ChangesRequest.of(Here("test", {"slot": "test", "tables": ", ".join(tables), **options}))
    return MysqlLog(request, lambda: Spool(folder, SpoolLimits(group_rows=50, group_bytes=200_000, file_rows=300)))


def changes(batch: SpooledBatch) -> list[tuple[str, Any]]:
    """Return operation and decoded payload of each row."""
    return [
        (row["operation"], None if row["payload"] is None else json.loads(row["payload"])) for row in rows_of(batch)
    ]
