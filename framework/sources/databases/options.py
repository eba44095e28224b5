"""Options of the database sources, as `spark.readStream.format(…).option(…)` sets them: names, defaults, checks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.connections import Connection, find_connection, remember_connections
from framework.sources.databases.tables import TableName

_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^".,\s]+))\s*')
_SIZE = re.compile(r"(\d+)\s*([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_DEFAULT_SCHEMA = "public"


def remember_passwords(folder: str | None) -> None:
    """Hide the passwords of a pipeline's connections and secrets of the environment in all texts of this process.

    Args:
        folder: the folder of the spec; None for a pipeline without one.
    """
    remember_connections(None if folder is None else Path(folder), os.environ)


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one source, with case-insensitive names.

    Args:
        source: the name of the source, for messages.
        values: the options as Spark has them.
    """

    source: str
    values: Mapping[str, str]

    @classmethod
    def of(cls, source: str, given: Mapping[str, str], known: tuple[str, ...]) -> Self:
        """Check the names of the options.

        Raises:
            UserError: DATABASE_OPTION_UNKNOWN, with the nearest name.
        """
        by_name = {name.lower(): name for name in known}
        for name in given:
            if name.lower() not in by_name:
                hint = nearest_hint(name, known)
                raise UserError("DATABASE_OPTION_UNKNOWN", source=source, option=name, hint=hint)
        return cls(source, {by_name[name.lower()]: value for name, value in given.items()})

    def text(self, name: str, default: str | None = None) -> str:
        """Return an option.

        Raises:
            UserError: DATABASE_OPTION_MISSING if it is required.
        """
        value = self.values.get(name, "").strip() or default
        if value is None:
            raise UserError("DATABASE_OPTION_MISSING", source=self.source, option=name)
        return value

    def optional(self, name: str) -> str | None:
        """Return an option, or None."""
        return self.values.get(name, "").strip() or None

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """Return a whole number.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        text = self.values.get(name, str(default)).strip()
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise self.invalid(name, f"a whole number of at least {least}")
        return int(text)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """Return one of some words; the first is the default.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        word = self.text(name, known[0]).lower()
        if word not in known:
            raise self.invalid(name, " or ".join(known))
        return word

    def size(self, name: str, default: int) -> int:
        """Return a number of bytes, written for example as `64m`.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        match = _SIZE.fullmatch(self.values.get(name, str(default)).strip())
        found = int(match[1]) * _UNITS[match[2].lower()] if match else 0
        if found <= 0:
            raise self.invalid(name, "a size, such as 64m")
        return found

    def names(self, name: str) -> tuple[str, ...]:
        """Return a list of column names, separated by commas; a name with other characters is in double quotes.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        parts = self._parts(name)
        if any(len(part) != 1 for part in parts):
            raise self.invalid(name, 'names of columns with commas between them, such as id, "full name"')
        return tuple(part[0] for part in parts)

    def tables(self, name: str) -> tuple[TableName, ...]:
        """Return a list of tables, each as `schema.table` or as `table` of the schema `public`.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        parts = self._parts(name)
        if not parts or any(len(part) > 2 for part in parts):
            raise self.invalid(name, 'tables as schema.table, such as public.orders or public."Order Lines"')
        return tuple(TableName(schema=part[0] if len(part) == 2 else _DEFAULT_SCHEMA, table=part[-1]) for part in parts)

    def columns_of_tables(self, name: str) -> dict[TableName, tuple[str, ...]]:
        """Return a list of columns, each as `schema.table.column`, by table.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        parts = self._parts(name)
        if any(len(part) != 3 for part in parts):
            raise self.invalid(name, "columns as schema.table.column, such as public.orders.valid_until")
        found: dict[TableName, tuple[str, ...]] = {}
        for schema, table, column in parts:
            owner = TableName(schema=schema, table=table)
            found[owner] = (*found.get(owner, ()), column)
        return found

    def identities(self, name: str) -> tuple[tuple[str, TableName], ...]:
        """Return a list of tables, each given as `schema.table.identity`, with their identities in the database.

        Raises:
            UserError: DATABASE_OPTION_INVALID.
        """
        parts = self._parts(name)
        if any(len(part) != 3 for part in parts):
            raise self.invalid(name, "tables as schema.table.identity, such as public.orders.16385")
        return tuple((identity, TableName(schema=schema, table=table)) for schema, table, identity in parts)

    def table(self, name: str) -> TableName:
        """Return one table.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID.
        """
        self.text(name)
        found = self.tables(name)
        if len(found) != 1:
            raise self.invalid(name, "one table, such as public.orders")
        return found[0]

    def connection(self) -> Connection:
        """Return the connection that the option `connection` names.

        It is looked up in the environment, then in `connections.yml` of the folder that `connectionsFolder` names, or
        of the working folder.

        Raises:
            UserError: the errors of `find_connection`; DATABASE_OPTION_MISSING.
        """
        return find_connection(self.text("connection"), Path(self.text("connectionsFolder", ".")), os.environ)

    def invalid(self, name: str, expected: str) -> UserError:
        """Return the error of an invalid value."""
        value = self.values.get(name, "")
        return UserError("DATABASE_OPTION_INVALID", source=self.source, option=name, value=value, expected=expected)

    def _parts(self, name: str) -> list[list[str]]:
        """Split a list at its commas, and each entry at its dots, outside of double quotes."""
        text = self.values.get(name, "").strip()
        entries: list[list[str]] = [[]] if text else []
        at = 0
        while at < len(text):
            match = _NAME.match(text, at)
            if match is None:
                raise self.invalid(name, "names, with those that have other characters in double quotes")
            entries[-1].append(match[2] if match[1] is None else match[1].replace('""', '"'))
            at = match.end()
            if at < len(text):
                if text[at] not in ".,":
                    raise self.invalid(name, "names with commas or dots between them")
                if text[at] == ",":
                    entries.append([])
                at += 1
        if any(not entry for entry in entries):
            raise self.invalid(name, "names with commas between them")
        return entries
