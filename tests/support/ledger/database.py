"""A ledger: a SQLite file with the table of changes, which triggers fill for the tables that somebody follows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.tables import TableName

SCHEMA = "main"
LOG_VERSION = 1
_LEDGER = """
CREATE TABLE IF NOT EXISTS ledger_identity (id TEXT);
CREATE TABLE IF NOT EXISTS ledger_holds (reason TEXT);
CREATE TABLE IF NOT EXISTS ledger_members (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS ledger_changes (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER, name TEXT, operation TEXT, payload TEXT
);
"""
_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
_VALUES = {
    # SQLite writes 15 digits of a number in JSON: too few for the value that a chunk has.
    "REAL": "json(CASE WHEN {0} IS NULL THEN 'null' ELSE printf('%!.17g', {0}) END)",
    "BOOLEAN": "json(CASE {0} WHEN 1 THEN 'true' WHEN 0 THEN 'false' ELSE 'null' END)",
}


@dataclass(frozen=True, slots=True)
class Ledger:
    """An open ledger; each call is a transaction of its own."""

    raw: sqlite3.Connection

    @classmethod
    def of(cls, connection: Connection) -> Ledger:
        """Open the file of a connection, `ledger://local/<path>`; the slashes of the path are percent-encoded."""
        path = unquote(connection.uri.rpartition("/")[2])
        raw = sqlite3.connect(f"file:{path}?mode=rw", uri=True, isolation_level=None, timeout=30)
        try:
            raw.executescript(_LEDGER)
            if not raw.execute("SELECT id FROM ledger_identity").fetchone():
                raw.execute("INSERT INTO ledger_identity VALUES (?)", [uuid4().hex])
                # A position is positive, also before the first change.
                raw.execute("INSERT INTO sqlite_sequence VALUES ('ledger_changes', 1)")
        except sqlite3.Error as error:
            raise SourceError("DATABASE_UNREACHABLE", connection=connection, message=str(error)) from error
        return cls(raw)

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self.raw.execute(query, arguments).fetchall()

    def one(self, query: str, arguments: Sequence[Any] = ()) -> Any:
        """Return the only value of a query; None without a row."""
        return next((row[0] for row in self.rows(query, arguments)), None)

    @property
    def identity(self) -> str:
        """What tells this ledger from another one at its path."""
        return str(self.one("SELECT id FROM ledger_identity"))

    @property
    def end(self) -> int:
        """The number of the last change, also if it was removed."""
        return int(self.one("SELECT seq FROM sqlite_sequence WHERE name = 'ledger_changes'") or 0)

    @property
    def begin(self) -> int:
        """The number after which no change was removed."""
        first = self.one("SELECT min(number) FROM ledger_changes")
        return self.end if first is None else int(first) - 1

    def members(self) -> dict[TableName, int]:
        """Return the tables that have triggers, each with a number that is never used again."""
        found = self.rows("SELECT name, number FROM ledger_members")
        return {TableName(schema=SCHEMA, table=name): number for name, number in found}

    def follow(self, table: str) -> None:
        """Let triggers write the changes of a table, in the transaction of the change."""
        columns = self.rows("SELECT name, type, pk FROM pragma_table_info(?)", [table])
        new, old = _object("new", columns), _object("old", [each for each in columns if each[2]])
        keys = [each[0] for each in columns if each[2]]
        moved = " OR ".join(f'old."{name}" IS NOT new."{name}"' for name in keys)
        self.raw.execute("BEGIN IMMEDIATE")
        if table in {name.table for name in self.members()}:
            self.raw.execute("COMMIT")
            return
        self.raw.execute("INSERT INTO ledger_members (name) VALUES (?)", [table])
        for suffix, event, when, writes in (
            ("i", "INSERT", "1", [("INSERT", new)]),
            ("d", "DELETE", "1", [("DELETE", old)]),
            ("u", "UPDATE", f"NOT ({moved})", [("UPDATE", new)]),
            ("m", "UPDATE", moved, [("DELETE", old), ("INSERT", new)]),
        ):
            body = "".join(
                f"INSERT INTO ledger_changes (at, name, operation, payload) VALUES "
                f"({_NOW}, '{table}', '{operation}', {payload});"
                for operation, payload in writes
            )
            self.raw.execute(
                f'CREATE TRIGGER "ledger_{table}_{suffix}" AFTER {event} ON "{table}" WHEN {when} BEGIN {body} END'
            )
        self.raw.execute("COMMIT")

    def unfollow(self) -> None:
        """Drop all triggers."""
        for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'ledger_%'"):
            self.raw.execute(f'DROP TRIGGER "{name}"')
        self.raw.execute("DELETE FROM ledger_members")

    def close(self) -> None:
        """Close the file."""
        self.raw.close()


def _object(row: str, columns: Sequence[tuple[Any, ...]]) -> str:
    pairs = (f"'{name}', " + _VALUES.get(kind, "{0}").replace("{0}", f'{row}."{name}"') for name, kind, _ in columns)
    return f"json_object({', '.join(pairs)})"
