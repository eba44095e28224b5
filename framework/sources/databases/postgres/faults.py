"""Named errors for the failures of psycopg2 and ADBC: the cause, whether a retry may succeed, and the fix.

A failure of a statement has an SQLSTATE. A failed login has none in either driver, so its text is matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import clear_frames

import psycopg2
from adbc_driver_manager import Error as ArrowError
from psycopg2.extensions import parse_dsn

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.facts import FACTS
from framework.sources.databases.tables import TableName, quote_identifier

# Conditions under which a retry may succeed without any other change.
TRANSIENT = frozenset({"DATABASE_UNREACHABLE", "DATABASE_BUSY"})

_UNREACHABLE = "DATABASE_UNREACHABLE"
_LOGIN = "DATABASE_LOGIN_REFUSED"
_PERMISSION = "DATABASE_PERMISSION"
# SQLSTATE, or its first two characters (the class), and the condition.
_BY_STATE = {
    "08": _UNREACHABLE,
    "28": _LOGIN,
    "3D": "DATABASE_NOT_FOUND",
    "3F": "DATABASE_TABLE_MISSING",
    "42P01": "DATABASE_TABLE_MISSING",
    "42703": "DATABASE_COLUMN_MISSING",
    "42501": _PERMISSION,
    "40": "DATABASE_BUSY",
    "53": "DATABASE_BUSY",
    "55006": "DATABASE_BUSY",
    "55P03": "DATABASE_BUSY",
    "57014": "DATABASE_BUSY",
    "57P": _UNREACHABLE,
}
_NOT_NOW = ("25006", "55000")
# Texts of the server and of libpq at the login; the first match wins.
_AT_LOGIN = (
    (re.compile(r'database "[^"]*" does not exist'), "DATABASE_NOT_FOUND"),
    (re.compile(r"too many (?:connections|clients)|connection slots are reserved"), "DATABASE_BUSY"),
    (re.compile(r"the database system is|server closed the connection|terminating connection"), _UNREACHABLE),
    (re.compile(r"must be superuser|REPLICATION attr|WAL sender|replication role"), "DATABASE_REPLICATION_ROLE"),
    (re.compile(r"permission denied for database|does not have CONNECT"), _PERMISSION),
    (re.compile(r"invalid (?:integer|connection option|URI|port|\w+ value)"), "DATABASE_PARAMETER_INVALID"),
    (re.compile(r"certificate|does not support SSL|SSL error|sslmode|SSL is (?:required|off)"), "DATABASE_TLS_FAILED"),
    (re.compile(r"FATAL|password|authentication|fe_sendauth|pg_hba"), _LOGIN),
)
_LOST = re.compile(
    r"server closed the connection|connection already closed|could not receive data|could not send data"
    r"|SSL SYSCALL|SSL connection has been closed|no connection to the server|connection not open"
)
_ADBC_HEAD = re.compile(r"^[A-Z_]+: (?:\[libpq\] )?(?:Failed to \w+(?: query)?: )?")
_ADBC_QUERY = re.compile(r"\s*^Query was:.*?(?=SQLSTATE: \w{5}$|\Z)", re.DOTALL | re.MULTILINE)
_ADBC_STATE = re.compile(r"[\s.]*SQLSTATE: \w{5}\s*$")
_HIDDEN_ROWS = re.compile(r"row-level security")
_STANDBY = re.compile(r"recovery is in progress|during recovery")
_NO_REPLICATION = re.compile(r"replication slots|REPLICATION|replication role", re.IGNORECASE)


@contextmanager
def named_errors(connection: Connection, *, table: TableName | None = None, connecting: bool = False) -> Iterator[None]:
    """Raise the errors of both drivers in the block as named errors.

    Args:
        connection: the connection, whose password is removed from the text.
        table: the table that the block reads.
        connecting: whether the block opens a connection.

    Raises:
        SourceError: a condition `DATABASE_…`.
    """
    try:
        yield
    except (psycopg2.Error, ArrowError) as error:
        # The drivers keep a failed connection open, and the server waits a minute for a password that never comes.
        clear_frames(error.__traceback__)
        # The driver's own exception is not chained: a traceback would print its text, which may have the password.
        raise named_error(error, connection, table=table, connecting=connecting) from None


def is_transient(error: SourceError) -> bool:
    """Return whether a retry may succeed without any other change."""
    return error.condition in TRANSIENT


def named_error(
    error: psycopg2.Error | ArrowError, connection: Connection, *, table: TableName | None, connecting: bool
) -> SourceError:
    """Return the named error of a driver's exception."""
    cause = _cause(connection.hide(str(error)))
    state = (getattr(error, "pgcode", None) or getattr(error, "sqlstate", None) or "").strip("\0")
    condition = _condition(state, str(error), connecting=connecting)
    login = _login(connection)
    role = quote_identifier(login["user"]) if "user" in login else '"<role of the connection>"'
    return SourceError(
        condition,
        connection=connection.name,
        address=connection.address,
        cause=cause,
        state=state or "none",
        table=table or "a table of the query",
        tls_parameters=FACTS.tls_parameters,
        login_rules=FACTS.login_rules,
        role=role,
        statement=_statement(condition, role, login.get("dbname", "…"), table),
    )


def _cause(text: str) -> str:
    """Return the message of the server or of libpq, without the text that ADBC adds."""
    text = _ADBC_HEAD.sub("", _ADBC_QUERY.sub("", text))
    return one_line(_ADBC_STATE.sub("", text)).rstrip(". ")


def _condition(state: str, text: str, *, connecting: bool) -> str:
    if state == "42501" and _HIDDEN_ROWS.search(text):
        return "DATABASE_ROWS_HIDDEN"
    if state == "42501" and _NO_REPLICATION.search(text):
        return "DATABASE_REPLICATION_ROLE"
    if state in _NOT_NOW and _STANDBY.search(text):
        return "DATABASE_STANDBY"
    for known in (state, state[:3], state[:2]):
        if known in _BY_STATE:
            return _BY_STATE[known]
    if connecting:
        return next((condition for pattern, condition in _AT_LOGIN if pattern.search(text)), _UNREACHABLE)
    return _UNREACHABLE if _LOST.search(text) else "DATABASE_QUERY_FAILED"


def _login(connection: Connection) -> dict[str, str]:
    """Return role and database of a connection, for a statement that the administrator runs."""
    try:
        return {name: str(value) for name, value in parse_dsn(connection.uri).items()}
    except psycopg2.Error:
        return {}


def _statement(condition: str, role: str, database: str, table: TableName | None) -> str:
    """Return the statement that grants a missing right."""
    if condition == "DATABASE_REPLICATION_ROLE":
        return f"ALTER ROLE {role} REPLICATION"
    if condition == "DATABASE_ROWS_HIDDEN":
        return f"ALTER ROLE {role} BYPASSRLS"
    if table is None:
        return f"GRANT CONNECT ON DATABASE {quote_identifier(database)} TO {role}"
    return f"GRANT USAGE ON SCHEMA {quote_identifier(table.schema)} TO {role}; GRANT SELECT ON {table.quoted} TO {role}"
