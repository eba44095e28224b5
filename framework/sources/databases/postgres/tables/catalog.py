"""The catalog of a PostgreSQL database as values: tables with their columns and keys, and the identity of the server.

The key of a table identifies its rows both in the log and in queries; `_KEY` has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from framework.foundation.errors import SourceError
from framework.foundation.nearest import nearest_hint
from framework.sources.databases.postgres.log.pgoutput import columns_version
from framework.sources.databases.postgres.session import Session, open_replication
from framework.sources.databases.postgres.tables.type_names import FROM_RESOLVED, TYPE_NAME, resolved_types
from framework.sources.databases.tables import ColumnIdentity, KeyKind, SourceColumn, SourceTable, TableName

UNKNOWN_SYSTEM = "unknown"
_EARLIER_VERSIONS = 16
"""How many columns may be added to a table between two updates before the changes in between fail."""

_TABLE_KINDS = frozenset({"r", "p"})
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
    "I": "an index",
    "t": "a TOAST table",
}
# A table, or the partitions that contain its rows.
_LEAVES = """
    SELECT c.oid WHERE c.relkind <> 'p'
    UNION ALL
    SELECT part.relid FROM pg_partition_tree(c.oid) AS part WHERE c.relkind = 'p' AND part.isleaf
"""
_TABLE = f"""
    SELECT n.nspname, c.relname, c.oid, c.relkind,
           CASE c.relkind WHEN 'p' THEN 'partitions:' || leaves.digest ELSE leaves.storage END,
           leaves.rows, leaves.bytes, leaves.is_full, leaves.has_full, c.relnatts, leaves.is_unidentified,
           ARRAY(SELECT a.attnum FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attisdropped ORDER BY a.attnum)
    FROM unnest(%s::text[], %s::text[]) AS given(schema, name)
    JOIN pg_namespace AS n ON n.nspname = given.schema
    JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = given.name
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(greatest(leaf.reltuples, 0)), 0)::bigint AS rows,
               coalesce(sum(pg_table_size(leaf.oid)), 0)::bigint AS bytes,
               coalesce(bool_and(leaf.relreplident = 'f'), false) AS is_full,
               coalesce(bool_or(leaf.relreplident = 'f'), false) AS has_full,
               coalesce(bool_or(leaf.relreplident <> 'f' AND NOT EXISTS (
                   SELECT FROM pg_index AS i
                   WHERE i.indrelid = leaf.oid AND i.indisvalid
                     AND CASE leaf.relreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate
                                                WHEN 'i' THEN i.indisreplident ELSE false END
               )), false) AS is_unidentified,
               min(leaf.oid::text || ':' || coalesce(pg_relation_filenode(leaf.oid), 0)::text) AS storage,
               md5(coalesce(string_agg(leaf.oid::text || ':' || coalesce(pg_relation_filenode(leaf.oid), 0)::text,
                                       ',' ORDER BY leaf.oid), '')) AS digest
        FROM pg_class AS leaf WHERE leaf.oid IN ({_LEAVES})
    ) AS leaves
"""
# The enums and composite types that a type is made of: renaming a value of an enum, or adding a field, changes the text
# of all rows without an event in the log.
_CONTENTS = """
    WITH RECURSIVE reached AS (
        SELECT a.atttypid AS type
        UNION
        SELECT part.type
        FROM reached AS r
        JOIN pg_type AS t ON t.oid = r.type
        CROSS JOIN LATERAL (
            SELECT t.typbasetype WHERE t.typtype = 'd'
            UNION ALL SELECT t.typelem WHERE t.typelem <> 0
            UNION ALL SELECT rngsubtype FROM pg_range WHERE t.oid IN (rngtypid, rngmultitypid)
            UNION ALL
            SELECT field.atttypid FROM pg_attribute AS field
            WHERE t.typtype = 'c' AND field.attrelid = t.typrelid AND field.attnum > 0 AND NOT field.attisdropped
        ) AS part(type)
    )
    SELECT coalesce((SELECT array_agg(e.oid || ':' || e.enumlabel ORDER BY e.oid)
                     FROM pg_enum AS e WHERE e.enumtypid IN (SELECT type FROM reached)), '{}') AS labels,
           coalesce((SELECT array_agg(field.attrelid || '.' || field.attnum || ':' || field.atttypid
                                      ORDER BY field.attrelid, field.attnum)
                     FROM pg_type AS t
                     JOIN pg_attribute AS field ON field.attrelid = t.typrelid
                     WHERE t.oid IN (SELECT type FROM reached) AND t.typtype = 'c'
                       AND field.attnum > 0 AND NOT field.attisdropped), '{}') AS fields
"""
_COLUMNS = """
    WITH RECURSIVE :resolved
    SELECT a.attrelid, a.attname,
           :type_name,
           NOT a.attnotnull,
           a.attlen = -1 AND a.attstorage IN ('x', 'e', 'm'),
           a.attgenerated <> '',
           a.atttypid::bigint, a.atttypmod,
           a.attnum, a.xmin::text,
           a.atthasmissing OR EXISTS (
               SELECT FROM pg_partition_tree(a.attrelid) AS part
               JOIN pg_attribute AS leaf ON leaf.attrelid = part.relid AND leaf.attname = a.attname
               WHERE leaf.atthasmissing AND NOT leaf.attisdropped
           ),
           contents.labels, contents.fields, t.oid::bigint
    :from_final
    CROSS JOIN LATERAL (:contents) AS contents
    ORDER BY a.attrelid, a.attnum
"""
_COLUMNS = (
    _COLUMNS.replace(":resolved", resolved_types("a.attrelid = ANY (%(tables)s::oid[])"))
    .replace(":type_name", TYPE_NAME)
    .replace(":from_final", FROM_RESOLVED)
    .replace(":contents", _CONTENTS)
)
# Columns of the key, by precedence:
#   1. the index of REPLICA IDENTITY USING INDEX, also if there is a primary key: a DELETE in the log has only
#      its columns;
#   2. the primary key;
#   3. the narrowest unique index whose columns are all NOT NULL;
#   4. the narrowest unique index.
# An index that is partial, invalid, deferrable or on an expression or a generated column is no key: with a deferrable
# one, two rows of a transaction may exchange their keys, and the events of the first would delete the second.
# The ids of an index stay the same as long as its rows are unique: REINDEX CONCURRENTLY creates another index for the
# same constraint, and ALTER COLUMN … TYPE creates another constraint and index with the same file.
_KEY = """
    SELECT i.indrelid, array_agg(a.attname::text ORDER BY key.place), bool_and(a.attnotnull), i.indisprimary,
           array_remove(ARRAY[
               'index:' || i.indexrelid,
               'constraint:' || (SELECT k.oid FROM pg_constraint AS k
                                 WHERE k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u')
                                 LIMIT 1),
               'file:' || pg_relation_filenode(i.indexrelid)
           ], NULL)
    FROM pg_index AS i
    JOIN pg_class AS c ON c.oid = i.indrelid
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS key (attnum, place)
    JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = key.attnum
    WHERE i.indrelid = ANY (%(tables)s::oid[]) AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indislive
      AND i.indpred IS NULL AND i.indexprs IS NULL AND key.place <= i.indnkeyatts
    GROUP BY i.indrelid, i.indexrelid, i.indisprimary, i.indisreplident, c.relreplident
    HAVING bool_and(a.attgenerated = '')
    ORDER BY i.indrelid, (i.indisreplident AND c.relreplident = 'i') DESC, i.indisprimary DESC,
             bool_and(a.attnotnull) DESC, count(*), sum(CASE WHEN a.attlen > 0 THEN a.attlen ELSE 1000 END),
             i.indexrelid
"""
IDENTITY_COLUMNS = """
    ARRAY(SELECT a.attname::text
          FROM pg_index AS i
          CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS key (attnum, place)
          JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = key.attnum
          WHERE i.indrelid = leaf.oid AND i.indisvalid AND key.place <= i.indnkeyatts
            AND CASE leaf.relreplident WHEN 'd' THEN i.indisprimary AND i.indimmediate
                                       WHEN 'i' THEN i.indisreplident ELSE false END)
"""
"""The columns of an old row that the log has without REPLICA IDENTITY FULL; `leaf` is a row of pg_class."""
# Each partition logs the old row by its own replica identity.
_IDENTITIES = f"""
    SELECT n.nspname, c.relname, leaf.oid::regclass::text, leaf.relreplident = 'f', {IDENTITY_COLUMNS}
    FROM unnest(%s::text[], %s::text[]) AS given(schema, name)
    JOIN pg_namespace AS n ON n.nspname = given.schema
    JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = given.name AND c.relkind = 'p'
    LEFT JOIN LATERAL pg_partition_tree(c.oid) AS part ON part.isleaf AND part.relid <> c.oid
    LEFT JOIN pg_class AS leaf ON leaf.oid = part.relid
    ORDER BY part.relid
"""
_TABLES = """
    SELECT n.nspname, c.relname
    FROM pg_class AS c
    JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY (%s) AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
    ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
"""
_SIZES = f"""
    SELECT n.nspname, c.relname, coalesce(sum(greatest(leaf.reltuples, 0)), 0)::bigint,
           coalesce(sum(pg_table_size(leaf.oid)), 0)::bigint
    FROM unnest(%s::text[], %s::text[]) AS given(schema, name)
    JOIN pg_namespace AS n ON n.nspname = given.schema
    JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = given.name
    JOIN pg_class AS leaf ON leaf.oid IN ({_LEAVES})
    GROUP BY 1, 2
"""
_SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"
_SIBLINGS = """
    SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind IN ('r', 'p')
"""
# After a promotion, the last checkpoint shows the old timeline until the next checkpoint; a standby has only this one.
_IDENTITY = """
    SELECT s.system_identifier::text,
           CASE WHEN pg_is_in_recovery() THEN p.timeline_id
                ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
           current_database()::text
    FROM pg_control_system() AS s, pg_control_checkpoint() AS p
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """The identity of a database, which distinguishes it from any other database at the same address.

    Args:
        system: the system identifier of the cluster; a copy of its files has the same identifier. `unknown` if the role
            may not read it.
        timeline: increases when a standby is promoted or an old state is restored; 0 if unknown.
        database: name of the database.
    """

    system: str
    timeline: int
    database: str

    def __str__(self) -> str:
        """Return the identity as one text, for offsets and messages."""
        return f"{self.system}/{self.timeline}/{self.database}"


def read_table(session: Session, name: TableName) -> SourceTable:
    """Return a table with its columns and its key.

    Generated columns are left out: they are not in the log, so they would be stale after the first update. The pipeline
    can compute them from the other columns.

    Raises:
        SourceError: DATABASE_TABLE_MISSING, or DATABASE_NOT_A_TABLE for a view and the like.
    """
    found = read_tables(session, [name])[name]
    if isinstance(found, SourceError):
        raise found
    return found


def read_tables(session: Session, names: Sequence[TableName]) -> dict[TableName, SourceTable | SourceError]:
    """Return tables, or the errors of `read_table`, in three queries for any number of tables.

    Raises:
        SourceError: the catalog can't be read.
    """
    only = names[0] if len(names) == 1 else None
    given = [[name.schema for name in names], [name.table for name in names]]
    described = {TableName(schema=row[0], table=row[1]): row[2:] for row in session.rows(_TABLE, given, table=only)}
    oids = [row[0] for row in described.values() if row[1] in _TABLE_KINDS]
    columns: dict[int, list[tuple[Any, ...]]] = {oid: [] for oid in oids}
    for oid, *column in session.rows(_COLUMNS, {"tables": oids}, table=only):
        columns[oid].append(tuple(column))
    keys: dict[int, _Key] = {}
    for oid, *index in session.rows(_KEY, {"tables": oids}, table=only):
        keys[oid] = _key(*index) if oid not in keys else keys[oid].beside(*index)
    found: dict[TableName, SourceTable | SourceError] = {}
    for name in names:
        row = described.get(name)
        if row is None:
            found[name] = _missing(session, name)
        elif row[1] not in _TABLE_KINDS:
            found[name] = SourceError("DATABASE_NOT_A_TABLE", table=name, kind=_KINDS.get(row[1], "not a table"))
        else:
            found[name] = _table(name, row, columns[row[0]], keys.get(row[0], _NO_KEY))
    return found


def _table(name: TableName, row: tuple[Any, ...], columns: Sequence[tuple[Any, ...]], key: _Key) -> SourceTable:
    oid, kind, storage, rows, size, is_full, has_full, most_columns, is_unidentified, gone = row
    logged = [column for column in columns if not column[4]]
    return SourceTable(
        name=name,
        columns=tuple(_column(column, full=is_full) for column in logged),
        key=key.columns,
        key_kind=key.kind,
        key_ids=key.ids,
        storage_id=storage,
        estimated_rows=rows,
        estimated_bytes=size,
        full_before_image=is_full,
        has_full_part=has_full,
        is_unidentified=is_unidentified,
        is_partitioned=kind == "p",
        generated=tuple(column[0] for column in columns if column[4]),
        identity=str(oid),
        most_columns=most_columns,
        gone=tuple(gone),
        log_version=columns_version(types := [(column[0], column[5], column[6]) for column in logged]),
        earlier_versions=tuple(
            (logged[count - 1][7], columns_version(types[:count]))
            for count in range(max(len(types) - _EARLIER_VERSIONS, 1), len(types))
        ),
    )


def partitions_without_key(
    session: Session, keys: Mapping[TableName, Sequence[str]]
) -> dict[TableName, tuple[str, ...]]:
    """Return the partitions whose changes lack old values of the key, by partitioned table; () if a table has none.

    Args:
        session: any session of the database.
        keys: tables with the columns of their keys; those that are not partitioned are left out.

    Raises:
        SourceError: the catalog can't be read.
    """
    given = [[name.schema for name in keys], [name.table for name in keys]]
    found: dict[TableName, tuple[str, ...]] = {}
    for schema, table, leaf, is_full, logged in session.rows(_IDENTITIES, given) if keys else ():
        name = TableName(schema=schema, table=table)
        lacks_key = leaf is not None and not is_full and not {*keys[name]} <= {*logged}
        found[name] = (*found.get(name, ()), *([leaf] if lacks_key else ()))
    return found


def list_tables(session: Session, schemas: Sequence[str]) -> tuple[TableName, ...]:
    """Return the tables of schemas, in the order of their names.

    Partitioned tables are included; their partitions, views, foreign and temporary tables are not.

    Raises:
        SourceError: DATABASE_SCHEMA_MISSING.
    """
    known = {row[0] for row in session.rows(_SCHEMAS)}
    for schema in schemas:
        if schema not in known:
            raise SourceError("DATABASE_SCHEMA_MISSING", schema=schema, hint=nearest_hint(schema, known))
    return tuple(TableName(schema=schema, table=table) for schema, table in session.rows(_TABLES, [list(schemas)]))


def read_sizes(session: Session, names: Sequence[TableName]) -> dict[TableName, tuple[int, int]]:
    """Return the estimated rows, and the bytes on disk, of the tables that exist.

    Args:
        session: any session of the database.
        names: the tables.
    """
    found = session.rows(_SIZES, [[name.schema for name in names], [name.table for name in names]])
    return {TableName(schema=schema, table=table): (rows, size) for schema, table, rows, size in found}


def read_identity(session: Session) -> SourceIdentity:
    """Return the identity of the database.

    If the role may not call the functions of the control file, the identity is read over a replication connection.
    """
    try:
        system, timeline, database = session.rows(_IDENTITY)[0]
    except SourceError as error:
        if error.condition != "DATABASE_PERMISSION":
            raise
        return _identity_from_replication(session)
    return SourceIdentity(system=system, timeline=timeline, database=database)


def _identity_from_replication(session: Session) -> SourceIdentity:
    try:
        replication = open_replication(session.connection)
    except SourceError:
        database = session.rows("SELECT current_database()::text")[0][0]
        return SourceIdentity(system=UNKNOWN_SYSTEM, timeline=0, database=database)
    try:
        with replication.cursor() as cursor:
            cursor.execute("IDENTIFY_SYSTEM")
            system, timeline, _, database = cursor.fetchall()[0]
    finally:
        replication.close()
    return SourceIdentity(system=system, timeline=timeline, database=database)


def _column(row: tuple[Any, ...], *, full: bool) -> SourceColumn:
    name, type_name, nullable, toastable, *_ = row[:5]
    number, stamp, is_filled, labels, fields, type_id = row[7:]
    return SourceColumn(
        name=name,
        type_name=type_name,
        nullable=nullable,
        may_be_omitted=toastable and not full,
        identity=ColumnIdentity(
            number=number, stamp=stamp, type_id=type_id, is_filled=is_filled, labels=tuple(labels), fields=tuple(fields)
        ),
    )


class _Key(NamedTuple):
    columns: tuple[str, ...]
    kind: KeyKind
    ids: tuple[str, ...]

    def beside(self, columns: list[str], _not_null: bool, _is_primary: bool, ids: list[str]) -> _Key:  # noqa: FBT001 - a row
        """Return the key with another index, which also keeps rows unique if it has the same columns."""
        return self._replace(ids=(*self.ids, *ids)) if {*columns} == {*self.columns} else self


_NO_KEY = _Key((), KeyKind.NONE, ())


def _key(columns: list[str], not_null: bool, is_primary: bool, ids: list[str]) -> _Key:  # noqa: FBT001 - a row of SQL
    kind = KeyKind.UNIQUE if not_null else KeyKind.NULLABLE_UNIQUE
    return _Key(tuple(columns), KeyKind.PRIMARY if is_primary else kind, tuple(ids))


def _missing(session: Session, name: TableName) -> SourceError:
    known = {row[0] for row in session.rows(_SIBLINGS, [name.schema])}
    return SourceError(
        "DATABASE_TABLE_MISSING",
        table=name,
        connection=session.connection.name,
        address=session.connection.address,
        cause=f"The schema has no table of this name.{nearest_hint(name.table, known)}",
    )
