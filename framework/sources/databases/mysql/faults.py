"""Named errors for the failures of PyMySQL and connectorx: the cause, whether a retry may succeed, and the fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import clear_frames

import pymysql

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.connecting import Login
from framework.sources.databases.mysql.facts import FACTS
from framework.sources.databases.tables import TableName

_UNREACHABLE, _LOGIN, _PERMISSION = "DATABASE_UNREACHABLE", "DATABASE_LOGIN_REFUSED", "DATABASE_PERMISSION"
_MISSING, _BUSY = "DATABASE_TABLE_MISSING", "DATABASE_BUSY"
_BY_NUMBER = {
    **dict.fromkeys((1044, 1142, 1143, 1227, 1370), _PERMISSION),
    **dict.fromkeys((1045, 1130, 1396, 1698, 1820, 1862, 3118, 3159, 3955), _LOGIN),
    **dict.fromkeys((1040, 1203, 1205, 1213, 1226, 1290, 3024, 1969, 1317), _BUSY),
    **dict.fromkeys((1053, 1077, 1079, 1080, 1927, 2002, 2003, 2005, 2006, 2013, 2055, 4031), _UNREACHABLE),
    1049: "DATABASE_NOT_FOUND",
    1054: "DATABASE_COLUMN_MISSING",
    1146: _MISSING,
    2026: "DATABASE_TLS_FAILED",
}
_TLS = re.compile(r"ssl|certificate|tls", re.IGNORECASE)
RIGHT_MISSING, _NO_DATABASE = 1227, 1044
_OF_LOG = {"REPLICATION SLAVE": "REPLICATION SLAVE", "REPLICATION CLIENT": "REPLICATION CLIENT"} | {
    "BINLOG MONITOR": "REPLICATION CLIENT"  # the name in MariaDB, which takes both
}
_OWN_DATABASE = re.compile(r"for user (?P<account>'[^']*'@'[^']*') to database '(?P<database>[^']*)'")
_LOCK_WAIT = 1205
Account = Callable[[], str | None]
"""Returns the account that a session has, as SQL; None if the server gives no answer."""


@contextmanager
def named_errors(
    connection: Connection, *, table: TableName | None = None, account: Account | None = None
) -> Iterator[None]:
    """Raise the errors of PyMySQL in the block as named errors.

    Args:
        connection: the connection, whose password is removed from the text.
        table: the table that the block reads.
        account: of the session, for the statement that grants a missing right.

    Raises:
        SourceError: a condition `DATABASE_…`.
    """
    try:
        yield
    except (pymysql.Error, OSError) as error:
        clear_frames(error.__traceback__)
        # The driver's own exception is not chained: a traceback would print its text, which may have the password.
        raise named_error(error, connection, table=table, account=account) from None


def number_of(error: BaseException) -> int:
    """Return the number of an error of the server or of the driver; 0 without one."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def named_error(
    error: Exception, connection: Connection, *, table: TableName | None = None, account: Account | None = None
) -> SourceError:
    """Return the named error of a driver's exception."""
    number = number_of(error)
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    condition = _BY_NUMBER.get(number, "DATABASE_QUERY_FAILED")
    if isinstance(error, pymysql.InterfaceError) or (isinstance(error, OSError) and not number):
        condition = _UNREACHABLE
    if condition == _UNREACHABLE and _TLS.search(text):
        condition = "DATABASE_TLS_FAILED"
    user = account() if account is not None and condition == _PERMISSION else None
    return SourceError(
        condition,
        connection=connection.name,
        address=connection.address,
        cause=one_line(connection.hide(text)).rstrip(". "),
        state=str(number or "none"),
        table="the log of the server" if number == RIGHT_MISSING else table or "a table of the query",
        tls_parameters=FACTS.tls_parameters,
        login_rules=FACTS.login_rules,
        role=f"'{Login.of(connection).user}'",
        statement=_grant(number, text, user or f"'{Login.of(connection).user}'", table),
    )


def account_sql(current_user: str) -> str:
    """Return what CURRENT_USER() says as SQL: a user is an account together with its host.

    Examples:
        >>> account_sql("copier@%")
        "'copier'@'%'"
    """
    name, _, host = current_user.rpartition("@")
    return f"'{name}'@'{host}'"


def _grant(number: int, text: str, account: str, table: TableName | None) -> str:
    """Return the statement that grants what an error of the server misses."""
    if number == RIGHT_MISSING:
        right = next((granted for name, granted in _OF_LOG.items() if name in text), "REPLICATION CLIENT")
        return f"GRANT {right} ON *.* TO {account}"
    own = _OWN_DATABASE.search(text) if number == _NO_DATABASE else None
    if own is not None:
        return f"GRANT SELECT ON {quoted(own['database'])}.* TO {own['account']}"
    place = "*.*" if table is None else table_sql(table)
    return f"GRANT SELECT ON {place} TO {account}"


def quoted(name: str) -> str:
    """Return a name as SQL.

    Examples:
        >>> quoted("a`b")
        '`a``b`'
    """
    return f"`{name.replace('`', '``')}`"


def table_sql(name: TableName) -> str:
    """Return the name of a table as SQL."""
    return f"{quoted(name.schema)}.{quoted(name.table)}"
