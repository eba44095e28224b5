"""Specs of datasets and flows, as frozen values.

Specs contain only plain values, tuples and enums, so each one compares, hashes and round-trips through
JSON. Columns are SQL text. Query functions are not part of the specs: the registry keeps them by
flow name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    """A named condition that each row should meet; NULL counts as not met."""

    name: str
    condition: str
    action: ViolationAction
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """A table, view or sink of the pipeline.

    `schema` is DDL text or the JSON of a StructType. `format` and `options` are those of sinks;
    tables allow only the format `delta`. `cluster_by` and `partition_columns` are mutually exclusive.
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
    row_filter: str | None = None
    private: bool = False
    format: str | None = None
    options: Pairs = ()
    refresh_policy: str | None = None
    expectations: tuple[ExpectationSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSelection:
    """All columns (`columns` None), only the named ones, or (`excluded`) all but the named ones."""

    columns: tuple[str, ...] | None = None
    excluded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoCdcSpec:
    """How an AUTO CDC flow turns change events into rows of its target.

    Expressions are SQL text over the source's columns. `scd_type` is 1 or 2.
    `ignore_null_updates` is None if nulls overwrite, else the columns whose nulls mean
    "not authored". `columns_to_update` is the name of a column that contains the list of columns
    that the event authors.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """One flow: from a query into a target.

    `source` is the name of the dataset or table that an AUTO CDC flow without a query function
    reads. `once` flows run once per generation of their checkpoint.
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
