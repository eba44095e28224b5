"""Readers of the rows of a query as Arrow: connectorx's binary protocol, and PyMySQL where connectorx can't connect.

connectorx knows no TLS. PyMySQL reads texts, which Arrow converts; it is slower, and reads the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import pyarrow as pa
from pymysql.cursors import SSCursor

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.connecting import Login
from framework.sources.databases.mysql.session import SESSION_SETTINGS, Session

_BATCH_ROWS = 65_536
_PANIC, _UNREADABLE = "PanicException", "Couldn't convert the value"
_NUMBER = re.compile(r"ERROR (\d+) \(\w+\): (.*?)(?: \}\)*)?$", re.DOTALL)
_LOST = 2013


class UnreadableValueError(Exception):
    """connectorx failed at a value that its types can't hold."""


class ReaderError(Exception):
    """connectorx failed for another reason.

    Args:
        message: its text, which has the error of the database.
    """

    def __init__(self, message: str) -> None:
        found = _NUMBER.search(message)
        # Any other failure is one of the connection.
        super().__init__(int(found[1]) if found else _LOST, found[2] if found else message)


def has_fast_reader(connection: Connection) -> bool:
    """Whether connectorx can read a connection."""
    return Login.of(connection).mode in ("disabled", "preferred")


def read_fast(connection: Connection, query: str, settings: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read a query by connectorx.

    Args:
        connection: the connection, without TLS.
        query: the query.
        settings: statements before it.

    Raises:
        UnreadableValueError: a value that its types can't hold, such as a zero date.
        ReaderError: any other failure.
    """
    import connectorx

    try:
        reader = connectorx.read_sql(
            _uri(Login.of(connection)),
            query,
            protocol="binary",
            return_type="arrow_stream",
            batch_size=_BATCH_ROWS,
            pre_execution_query=[f"SET {SESSION_SETTINGS}", *settings],
        )
        yield from reader
    except (RuntimeError, OSError, pa.ArrowException) as error:
        raise ReaderError(str(error)) from None
    except BaseException as error:
        # A panic of Rust is no Exception, and its class can't be imported.
        if type(error).__name__ != _PANIC:
            raise
        if _UNREADABLE in str(error):
            raise UnreadableValueError(str(error)) from None
        raise ReaderError(str(error)) from None


def read_slowly(session: Session, query: str) -> Iterator[pa.RecordBatch]:
    """Read a query by PyMySQL, without its conversions: all values are texts or bytes.

    Raises:
        pymysql.Error: the query fails.
    """
    with session.raw.cursor(SSCursor) as cursor:
        conversions, session.raw.decoders = session.raw.decoders, {}
        try:
            cursor.execute(query)
            names = [each[0] for each in cursor.description or ()]
            while rows := cursor.fetchmany(_BATCH_ROWS):
                yield pa.RecordBatch.from_arrays([pa.array(values) for values in zip(*rows, strict=True)], names)
        finally:
            session.raw.decoders = conversions


def _uri(login: Login) -> str:
    """Return the URI for connectorx, which takes the socket of a connection as an option."""
    options = {"prefer_socket": "false"}
    if "socket" in login.options:
        options["socket"] = login.options["socket"]
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
    who = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    host = f"[{login.host}]" if ":" in login.host else login.host
    return f"mysql://{who}@{host}:{login.port}/{quote(login.database, safe='')}?{query}"
