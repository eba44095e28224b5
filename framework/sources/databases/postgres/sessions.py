"""Connections to a PostgreSQL source, for queries and for its log.

Both kinds have the same output settings, so that a value has the same text in a query as in the log.
"""

from __future__ import annotations

from typing import Any

import psycopg2
from psycopg2.extensions import parse_dsn
from psycopg2.extras import LogicalReplicationConnection

from framework.foundation.errors import SourceError
from framework.foundation.secrecy import hide_in_text

_SETTINGS = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    # A limit that an administrator set for a role is meant for queries of people.
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_CONNECT_SECONDS = 15


def open_session(uri: str) -> Any:
    """Connect for queries, in autocommit mode.

    Raises:
        SourceError: DATABASE_CONNECTION_LOST.
    """
    try:
        connection = psycopg2.connect(uri, **_parameters(uri))
    except psycopg2.OperationalError as error:
        raise connection_lost(error) from None
    connection.autocommit = True
    return connection


def open_replication(uri: str) -> Any:
    """Connect for the log; the connection accepts replication commands.

    Raises:
        SourceError: DATABASE_CONNECTION_LOST.
    """
    try:
        return psycopg2.connect(uri, connection_factory=LogicalReplicationConnection, **_parameters(uri))
    except psycopg2.OperationalError as error:
        raise connection_lost(error) from None


def connection_lost(error: object) -> SourceError:
    """Return the transient fault of a failed connection; a new connection at the same position may succeed."""
    return SourceError("DATABASE_CONNECTION_LOST", problem=hide_in_text(" ".join(str(error).split())))


def _parameters(uri: str) -> dict[str, Any]:
    given = parse_dsn(uri)
    settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    parameters: dict[str, Any] = {
        "options": f"{given.get('options', '')} {settings}".strip(),
        "client_encoding": "UTF8",
        "application_name": given.get("application_name", "sluice"),
        "connect_timeout": given.get("connect_timeout", _CONNECT_SECONDS),
    }
    return parameters
