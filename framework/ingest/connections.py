"""The database of a gateway, and the names of its tables there."""

from __future__ import annotations

from framework.declare.specs import IngestedGateway
from framework.sources.databases.connections import Connection
from framework.sources.databases.options import Options
from framework.sources.databases.tables import TableName


def gateway_connection(gateway: IngestedGateway) -> Connection:
    """Return the connection of a gateway.

    Raises:
        UserError: it is not defined.
    """
    return named_connection(gateway.connection, gateway.folder)


def named_connection(name: str, folder: str) -> Connection:
    """Return the connection of a name, from the environment or from `connections.yml` of a folder.

    Raises:
        UserError: it is not defined.
    """
    return Options("ingest_database", {"connection": name, "connectionsFolder": folder}).connection()


def table_names(gateway: IngestedGateway) -> list[TableName]:
    """Return the names of the tables that a gateway can copy now, as the source has them."""
    names = (TableName(schema=each.source_schema, table=each.source_table) for each in gateway.tables if each.keys)
    return list(dict.fromkeys(names))
