"""The dialect of a connection: the only way from the engine to the code of one kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from framework.sources.databases.connections import Connection
from framework.sources.databases.schemes import find_dialect

if TYPE_CHECKING:
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.source_session import SourceSession


def dialect_of(connection: Connection) -> Dialect:
    """Return the dialect that reads a connection; its module is imported.

    Raises:
        UserError: DRIVER_NOT_INSTALLED.
    """
    found = find_dialect(connection.scheme)
    assert found is not None, "a connection has a known scheme by construction"
    return cast("Dialect", found.load())


def open_source(
    connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None
) -> SourceSession:  # fmt: skip
    """Open a session at the database of a connection.

    Args:
        connection: the connection.
        read_only: whether its transactions are read-only.
        lock_seconds: how long a statement waits for a lock; None for as long as it takes.

    Raises:
        UserError: DRIVER_NOT_INSTALLED.
        SourceError: the database can't be reached, or refuses the login.
    """
    return dialect_of(connection).open(connection, read_only=read_only, lock_seconds=lock_seconds)
