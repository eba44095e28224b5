"""Tables, columns and keys from the catalog of a SQL Server database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import SourceError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.sqlserver.connecting import CAPTURE, changes_way
from framework.sources.databases.sqlserver.names import marks, quoted
from framework.sources.databases.sqlserver.session import Session
from framework.sources.databases.sqlserver.tables.instances import CaptureInstance, newest_of, read_instances
from framework.sources.databases.sqlserver.values.types import type_text, version_of
from framework.sources.databases.tables import ColumnIdentity, KeyKind, SourceColumn, SourceTable, TableName

# Tables of the server itself, such as those of change data capture, have is_ms_shipped.
_TABLES = (
    "SELECT s.name, t.name, t.object_id FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
    "WHERE t.is_ms_shipped = 0 AND s.name IN ({0})"
)
_COLUMNS = (
    "SELECT c.object_id, c.column_id, c.name, COALESCE(b.name, ty.name), c.max_length, c.precision, c.scale, "
    "c.collation_name, c.is_nullable, c.is_computed "
    "FROM sys.columns AS c JOIN sys.tables AS t ON t.object_id = c.object_id "
    "JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
    "JOIN sys.types AS ty ON ty.user_type_id = c.user_type_id "
    "LEFT JOIN sys.types AS b ON b.user_type_id = ty.system_type_id "
    "WHERE s.name IN ({0}) ORDER BY c.object_id, c.column_id"
)
_KEYS = (
    "SELECT i.object_id, i.index_id, i.is_primary_key, ic.column_id "
    "FROM sys.indexes AS i JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id "
    "JOIN sys.tables AS t ON t.object_id = i.object_id JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
    "WHERE i.is_unique = 1 AND i.has_filter = 0 AND i.is_disabled = 0 AND i.is_hypothetical = 0 "
    "AND ic.key_ordinal > 0 AND s.name IN ({0}) ORDER BY i.object_id, i.index_id, ic.key_ordinal"
)
_CLUSTERED = (
    "SELECT i.object_id, i.is_unique, c.name "
    "FROM sys.indexes AS i JOIN sys.index_columns AS ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id "
    "JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = ic.column_id "
    "WHERE i.index_id = 1 AND ic.key_ordinal > 0 ORDER BY i.object_id, ic.key_ordinal"
)
_SIZES = (
    "SELECT s.name, t.name, SUM(CASE WHEN a.type = 1 THEN p.rows ELSE 0 END), SUM(a.used_pages) * 8192 "
    "FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id "
    "JOIN sys.partitions AS p ON p.object_id = t.object_id AND p.index_id IN (0, 1) "
    "JOIN sys.allocation_units AS a ON a.container_id = p.partition_id "
    "WHERE s.name IN ({0}) GROUP BY s.name, t.name"
)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column with the facts of its row in the catalog."""

    source: SourceColumn
    collation: str | None
    is_computed: bool


def list_tables(session: Session, schemas: Sequence[str]) -> tuple[TableName, ...]:
    """Return the tables of schemas.

    Raises:
        SourceError: DATABASE_SCHEMA_MISSING, or the database can't be read.
    """
    known = [name for (name,) in session.rows("SELECT name FROM sys.schemas")]
    for schema in schemas:
        if schema not in known:
            raise SourceError("DATABASE_SCHEMA_MISSING", schema=schema, hint=nearest_hint(schema, known))
    rows = session.rows(_TABLES.format(marks(len(schemas))), list(schemas)) if schemas else []
    return tuple(sorted(TableName(schema=schema, table=table) for schema, table, _ in rows))


def read_table(session: Session, name: TableName) -> SourceTable:
    """Return a table with its columns and its key.

    Raises:
        SourceError: DATABASE_TABLE_MISSING, or the database can't be read.
    """
    found = read_tables(session, [name])[name]
    if isinstance(found, SourceError):
        raise found
    return found


def read_tables(session: Session, names: Sequence[TableName]) -> dict[TableName, SourceTable | SourceError]:
    """Return tables, or the error of each table that can't be read.

    With change data capture, a table has the columns that its newest capture instance has: the log lacks all others.

    Raises:
        SourceError: the database can't be read.
    """
    if not names:
        return {}
    schemas = sorted({name.schema for name in names})
    ids = {TableName(schema=schema, table=table): number for schema, table, number in _rows(session, _TABLES, schemas)}
    columns, keys = _columns(session, schemas), _keys(session, schemas)
    sizes = read_sizes(session, names)
    newest = newest_of(read_instances(session)) if changes_way(session.connection) == CAPTURE else {}
    found: dict[TableName, SourceTable | SourceError] = {}
    for name in names:
        number = ids.get(name)
        if number is None:
            found[name] = _missing(session, name, list(ids))
            continue
        facts = _Facts(name, number, columns.get(number, []), keys.get(number, {}), sizes.get(name, (0, 0)))
        found[name] = facts.table(newest.get(number))
    return found


def read_sizes(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
    """Return the estimated rows, and the bytes, of the tables that exist.

    Raises:
        SourceError: the database can't be read.
    """
    wanted = {*names}
    rows = _rows(session, _SIZES, sorted({name.schema for name in names})) if names else []
    sizes = {TableName(schema=schema, table=table): (int(count), int(size)) for schema, table, count, size in rows}
    return {name: size for name, size in sizes.items() if name in wanted}


def read_collations(session: Session, name: TableName) -> dict[str, str | None]:
    """Return the collation of each column of a table.

    Raises:
        SourceError: the database can't be read.
    """
    ids = {table: number for _, table, number in _rows(session, _TABLES, [name.schema])}
    return {each.source.name: each.collation for each in _columns(session, [name.schema]).get(ids.get(name.table), [])}


def read_clustered(session: Session) -> dict[int, tuple[str, ...]]:
    """Return the columns of each table's clustered index, by object id; () for one that is not unique, none for a heap.

    Raises:
        SourceError: the database can't be read.
    """
    found: dict[int, tuple[str, ...]] = {}
    for number, is_unique, name in session.rows(_CLUSTERED):
        found[number] = (*found.get(number, ()), name) if is_unique else ()
    return found


def is_in_order(key: Sequence[str], clustered: Sequence[str]) -> bool:
    """Whether the log has the changes of an update in the order of a key: rows are stored by it, or a part of it."""
    return bool(clustered) and {*clustered} <= {*key}


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the catalog says about a table."""

    name: TableName
    number: int
    columns: Sequence[_Column]
    keys: Mapping[int, tuple[bool, tuple[int, ...]]]
    size: tuple[int, int]

    def table(self, captured: CaptureInstance | None) -> SourceTable:
        """Return the table, with the columns of its capture instance."""
        logged = None if captured is None else {name for name, _ in captured.columns}
        plain = [each for each in self.columns if not each.is_computed]
        columns = tuple(each.source for each in plain if logged is None or each.source.name in logged)
        kind, index, key = self._key({each.identity.number: each for each in columns})
        most = max((each.source.identity.number for each in self.columns), default=0)
        numbers = {each.source.identity.number for each in self.columns}
        own = [(each.source.name, each.source.type_name) for each in plain]
        return SourceTable(
            name=self.name,
            columns=columns,
            key=key,
            key_kind=kind,
            storage_id="",
            estimated_rows=self.size[0],
            estimated_bytes=self.size[1],
            generated=tuple(each.source.name for each in self.columns if each.is_computed),
            identity=str(self.number),
            most_columns=most,
            gone=tuple(number for number in range(1, most) if number not in numbers),
            key_ids=() if index is None else (str(index),),
            log_version=version_of(own if captured is None else captured.columns),
        )

    def _key(self, columns: Mapping[int, SourceColumn]) -> tuple[KeyKind, int | None, tuple[str, ...]]:
        """Return the primary key, else a unique index without NULL, else one with NULL."""
        ranked = []
        for index, (is_primary, numbers) in self.keys.items():
            if not {*numbers} <= {*columns}:
                continue
            found = [columns[number] for number in numbers]
            kind = KeyKind.NULLABLE_UNIQUE if any(each.nullable for each in found) else KeyKind.UNIQUE
            rank = (not is_primary, kind is KeyKind.NULLABLE_UNIQUE, index)
            ranked.append((rank, KeyKind.PRIMARY if is_primary else kind, index, tuple(each.name for each in found)))
        if not ranked:
            return KeyKind.NONE, None, ()
        _, kind, index, names = min(ranked)
        return kind, index, names


def _rows(session: Session, query: str, schemas: Sequence[str]) -> list[tuple[Any, ...]]:
    return session.rows(query.format(marks(len(schemas))), list(schemas))


def _columns(session: Session, schemas: Sequence[str]) -> dict[int | None, list[_Column]]:
    found: dict[int | None, list[_Column]] = {}
    for number, place, name, kind, length, precision, scale, collation, nullable, computed in _rows(
        session, _COLUMNS, schemas
    ):
        type_name = type_text(kind, length, precision, scale)
        # A column that was added may have values that no change has: the capture instance is made later.
        identity = ColumnIdentity(number=place, stamp=f"{type_name} {collation or ''}".strip(), is_filled=True)
        column = SourceColumn(name=name, type_name=type_name, nullable=bool(nullable), identity=identity)
        found.setdefault(number, []).append(_Column(column, collation, bool(computed)))
    return found


def _keys(session: Session, schemas: Sequence[str]) -> dict[int, dict[int, tuple[bool, tuple[int, ...]]]]:
    found: dict[int, dict[int, tuple[bool, tuple[int, ...]]]] = {}
    for number, index, is_primary, column in _rows(session, _KEYS, schemas):
        before = found.setdefault(number, {}).get(index, (False, ()))[1]
        found[number][index] = (bool(is_primary), (*before, column))
    return found


def _missing(session: Session, name: TableName, known: Iterable[TableName]) -> SourceError:
    return SourceError(
        "DATABASE_TABLE_MISSING",
        table=name,
        address=session.connection.address,
        cause=f"Invalid object name {quoted(name)}.{nearest_hint(str(name), [str(each) for each in known])}",
    )
