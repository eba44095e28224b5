"""A side of a comparison as a user writes it: a dataset, a table, a folder, or a table of a source database."""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.sources.databases.schemes import find_dialect

_DATABASE = re.compile(r"(?P<kind>[a-z]+):(?P<connection>[^/]+)/(?P<table>.+)")
_ANY_DATABASE = "database"
_VERSION = re.compile(r"(?P<table>.+)@v(?P<version>\d+)")
_FOLDER = re.compile(r"delta\.`(?P<path>(?:[^`]|``)+)`", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReference:
    """A dataset of the pipeline or a table of Spark's catalog.

    Args:
        name: one to three parts.
        version: a version of the Delta table; None for the newest.
    """

    name: str
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReference:
    """A Delta table by its folder.

    Args:
        path: a path or URI.
        version: a version of the table; None for the newest.
    """

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseReference:
    """A table of a source database.

    Args:
        connection: name of the connection.
        table: `schema.table`; double quotes around names with other characters.
    """

    connection: str
    table: str


Reference = TableReference | FolderReference | DatabaseReference


def parse_reference(text: str) -> Reference:
    """Parse a side of a comparison; a suffix such as `@v12` selects a version of a Delta table.

    A table of a database starts with `database:`, or with the scheme of a connection, such as `postgres:`.

    Examples:
        >>> parse_reference("main.bank.accounts@v12")
        TableReference(name='main.bank.accounts', version=12)
        >>> parse_reference("delta.`/data/accounts`")
        FolderReference(path='/data/accounts', version=None)
        >>> parse_reference("delta.`/data/a``b`").path
        '/data/a`b'
        >>> parse_reference("database:bank/public.accounts")
        DatabaseReference(connection='bank', table='public.accounts')
        >>> parse_reference("postgres:bank/public.accounts") == parse_reference("database:bank/public.accounts")
        True
    """
    text = text.strip()
    database = _DATABASE.fullmatch(text)
    if database is not None and (database["kind"] == _ANY_DATABASE or find_dialect(database["kind"]) is not None):
        return DatabaseReference(connection=database["connection"], table=database["table"])
    at = _VERSION.fullmatch(text)
    name, version = (at["table"], int(at["version"])) if at is not None else (text, None)
    folder = _FOLDER.fullmatch(name)
    if folder is not None:
        return FolderReference(path=folder["path"].replace("``", "`"), version=version)
    if "/" in name and "`" not in name:
        return FolderReference(path=name, version=version)
    return TableReference(name=name, version=version)
