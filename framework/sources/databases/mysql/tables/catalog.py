"""The catalog of MySQL and MariaDB as values: tables with their columns and keys.

The catalog has neither numbers of tables nor of columns. A table is identified by its name alone: the number of its
file changes with a TRUNCATE and a rebuild, too. The log says when another table takes the name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar
from zlib import crc32

from framework.foundation.errors import SourceError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.mysql.faults import table_sql
from framework.sources.databases.mysql.session import Session
from framework.sources.databases.mysql.values.type_names import is_enumeration, labels_of, log_type, normal_type
from framework.sources.databases.tables import ColumnIdentity, KeyKind, SourceColumn, SourceTable, TableName

_TABLES = """
    SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0),
           CAST(CREATE_TIME AS CHAR), COALESCE(CREATE_OPTIONS, '')
    FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ({schemas}) AND TABLE_NAME IN ({names})
"""
_COLUMNS = """
    SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'YES', COALESCE(EXTRA, ''),
           COALESCE(GENERATION_EXPRESSION, ''), COLUMN_DEFAULT, CHARACTER_SET_NAME, COLLATION_NAME
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN ({schemas}) AND TABLE_NAME IN ({names})
    ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""
_INDEXES = """
    SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, COLUMN_NAME, SUB_PART, INDEX_TYPE, NULLABLE = 'YES'
    FROM information_schema.STATISTICS
    WHERE NON_UNIQUE = 0 AND TABLE_SCHEMA IN ({schemas}) AND TABLE_NAME IN ({names})
    ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""
# Partitions are tables of InnoDB of their own; their names are in the character set of file names.
_STORED = "SELECT NAME, TABLE_ID FROM information_schema.{view}"
_LISTED = """
    SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES
    WHERE TABLE_SCHEMA IN ({schemas}) AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
"""
_SCHEMAS = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"
_OWN_SCHEMAS = ("information_schema", "mysql", "performance_schema", "sys")
_TABLE_TYPES = ("BASE TABLE", "SYSTEM VERSIONED")
_KINDS = {"VIEW": "a view", "SYSTEM VIEW": "a view", "SEQUENCE": "a sequence"}
_PRIMARY = "PRIMARY"
_INNODB = "InnoDB"
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIndex:
    """A unique index.

    Args:
        name: its name.
        columns: its columns.
        nullable: whether a column may be NULL.
        is_ordered: whether its order is that of the columns; not of an index on prefixes of texts, or by hashes.
    """

    name: str
    columns: tuple[str, ...]
    nullable: bool
    is_ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A table with what only this dialect needs of it.

    Args:
        source: the table.
        index: the index of its key; None if there is none.
        collations: the character set and the collation of each column with texts.
        engine: its storage engine.
    """

    source: SourceTable
    index: KeyIndex | None
    collations: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    engine: str = _INNODB


def read_table(session: Session, name: TableName) -> SourceTable:
    """Return a table with its columns and its key.

    Generated columns are left out: their values can be computed from the others.

    Raises:
        SourceError: DATABASE_TABLE_MISSING, or DATABASE_NOT_A_TABLE for a view and the like.
    """
    return describe_table(session, name).source


def describe_table(session: Session, name: TableName) -> CatalogTable:
    """Return a table with the properties of its key.

    Raises:
        SourceError: as `read_table`.
    """
    found = describe_tables(session, [name])[name]
    if isinstance(found, SourceError):
        raise found
    return found


def read_tables(session: Session, names: Sequence[TableName]) -> dict[TableName, SourceTable | SourceError]:
    """Return tables, or the errors of `read_table`.

    Raises:
        SourceError: the catalog can't be read.
    """
    found = describe_tables(session, names)
    return {name: each if isinstance(each, SourceError) else each.source for name, each in found.items()}


def describe_tables(session: Session, names: Sequence[TableName]) -> dict[TableName, CatalogTable | SourceError]:
    """Return tables, or the errors of `read_table`, in four queries for any number of tables.

    Raises:
        SourceError: the catalog can't be read.
    """
    if not names:
        return {}
    _refresh_statistics(session)
    tables = {name: rows[0] for name, rows in _by_table(session, _TABLES, names).items()}
    columns, indexes = (_by_table(session, query, names) for query in (_COLUMNS, _INDEXES))
    stored = _stored_tables(session, names)
    found: dict[TableName, CatalogTable | SourceError] = {}
    for name in names:
        row = tables.get(name)
        if row is None:
            found[name] = _missing(session, name)
        elif row[0] not in _TABLE_TYPES:
            found[name] = SourceError("DATABASE_NOT_A_TABLE", table=name, kind=_KINDS.get(row[0], "not a table"))
        else:
            found[name] = _table(name, row, columns.get(name, []), indexes.get(name, []), stored.get(name, ()))
    return found


def list_tables(session: Session, schemas: Sequence[str]) -> tuple[TableName, ...]:
    """Return the tables of schemas.

    Raises:
        SourceError: DATABASE_SCHEMA_MISSING, or the catalog can't be read.
    """
    if not schemas:
        return ()
    known = [row[0] for row in session.rows(_SCHEMAS)]
    for schema in schemas:
        if schema not in known:
            own = [each for each in known if each not in _OWN_SCHEMAS]
            raise SourceError("DATABASE_SCHEMA_MISSING", schema=schema, hint=nearest_hint(schema, own))
    rows = session.rows(_LISTED.format(schemas=_places(schemas)), list(schemas))
    return tuple(sorted(TableName(schema=schema, table=table) for schema, table in rows if schema in schemas))


def read_sizes(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
    """Return the estimated rows, and the bytes without indexes, of the tables that exist.

    Raises:
        SourceError: the catalog can't be read.
    """
    if not names:
        return {}
    _refresh_statistics(session)
    found = _by_table(session, _TABLES, names)
    return {name: (int(rows[0][2]), int(rows[0][3])) for name, rows in found.items()}


def _table(
    name: TableName,
    row: tuple[Any, ...],
    columns: Sequence[tuple[Any, ...]],
    indexes: Sequence[tuple[Any, ...]],
    stored: Sequence[int],
) -> CatalogTable:
    _, engine, rows, size, created, options = row
    kept = [column for column in columns if not _is_generated(column)]
    generated = tuple(column[0] for column in columns if _is_generated(column))
    index = _key(indexes, {column[0] for column in kept})
    key_kind = KeyKind.NONE
    if index is not None:
        unique = KeyKind.NULLABLE_UNIQUE if index.nullable else KeyKind.UNIQUE
        key_kind = KeyKind.PRIMARY if index.name == _PRIMARY else unique
    storage = ",".join(map(str, sorted(stored))) or f"created {created}"
    # Lazy: the reader of a log is not needed for a snapshot.
    from framework.sources.databases.mysql.log.table_map import columns_version

    source = SourceTable(
        name=name,
        columns=tuple(map(_column, kept)),
        key=() if index is None else index.columns,
        key_kind=key_kind,
        storage_id=storage,
        estimated_rows=int(rows),
        estimated_bytes=int(size),
        full_before_image=True,
        has_full_part=True,
        is_partitioned="partitioned" in options,
        generated=generated,
        identity=str(crc32(str(name).encode()) + 1),
        log_version=columns_version([(column[0], log_type(normal_type(column[1]))) for column in columns]),
        key_ids=() if index is None else (f"index:{index.name}({','.join(index.columns)})",),
    )
    collations = {column[0]: (str(column[6]), str(column[7])) for column in kept if column[6] is not None}
    return CatalogTable(source=source, index=index, collations=collations, engine=str(engine))


def _column(row: tuple[Any, ...]) -> SourceColumn:
    name, column_type, nullable, extra, _, default, charset, collation = row
    type_name = normal_type(column_type)
    labels = labels_of(column_type)
    # The label of a number is what decides the text; an ENUM that gets another label at its end prints the same.
    plain = type_name.partition("(")[0] if is_enumeration(type_name) else type_name
    text = "\0".join((column_type, str(charset), str(collation), str(bool(nullable)), extra))
    return SourceColumn(
        name=name,
        type_name=type_name,
        nullable=bool(nullable),
        identity=ColumnIdentity(
            number=crc32(name.encode()) + 1,
            stamp=blake2b(text.encode(), digest_size=8).hexdigest(),
            type_id=crc32(plain.encode()) + 1,
            # Rows that are older than the column have the default, or the zero of the type.
            is_filled=not bool(nullable) or (default is not None and str(default).upper() != "NULL"),
            labels=tuple(f"{number}:{label}" for number, label in enumerate(labels, 1)),
        ),
    )


def _is_generated(column: tuple[Any, ...]) -> bool:
    return bool(column[4]) or " GENERATED" in column[3].upper()


def _key(indexes: Sequence[tuple[Any, ...]], columns: set[str]) -> KeyIndex | None:
    """Return the unique index that identifies rows: the primary key, else the narrowest one without NULL, else any."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, *part in indexes:
        found.setdefault(name, []).append(tuple(part))
    keys = [
        KeyIndex(
            name=name,
            columns=tuple(part[0] for part in parts),
            nullable=any(part[3] for part in parts),
            is_ordered=all(part[1] is None and part[2] == "BTREE" for part in parts),
        )
        for name, parts in found.items()
        if all(part[0] in columns for part in parts)
    ]
    keys.sort(key=lambda key: (key.name != _PRIMARY, key.nullable, not key.is_ordered, len(key.columns), key.name))
    return keys[0] if keys else None


def _by_table(session: Session, query: str, names: Sequence[TableName]) -> dict[TableName, list[tuple[Any, ...]]]:
    """Return the rows of a query by table; the catalog may compare names without letter case."""
    schemas, tables = sorted({name.schema for name in names}), sorted({name.table for name in names})
    text = query.format(schemas=_places(schemas), names=_places(tables))
    wanted, found = set(names), dict[TableName, list[tuple[Any, ...]]]()
    for schema, table, *row in session.rows(text, [*schemas, *tables], table=names[0] if len(names) == 1 else None):
        name = TableName(schema=schema, table=table)
        if name in wanted:
            found.setdefault(name, []).append(tuple(row))
    return found


def _stored_tables(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[int, ...]]:
    """Return the numbers of the tables of InnoDB; none without the right PROCESS, or for another engine."""
    view = "INNODB_SYS_TABLES" if session.server.is_mariadb else "INNODB_TABLES"
    by_name: dict[str, dict[str, list[int]]] = {}
    with suppress(SourceError):
        for stored, number in session.rows(_STORED.format(view=view)):
            schema, _, table = stored.partition("/")
            table = table.replace("#p#", "#P#").partition("#P#")[0]
            by_name.setdefault(schema, {}).setdefault(table, []).append(int(number))
    found: dict[TableName, tuple[int, ...]] = {}
    for name in names:
        schemas, table = _matches(name.schema, by_name), name.table
        tables = [numbers for schema in schemas for numbers in _matches(table, schema)]
        if len(tables) == 1:
            found[name] = tuple(tables[0])
    return found


def _matches(name: str, by_file: Mapping[str, _T]) -> list[_T]:
    """Return what is stored under a name; more than one if its letters are not distinguished."""
    if _PLAIN.fullmatch(name):
        return [by_file[name]] if name in by_file else []
    pattern = re.compile(file_pattern(name))
    return [each for stored, each in by_file.items() if pattern.fullmatch(stored)]


def file_pattern(name: str) -> str:
    """Return the pattern of a name in the character set of file names, in which InnoDB stores it.

    A letter that is not of ASCII has one of two codes, which only the server knows.

    Examples:
        >>> file_pattern("order lines"), file_pattern("a_1")
        ('order@0020lines', 'a_1')
    """
    return "".join(
        "@(?:[0-9a-f]{4}|[0-9A-Za-z]{2})"
        if not letter.isascii()
        else letter
        if letter.isalnum() or letter == "_"
        else f"@{ord(letter):04x}"
        for letter in name
    )


def _refresh_statistics(session: Session) -> None:
    """Let MySQL read its statistics now: it keeps them for a day."""
    if not session.server.is_mariadb:
        session.execute("SET SESSION information_schema_stats_expiry = 0")


def _hidden(session: Session, query: str, table: TableName | None = None) -> SourceError | None:
    """Return that a right is missing, if it is: the catalog shows nothing that the user may not read."""
    try:
        session.rows(query, table=table)
    except SourceError as error:
        return error if error.condition == "DATABASE_PERMISSION" else None
    return None


def _missing(session: Session, name: TableName) -> SourceError:
    known = [row[1] for row in session.rows(_LISTED.format(schemas="%s"), [name.schema]) if row[0] == name.schema]
    hint = nearest_hint(name.table, known)
    hidden = None if hint else _hidden(session, f"SELECT 1 FROM {table_sql(name)} LIMIT 0", name)
    return hidden or SourceError(
        "DATABASE_TABLE_MISSING",
        table=name,
        address=session.connection.address,
        cause=f"there is no such table.{hint}",
    )


def _places(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))
