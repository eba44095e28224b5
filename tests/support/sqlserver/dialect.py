"""The dialect of SQL Server over the stand-in; the entry point `sqlserver-stand-in` of `sluice.dialects` names it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from framework.sources.databases.dialect import Dialect
from framework.sources.databases.sqlserver.dialect import SqlServerDialect
from framework.sources.databases.sqlserver.facts import FACTS

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.sqlserver.session import Session


def connect(connection: Connection) -> Session:
    """Open a session; sqlglot is imported then, since each test loads each dialect."""
    from tests.support.sqlserver.session import StandInSession

    return StandInSession(connection)


STAND_IN: Dialect = SqlServerDialect(connect, replace(FACTS, drivers=(), connection_example=""))
