"""Named errors for the failures of mssql-python, by the text of the server: the driver has no number of the error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.connections import Connection
from framework.sources.databases.sqlserver.connecting import login_user
from framework.sources.databases.sqlserver.driver import load_fault
from framework.sources.databases.sqlserver.facts import FACTS
from framework.sources.databases.sqlserver.names import bracket, quoted
from framework.sources.databases.tables import TableName

_UNREACHABLE = "DATABASE_UNREACHABLE"
# The first match wins.
_BY_TEXT = tuple(
    (re.compile(pattern, re.IGNORECASE), condition)
    for pattern, condition in (
        (r"Cannot open database|do not have permission to open", "DATABASE_NOT_FOUND"),
        (r"Login failed|password (?:has expired|must be changed)|AADSTS", "DATABASE_LOGIN_REFUSED"),
        (r"certificate|SSL Provider|TLS|encryption not supported", "DATABASE_TLS_FAILED"),
        (r"permission was denied|do(?:es)? not have permission|Only members of", "DATABASE_PERMISSION"),
        (r"Invalid object name|Could not find stored procedure", "DATABASE_TABLE_MISSING"),
        (r"Invalid column name", "DATABASE_COLUMN_MISSING"),
        (r"deadlock|Lock request time ?out|Query timeout|isolation transaction aborted|is full", "DATABASE_BUSY"),
        (r"Communication link failure|connection (?:is|was) (?:broken|closed|forcibly)", _UNREACHABLE),
        (r"not currently available|Login timeout|TCP Provider|Unable to complete login|shutdown", _UNREACHABLE),
        (r"server was not found|Connection operation", _UNREACHABLE),
    )
)
_HEAD = re.compile(r"\[Microsoft\](?:\[[^\]]*\])*|Driver Error: [^;]*; DDBC Error: ")


@contextmanager
def named_errors(connection: Connection, *, table: TableName | None = None, connecting: bool = False) -> Iterator[None]:
    """Raise the errors of the driver in the block as named errors.

    Args:
        connection: the connection, whose password is removed from the text.
        table: the table that the block reads.
        connecting: whether the block opens a connection.

    Raises:
        SourceError: a condition `DATABASE_…`.
    """
    from mssql_python import Error

    try:
        yield
    except (Error, RuntimeError) as error:
        # The driver's own exception is not chained: a traceback would print its text, which may have the password.
        raise named_error(str(error), connection, table=table, connecting=connecting) from None


def named_error(text: str, connection: Connection, *, table: TableName | None, connecting: bool) -> SourceError:
    """Return the named error of a text of the driver."""
    not_loaded = load_fault(text)
    if not_loaded is not None:
        return not_loaded
    default = _UNREACHABLE if connecting else "DATABASE_QUERY_FAILED"
    condition = next((found for pattern, found in _BY_TEXT if pattern.search(text)), default)
    role = bracket(login_user(connection))
    grant = "GRANT SELECT ON SCHEMA::cdc" if table is None else f"GRANT SELECT ON {quoted(table)}"
    return SourceError(
        condition,
        connection=connection.name,
        address=connection.address,
        cause=one_line(_HEAD.sub("", connection.hide(text))).rstrip(". "),
        state="none",
        table=table or "a table of the query",
        tls_parameters=FACTS.tls_parameters,
        login_rules=FACTS.login_rules,
        role=role,
        statement=f"{grant} TO {role}",
    )
