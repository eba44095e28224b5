"""Specs of datasets and flows, as frozen values.

Specs contain only plain values, tuples and enums, so they can be compared, hashed and converted to JSON and back.
Columns are SQL text. Query functions are not a part of the specs: the registry keeps them by flow name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from framework.declare.copy_definition import CopyDefinition
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName

Pairs = tuple[tuple[str, str], ...]


class DatasetKind(StrEnum):
    """The kind of a dataset, which determines its valid flows.

    `TABLE` is a decorated function whose DataFrame determines the kind: streaming table or materialized view.
    """

    TABLE = "table"
    STREAMING_TABLE = "streaming_table"
    MATERIALIZED_VIEW = "materialized_view"
    TEMPORARY_VIEW = "temporary_view"
    SINK = "sink"
    FOREACH_BATCH_SINK = "foreach_batch_sink"

    @property
    def is_table(self) -> bool:
        """Whether it is stored as a table; temporary views and sinks are not."""
        return self in {DatasetKind.TABLE, DatasetKind.STREAMING_TABLE, DatasetKind.MATERIALIZED_VIEW}

    @property
    def is_sink(self) -> bool:
        """Whether flows write through it to a target outside the pipeline."""
        return self in {DatasetKind.SINK, DatasetKind.FOREACH_BATCH_SINK}


class ViolationAction(StrEnum):
    """The action for a row that violates an expectation."""

    WARN = "warn"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationSpec:
    """A named condition that each row should meet; NULL counts as a violation.

    Args:
        unique: the expressions of `UNIQUE (…)`, which compares rows: no two rows may have equal values of them.
    """

    name: str
    condition: str
    action: ViolationAction
    unique: tuple[str, ...] | None = None
    location: SourceLocation | None = None

    @property
    def expressions(self) -> tuple[str, ...]:
        """The SQL expressions that are computed for each row."""
        return (self.condition,) if self.unique is None else self.unique


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """A table, view or sink of the pipeline.

    `schema` is DDL text or the JSON of a StructType. `format` and `options` are for sinks; a table's format can only be
    `delta`. `keys` are PRIMARY KEY and FOREIGN KEY as written; they inform readers and are not checked. `cluster_by`
    and `partition_columns` are mutually exclusive.
    """

    name: QualifiedName
    kind: DatasetKind
    location: SourceLocation | None = None
    comment: str | None = None
    spark_conf: Pairs = ()
    table_properties: Pairs = ()
    path: str | None = None
    partition_columns: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    cluster_by_auto: bool = False
    schema: str | None = None
    keys: tuple[str, ...] = ()
    row_filter: str | None = None
    private: bool = False
    format: str | None = None
    options: Pairs = ()
    refresh_policy: str | None = None
    expectations: tuple[ExpectationSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSelection:
    """A selection of columns: all (`columns` is None), only the named ones, or (`excluded`) all but the named ones."""

    columns: tuple[str, ...] | None = None
    excluded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCdcSpec:
    """The definition of how an AUTO CDC flow applies change events to its target.

    Expressions are SQL text over the source's columns. `scd_type` is 1 or 2.
    `ignore_null_updates` is None if nulls overwrite; otherwise it selects the columns in which null means "not
    authored". `columns_to_update` is the name of a column with the list of columns that the event authors.
    `soft_deletes` is the name of the column that flags deleted rows; it is None if the flow does not set it. If no flow
    of the target sets it, deleted rows are removed.
    """

    keys: tuple[str, ...]
    sequence_by: str
    where: str | None = None
    ignore_null_updates: ColumnSelection | None = None
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    columns: ColumnSelection = ColumnSelection()
    columns_to_update: str | None = None
    scd_type: int = 1
    track_history: ColumnSelection = ColumnSelection()
    soft_deletes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """A flow from a query into a target.

    `source` is the name of the dataset or table that an AUTO CDC flow without a query function reads. A flow with
    `once` runs once per generation of its checkpoint.
    """

    name: QualifiedName
    target: QualifiedName
    location: SourceLocation | None = None
    once: bool = False
    spark_conf: Pairs = ()
    comment: str | None = None
    source: str | None = None
    cdc: AutoCdcSpec | None = None
    from_snapshots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoFullRefreshPolicy:
    """The policy by which an update reads a table again after its columns changed at the source.

    Args:
        enabled: whether updates do so; otherwise the table is held.
        min_interval_hours: the minimum time since the last full read of the table, in hours.
    """

    enabled: bool
    min_interval_hours: int = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfiguration:
    """The configuration of a source table's copy.

    Args:
        scd_type: 1 for the latest rows, 2 for their history.
        primary_keys: columns that identify a row; () for the key of the source table.
        include_columns: the copied columns; () for all.
        exclude_columns: columns that are not copied.
        row_filter: a condition in Spark SQL; the copy has only the rows that meet it.
        text_columns: columns that are copied as the database's text.
        soft_deletes: the column that is true in deleted rows, which are kept; None if deleted rows are removed.
        auto_full_refresh_policy: whether an update reads all rows again after the table's columns changed. It does not
            affect rows, so it is not a part of the text by which two declarations are compared.
    """

    scd_type: int = 1
    primary_keys: tuple[str, ...] = ()
    include_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()
    row_filter: str | None = None
    text_columns: tuple[str, ...] = ()
    soft_deletes: str | None = None
    auto_full_refresh_policy: AutoFullRefreshPolicy = field(default=AutoFullRefreshPolicy(enabled=False), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedObject:
    """A source table, or the tables of a source schema.

    Args:
        source_schema: the schema at the source.
        source_table: the table; None for the tables of the schema that match the patterns.
        include: patterns such as `order_*` of the schema's tables; () for all.
        exclude: patterns of tables that are left out.
        destination_catalog: the catalog of the copies; None for the pipeline's.
        destination_schema: the schema of the copies; None for the pipeline's.
        destination_table: the name of the copy of a single table; None for the name of the source table.
        configuration: how the tables are copied.
    """

    source_schema: str
    source_table: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    destination_catalog: str | None = None
    destination_schema: str | None = None
    destination_table: str | None = None
    configuration: TableConfiguration = TableConfiguration()


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionSpec:
    """The tables of one database that the pipeline copies and keeps up to date.

    Args:
        name: name of the gateway, from which the names of its objects at the source and of its staging table are
            derived.
        connection: name of the connection.
        objects: the source tables and schemas to copy.
        options: options of both sources, such as `chunkBytes`.
        location: the declaration.
    """

    name: str
    connection: str
    objects: tuple[IngestedObject, ...]
    options: Pairs = ()
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedTable:
    """A source table and its copy, as declared.

    Args:
        source_schema: the schema at the source.
        source_table: the table at the source.
        target: the name of the copy.
        snapshot_flow: the flow that reads the table once.
        cdc_flow: the flow that applies the table's changes.
        keys: the columns that identify a row; () for a table that can't be copied now.
        identity: the identity of the table in its database, which a rename keeps; empty if it can't be copied now.
        continuity: text of the dialect that changes if another table, or another part of the log, takes the same name.
        is_logged: whether the log has its changes now.
        named_continuity: the latest continuity for which an error has named the rows that came or went; else empty.
        is_refreshed: whether its policy makes the next update read all its rows again.
        definition: the definition of its rows now; None for a table that can't be copied now, and in a stored state.
        copy_name: the name of the copy if the table has several copies, and another copy has the source's name as its
            `key`; else empty.
    """

    source_schema: str
    source_table: str
    target: QualifiedName
    snapshot_flow: QualifiedName
    cdc_flow: QualifiedName
    keys: tuple[str, ...]
    identity: str = field(default="", compare=False)
    continuity: str = field(default="", compare=False)
    is_logged: bool = field(default=False, compare=False)
    named_continuity: str = field(default="", compare=False)
    is_refreshed: bool = field(default=False, compare=False)
    definition: CopyDefinition | None = None
    copy_name: str = ""

    @property
    def key(self) -> str:
        """The copy's name in states and requests; for a table with one copy, its name at the source."""
        return self.copy_name or self.source

    @property
    def source(self) -> str:
        """The name at the source, in the user's spelling: `schema.table`."""
        return f"{self.source_schema}.{self.source_table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedGateway:
    """The tables copied from one database through one reader of its log, as declared.

    Args:
        name: name of the gateway.
        connection: name of the connection.
        folder: the folder of `connections.yml`.
        position_name: the name under which the database keeps its log position, as `LogName`.
        table_list: the name of its table list in the database.
        changes: the table of staged changes, and the name of the flow into it.
        tables: the copied tables.
        scheme: the scheme of the connection, which identifies the kind of database; empty if unknown.
        other_storage: another storage with updates that read the log, as text; empty without one.
    """

    name: str
    connection: str
    folder: str
    position_name: str
    table_list: str
    changes: QualifiedName
    tables: tuple[IngestedTable, ...]
    scheme: str = field(default="", compare=False)
    other_storage: str = ""

    def name_of(self, table: IngestedTable) -> str:
        """Return a table's name in commands: its name at the source, or the name of its copy if that is different."""
        is_only = sum(each.source == table.source for each in self.tables) == 1
        return table.source if is_only else str(table.target)
