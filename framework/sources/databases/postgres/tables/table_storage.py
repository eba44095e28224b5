"""The catalog facts that a plan of chunks depends on in PostgreSQL: storage, key and size of a table.

One statement returns it as JSON, so that the planner (psycopg2) and the reader (ADBC) see the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from framework.sources.databases.chunks import KeyColumn
from framework.sources.databases.postgres.chunks.chunk_sql import quote_literal
from framework.sources.databases.postgres.tables.type_names import FROM_RESOLVED, TYPE_NAME, resolved_types
from framework.sources.databases.tables import TableName

_FIRST_VERSION_WITH_TID_RANGES = 140000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A table with rows of its own: the table itself, or a partition.

    Args:
        rows: at the last ANALYZE or VACUUM; -1 if there was none.
        pages: at that time.
        blocks: the present number of blocks.
        size: the present size in bytes, including values that are stored out of line.
        heap: whether it is stored in numbered blocks, as row addresses need.
    """

    rows: float
    pages: int
    blocks: int
    size: int
    heap: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStorage:
    """The present storage of a table.

    Args:
        storage_id: changes when the database rewrites the table, or its set of partitions changes.
        partitioned: whether the rows are in partitions.
        key: the requested key columns that exist, in their order.
        key_indexed: whether a unique index has exactly these columns in this order.
        server_version: for example 160014.
        block_size: bytes of a block.
        leaves: () unless sizes were requested.
        relation: the oid of the table.
        horizon: all transactions below it have ended.
        partitions: its partitions at all levels, in the form of `Partition.link`.
        types: name and type of each column, as in `SourceColumn`; {} unless they were requested.
        numbers: name and number of each column; {} unless the types were requested.
        stamps: name and stamp of each column, as in `ColumnIdentity`; {} unless the types were requested.
    """

    storage_id: str
    partitioned: bool
    key: tuple[KeyColumn, ...]
    key_indexed: bool
    server_version: int
    block_size: int
    leaves: tuple[Leaf, ...] = ()
    relation: int = 0
    horizon: str = ""
    partitions: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    stamps: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_tid_ranges(self) -> bool:
        """Whether rows can be read by ranges of their addresses without scanning the whole table."""
        return self.server_version >= _FIRST_VERSION_WITH_TID_RANGES and all(leaf.heap for leaf in self.leaves)

    @property
    def bytes(self) -> int:
        """Bytes of the rows."""
        return sum(leaf.size for leaf in self.leaves)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return sum(leaf.blocks for leaf in self.leaves)

    @property
    def estimated_rows(self) -> int | None:
        """Rows by the density of the last ANALYZE and the present size; None if a part was never analysed."""
        total = 0.0
        for leaf in self.leaves:
            if leaf.blocks == 0:
                continue
            if leaf.rows < 0 or leaf.pages == 0:
                return None
            total += leaf.rows / leaf.pages * leaf.blocks
        return round(total)


def storage_sql(name: TableName, key: Sequence[str], *, sizes: bool = False, types: bool = False) -> str:
    """Return the statement whose single value `parse_storage` reads.

    Args:
        name: the table.
        key: names of the columns of its key.
        sizes: whether the value has the leaves.
        types: whether it has the types, the numbers and the stamps of all columns.
    """
    names = ", ".join(quote_literal(column) for column in key)
    return _STORAGE.format(
        schema=quote_literal(name.schema),
        table=quote_literal(name.table),
        names=names,
        leaves=_LEAVES if sizes else "NULL",
        types=_TYPES if types else "NULL",
    )


def parse_storage(text: str) -> TableStorage | None:
    """Return the storage in the value of `storage_sql`; None if there is no such table."""
    value = json.loads(text)
    if value["kind"] is None:
        return None
    columns = (value["types"] or {}).items()
    return TableStorage(
        storage_id=value["storage"] or "",
        partitioned=value["kind"] == "p",
        key=tuple(KeyColumn(**column) for column in value["key"] or ()),
        key_indexed=value["indexed"],
        server_version=value["version"],
        block_size=value["block_size"],
        leaves=tuple(Leaf(**leaf) for leaf in value["leaves"] or ()),
        relation=value["relation"],
        horizon=value["horizon"],
        partitions=tuple(value["partitions"] or ()),
        types={name: type_name for name, (type_name, _, _) in columns},
        numbers={name: number for name, (_, number, _) in columns},
        stamps={name: stamp for name, (_, _, stamp) in columns},
    )


_LEAVES = """(
    SELECT json_agg(json_build_object(
        'rows', c.reltuples, 'pages', c.relpages,
        'blocks', pg_relation_size(c.oid) / current_setting('block_size')::bigint, 'size', pg_table_size(c.oid),
        'heap', coalesce(a.amname = 'heap', false)) ORDER BY c.oid)
    FROM leaves l JOIN pg_class c ON c.oid = l.oid LEFT JOIN pg_am a ON a.oid = c.relam)"""

_TYPES = f"""(
    WITH RECURSIVE {resolved_types("a.attrelid = (SELECT oid FROM target)")}
    SELECT json_object_agg(a.attname, json_build_array({TYPE_NAME}, a.attnum, a.xmin::text)) {FROM_RESOLVED})"""

# The type names are qualified by hand: format_type depends on search_path, and `character` without a length means one
# character. pg_catalog.bpchar, pg_catalog.bit and pg_catalog.numeric cast without changing the value.
_STORAGE = """
WITH RECURSIVE target AS (
    SELECT c.oid, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = {schema} AND c.relname = {table}
), leaves AS (
    SELECT oid FROM target WHERE relkind <> 'p'
    UNION ALL
    SELECT p.relid::oid FROM target, pg_partition_tree(target.oid) p WHERE target.relkind = 'p' AND p.isleaf
), columns AS (
    SELECT a.attnum, a.attname, a.atttypid, a.attcollation, a.attnotnull, w.position
    FROM unnest(ARRAY[{names}]::text[]) WITH ORDINALITY AS w(name, position), target
    JOIN pg_attribute a ON a.attrelid = target.oid
    WHERE a.attname = w.name AND a.attnum > 0 AND NOT a.attisdropped
), bases(attnum, type) AS (
    SELECT attnum, atttypid FROM columns
    UNION ALL
    SELECT b.attnum, t.typbasetype FROM bases b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
), key_index AS (
    SELECT i.indexrelid, i.indcollation::oid[] AS collations FROM pg_index i JOIN target ON i.indrelid = target.oid
    WHERE i.indisunique AND i.indisvalid AND i.indpred IS NULL
      AND (SELECT string_agg(u.attnum::text, ' ' ORDER BY u.position)
           FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u(attnum, position) WHERE u.position <= i.indnkeyatts)
        = (SELECT string_agg(attnum::text, ' ' ORDER BY position) FROM columns)
    ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1
), key AS (
    SELECT c.position, json_build_object(
        'name', c.attname,
        'type_name', quote_ident(n.nspname) || '.' || quote_ident(t.typname),
        'collation', (
            SELECT quote_ident(cn.nspname) || '.' || quote_ident(o.collname)
            FROM pg_collation o JOIN pg_namespace cn ON cn.oid = o.collnamespace
            WHERE o.oid = coalesce((
                SELECT nullif(u.collation_id, 0) FROM key_index, unnest(key_index.collations) WITH ORDINALITY
                    AS u(collation_id, position) WHERE u.position = c.position), c.attcollation)),
        'operator_schema', nullif(n.nspname, 'pg_catalog'),
        'nullable', NOT c.attnotnull) AS value
    FROM columns c JOIN bases b ON b.attnum = c.attnum JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd'
    JOIN pg_namespace n ON n.oid = t.typnamespace
)
SELECT json_build_object(
    'kind', (SELECT relkind FROM target),
    'relation', (SELECT oid::bigint FROM target),
    'horizon', pg_snapshot_xmin(pg_current_snapshot())::text,
    'partitions', (
        SELECT json_agg(i.inhrelid::text || ':' || i.xmin::text ORDER BY i.inhrelid)
        FROM target, pg_partition_tree(target.oid) p JOIN pg_inherits i ON i.inhrelid = p.relid
        WHERE target.relkind = 'p' AND p.level > 0),
    'storage', (
        SELECT CASE t.relkind WHEN 'p' THEN 'partitions:' || md5(coalesce(s.leaves, '')) ELSE s.leaves END
        FROM target t, (
            SELECT string_agg(
                oid::text || ':' || coalesce(pg_relation_filenode(oid), 0)::text, ',' ORDER BY oid) AS leaves
            FROM leaves) s),
    'key', (SELECT json_agg(value ORDER BY position) FROM key),
    'indexed', EXISTS (SELECT 1 FROM key_index),
    'version', current_setting('server_version_num')::integer,
    'block_size', current_setting('block_size')::bigint,
    'leaves', {leaves},
    'types', {types})::text"""
