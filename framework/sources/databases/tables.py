"""Tables of a source database, as the catalog of the database describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

UNREADABLE = "UNREADABLE"
"""The operation of a change whose values can't be represented; its payload is the reason."""
REPLACED = "REPLACED"
"""The operation of a change of a different table that now has the name of the copied table."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableName:
    """Schema and name of a source table, exactly as the database stores them."""

    schema: str
    table: str

    def __str__(self) -> str:
        """Return `schema.table`, for messages; not for SQL."""
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        """The name for SQL, both parts in double quotes."""
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.table)}"


def quote_identifier(name: str) -> str:
    """Return an identifier for SQL, in double quotes.

    Examples:
        >>> quote_identifier('a"b')
        '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


class KeyKind(StrEnum):
    """The kind of key that identifies the rows of a source table."""

    PRIMARY = "primary"
    UNIQUE = "unique"
    """A unique index whose columns are all NOT NULL."""
    NULLABLE_UNIQUE = "nullable_unique"
    """A unique index with a column that may be NULL: rows with NULL are not identified."""
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIdentity:
    """Facts that change when a column is altered, because its values may then differ without an event in the log.

    Args:
        number: never given to another column of the table (PostgreSQL: attnum).
        stamp: changes with each statement that alters the column (PostgreSQL: xmin of its row in pg_attribute).
        type_id: identifies its type or element type independently of the name (PostgreSQL: oid of the type, which is
            never a domain).
        is_filled: whether rows that are older than the column have its default value.
        labels: the values of the enums in its type, each with its identifier.
        fields: the fields of the composite types in its type.
    """

    number: int = 0
    stamp: str = ""
    type_id: int = 0
    is_filled: bool = False
    labels: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of a source table.

    Args:
        name: as the database stores it.
        type_name: the type as the database writes it, with modifiers, such as `numeric(10,2)` or `integer[]`; a domain
            is replaced by its base type, also as the element of an array.
        nullable: whether it may be NULL.
        may_be_omitted: whether the log may leave out its value when an update does not change it (PostgreSQL: TOAST).
        identity: distinguishes it from an earlier column of its name, and from its own state before an alteration.
    """

    name: str
    type_name: str
    nullable: bool
    may_be_omitted: bool = False
    identity: ColumnIdentity = field(default_factory=ColumnIdentity, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A source table at one time.

    Args:
        name: schema and name.
        columns: in the order of the table.
        key: columns that identify a row, in the order of the index; () if none do.
        key_kind: the kind of the key.
        storage_id: changes when the database rewrites the table (PostgreSQL: relfilenode).
        estimated_rows: from the statistics of the database; 0 if it has none.
        estimated_bytes: size of the rows on disk, without indexes.
        full_before_image: whether the log has all columns of the old row (PostgreSQL: REPLICA IDENTITY FULL).
        has_full_part: whether the table or any of its partitions has a full before image.
        is_unidentified: whether the log can't identify an old row, so that the database refuses to change or delete
            rows of a published table (PostgreSQL: REPLICA IDENTITY NOTHING).
        is_partitioned: whether the rows are in partitions. Any other table must be read with `FROM ONLY`: tables that
            inherit from it have their own entries in the log.
        generated: names of the generated columns; they are not among `columns`, because the log does not have them.
        identity: identifies the table in the database independently of its name; empty if unknown (PostgreSQL: oid).
        most_columns: how many columns it ever had; a later column has a greater number.
        gone: the numbers of the columns that were dropped.
        key_ids: ids of the objects that keep its key unique; a key that is dropped and recreated has other ids
            (PostgreSQL: oids of the constraints and indexes of its columns, and files of the indexes).
        log_version: the present version of the columns in its changes in the log.
        earlier_versions: the versions of the columns before some of the last columns were added, each with the greatest
            column number at that time.
    """

    name: TableName
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]
    key_kind: KeyKind
    storage_id: str
    estimated_rows: int
    estimated_bytes: int
    full_before_image: bool = False
    has_full_part: bool = False
    is_unidentified: bool = False
    is_partitioned: bool = False
    generated: tuple[str, ...] = ()
    identity: str = ""
    most_columns: int = field(default=0, compare=False, repr=False)
    gone: tuple[int, ...] = field(default=(), compare=False, repr=False)
    key_ids: tuple[str, ...] = field(default=(), compare=False, repr=False)
    log_version: int = field(default=0, compare=False, repr=False)
    earlier_versions: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    def column(self, name: str) -> SourceColumn:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)
