"""The database of a gateway, and the names of its tables there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.sources.databases.connections import Connection
from framework.sources.databases.dialects import dialect_of, facts_of, open_source
from framework.sources.databases.options import Options
from framework.sources.databases.source_session import LogName
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.facts import DialectFacts
    from framework.sources.databases.source_session import SourceSession


def gateway_connection(gateway: IngestedGateway) -> Connection:
    """Return the connection of a gateway.

    Raises:
        UserError: it is not defined.
    """
    return named_connection(gateway.connection, gateway.folder)


def gateway_dialect(gateway: IngestedGateway) -> Dialect:
    """Return the dialect of the database of a gateway.

    Raises:
        UserError: the connection is not defined, or the drivers are not installed.
    """
    return dialect_of(gateway_connection(gateway))


def gateway_facts(gateway: IngestedGateway) -> DialectFacts:
    """Return the constant facts of the dialect of a gateway, even if its connection is no longer defined."""
    return facts_of(gateway.scheme)


def gateway_log(gateway: IngestedGateway) -> LogName:
    """Return the names of a gateway in the log of its database."""
    return LogName(position=gateway.position_name, tables=gateway.table_list)


def open_gateway(
    gateway: IngestedGateway, *, read_only: bool = True, lock_seconds: float | None = None
) -> SourceSession:
    """Open a session at the database of a gateway, see `open_source`.

    Raises:
        SluiceError: the connection is not defined, or the database can't be reached.
    """
    return open_source(gateway_connection(gateway), read_only=read_only, lock_seconds=lock_seconds)


def named_connection(name: str, folder: str) -> Connection:
    """Return the connection of a name, from the environment or from `connections.yml` of a folder.

    Raises:
        UserError: it is not defined.
    """
    return Options("ingest_database", {"connection": name, "connectionsFolder": folder}).connection()


def source_name(table: IngestedTable) -> TableName:
    """Return the name of a table at its source."""
    return TableName(schema=table.source_schema, table=table.source_table)


def table_names(gateway: IngestedGateway) -> list[TableName]:
    """Return the names of the tables that a gateway can copy now, as the source has them."""
    return list(dict.fromkeys(source_name(each) for each in gateway.tables if each.keys))
