"""Readers of the rows of a query as Arrow: connectorx's binary protocol, and PyMySQL where connectorx can't connect.

connectorx knows no TLS, so a relay adds it. PyMySQL reads texts, which Arrow converts: slower, and the same values.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from urllib.parse import quote

import pyarrow as pa
from pymysql.cursors import SSCursor

from framework.sources.databases.connections import Connection
from framework.sources.databases.mysql.chunks.tls_relay import tls_relay
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


def has_fast_reader(connection: Connection, *, bounded: bool) -> bool:
    """Whether connectorx can read a connection.

    Args:
        connection: the connection.
        bounded: whether the rows fit into memory.
    """
    login = Login.of(connection)
    return not _needs_relay(login) or (bounded and hasattr(socket, "AF_UNIX") and "socket" not in login.options)


def read_fast(
    connection: Connection, query: str, settings: Sequence[str], *, bounded: bool = True
) -> Iterator[pa.RecordBatch]:
    """Read a query by connectorx.

    Args:
        connection: the connection.
        query: the query.
        settings: statements before it.
        bounded: whether the rows fit into memory. A stream of batches stops all threads of this process while it waits
            for the server, and with them a relay.

    Raises:
        UnreadableValueError: a value that its types can't hold, such as a zero date.
        ReaderError: any other failure.
    """
    import connectorx

    login = Login.of(connection)
    try:
        with tls_relay(login) if _needs_relay(login) else nullcontext(login.options.get("socket")) as path:
            batches = connectorx.read_sql(
                _uri(login, path),
                query,
                protocol="binary",
                return_type="arrow" if bounded else "arrow_stream",
                batch_size=_BATCH_ROWS,
                pre_execution_query=[f"SET {SESSION_SETTINGS}", *settings],
            )
            yield from batches.to_batches(_BATCH_ROWS) if isinstance(batches, pa.Table) else batches
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


def _needs_relay(login: Login) -> bool:
    return login.mode not in ("disabled", "preferred")


def _uri(login: Login, path: str | None) -> str:
    """Return the URI for connectorx, with the path of a socket if there is one."""
    options = {"prefer_socket": "false"} if path is None else {"socket": path}
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
    who = f"{quote(login.user, safe='')}:{quote(login.password, safe='')}"
    host = f"[{login.host}]" if ":" in login.host else login.host
    # Other hosts would be preferred to the socket.
    host = host if path is None else "localhost"
    return f"mysql://{who}@{host}:{login.port}/{quote(login.database, safe='')}?{query}"
