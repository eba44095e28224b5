"""Looks up the dialect of a connection: the only path from the engine to the code for one kind of database."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from framework.foundation.conditions.databases import RETRYABLE
from framework.foundation.errors import UserError
from framework.sources.databases.connections import Connection
from framework.sources.databases.facts import DialectFacts
from framework.sources.databases.schemes import find_dialect, known_dialects

if TYPE_CHECKING:
    from framework.sources.databases.dialect import Dialect
    from framework.sources.databases.facts import GapEnd
    from framework.sources.databases.source_session import SourceSession


def dialect_of(connection: Connection) -> Dialect:
    """Import and return the dialect that reads a connection.

    Raises:
        UserError: DRIVER_NOT_INSTALLED.
    """
    found = find_dialect(connection.scheme)
    assert found is not None, "a connection has a known scheme by construction"
    dialect = cast("Dialect", found.load())
    require_drivers(dialect.name, dialect.facts)
    return dialect


def require_drivers(name: str, facts: DialectFacts) -> None:
    """Refuse a dialect whose drivers are not installed.

    Args:
        name: the name of the database.
        facts: the facts of its dialect.

    Raises:
        UserError: DRIVER_NOT_INSTALLED.
    """
    for module in facts.drivers:
        if find_spec(module) is None:
            raise UserError(
                "DRIVER_NOT_INSTALLED", source=f"a database of {name}", module=module, install=facts.install
            )


def facts_of(scheme: str) -> DialectFacts:
    """Return the facts of the dialect for a scheme of connections; empty facts for an unknown scheme."""
    found = find_dialect(scheme) if scheme else None
    return DialectFacts() if found is None else cast("Dialect", found.load()).facts


@cache
def every_facts() -> tuple[DialectFacts, ...]:
    """Return the facts of all dialects; their drivers may be missing."""
    return tuple(cast("Dialect", each.load()).facts for each in known_dialects())


def gap_end(condition: str | None) -> GapEnd | None:
    """Return how to end a gap that a new position should not end; None for any other gap."""
    found = (each.gap_ends.get(condition or "") for each in every_facts())
    return next((each for each in found if each is not None), None)


def is_retryable(condition: str) -> bool:
    """Whether a retry may succeed after an error of a database, without any other change."""
    return condition in RETRYABLE or any(condition in each.retryable for each in every_facts())


def is_log_in_use(condition: str | None) -> bool:
    """Whether a condition means that another reader reads the log."""
    return condition is not None and any(condition == each.log_in_use for each in every_facts())


def open_source(connection: Connection, *, read_only: bool = True, lock_seconds: float | None = None) -> SourceSession:
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
