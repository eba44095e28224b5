"""The Delta tables of a pipeline, with their paths, records and owners."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from delta import DeltaTable
from pyspark.sql.types import StructType

from framework.cdc.delta.new_tables import new_table
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.cdc.writer import auxiliary_schema, table_properties
from framework.declare.session.mutations import unguarded
from framework.declare.specs import DatasetKind, DatasetSpec
from framework.engine.sessions.session import cloned, run_statement
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.files.storage import Storage
from framework.foundation.locations import SourceLocation
from framework.foundation.names import QualifiedName, string_literal
from framework.foundation.table_address import STORAGE_PROPERTY, TableAddress, normal_path
from framework.graph.graph import GraphDataset
from framework.plan.state import TableKind
from framework.run.tables.catalog_entries import name_table
from framework.run.tables.column_changes import change_columns, widen_columns
from framework.run.tables.storage_identity import StorageIdentity, has_link
from framework.run.tables.stored_columns import (
    are_equal,
    has_columns,
    property_of_defaults,
    spelled_as_in,
    with_definitions,
)
from framework.run.tables.table_kind import recorded_kind, stored_kind
from framework.run.tables.table_record import (
    StorageLayout,
    TableRecord,
    definition_of,
    original_root,
    read_record,
    read_records,
    write_record,
)
from framework.schema.change import SchemaChange, schema_change
from framework.sources.delta.log import LogTip, latest_version, read_tip, tip_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

OWNER_PROPERTY = "sluice.pipeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """An existing table of a dataset.

    Args:
        definition: hash of its applied definition. None if it is unknown, or if columns were removed since (RESTORE to
            an earlier version, ALTER TABLE), so that the definition has to be applied again.
        other_owner: the owner as text; None if it is this pipeline.
        elsewhere: the folder of another table that the dataset's flows have written to since; empty if there is none.
        other_storage: another storage that writes to the table, as text; empty if there is none.
        kind: how its rows came into it; None if unknown.
    """

    definition: str | None
    other_owner: str | None
    elsewhere: str = ""
    other_storage: str = ""
    kind: TableKind | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class TableStore:
    """Delta tables at paths below the pipeline's storage, or at a dataset's own `path`.

    Args:
        pipeline: the owner in the table properties.
        spark: the session that creates and changes tables.
        storage: stores the records, and reads Delta logs without Spark.
    """

    pipeline: str
    spark: SparkSession
    storage: Storage

    @cached_property
    def _creating(self) -> SparkSession:
        """A session that writes no list of all files to checksums.

        Delta would run a query for this list before the first version, and the checksum of an empty table has one
        anyway.
        """
        session = cloned(self.spark)
        session.conf.set("spark.databricks.delta.allFilesInCrc.enabled", "false")
        return session

    @property
    def layout(self) -> StorageLayout:
        """The paths below the storage root."""
        return StorageLayout(storage=self.storage)

    def path(self, spec: DatasetSpec) -> str:
        """Return the folder of a dataset's table."""
        return normal_path(spec.path) if spec.path else self.layout.table(spec.name, private=spec.private)

    def address(self, spec: DatasetSpec, rebuild: int | None = None) -> TableAddress:
        """Return the address of a dataset's table, or of the table's rebuild."""
        if rebuild is None:
            return TableAddress(path=self.path(spec))
        return self.copy(spec.name, rebuild)

    def copy(self, name: QualifiedName, rebuild: int) -> TableAddress:
        """Return the address of a rebuild of a dataset's table."""
        return TableAddress(path=f"{self.layout.rebuild(name, rebuild)}/table")

    def auxiliary(self, spec: DatasetSpec, rebuild: int | None = None) -> TableAddress:
        """Return the address of AUTO CDC's auxiliary table of a target, or of a rebuild of it."""
        if rebuild is None:
            return TableAddress(path=self.layout.auxiliary(spec.name))
        return TableAddress(path=f"{self.layout.rebuild(spec.name, rebuild)}/companion")

    def exists(self, address: TableAddress) -> bool:
        """Whether there is a Delta table at an address."""
        # A process that is killed while it creates a table may leave a log folder without a commit.
        return latest_version(self.storage, str(address.path)) is not None

    def record(self, name: QualifiedName) -> TableRecord | None:
        """Return the record of a dataset's table; None if there is none."""
        return read_record(self.storage, self.layout, name)

    def records(self, *, besides: Collection[QualifiedName]) -> tuple[TableRecord, ...]:
        """Return the records of all tables in this storage, including those of other pipelines, except `besides`."""
        return read_records(self.storage, self.layout, besides)

    def is_ours(self, record: TableRecord) -> bool:
        """Whether a recorded table exists and belongs to this pipeline; only an outdated record needs a read of it."""
        address = TableAddress(path=record.path)
        if not self.exists(address):
            return False
        if self._is_recorded(record, address):
            return record.pipeline == self.pipeline
        return self._owner(address) == self.pipeline

    def _is_recorded(self, record: TableRecord | None, address: TableAddress) -> bool:
        return record is not None and _describes(record, address, read_tip(self.storage, str(address.path)))

    def stored_table(self, dataset: GraphDataset) -> StoredTable | None:
        """Return the state of a dataset's table; None if there is no table. Usually needs no Spark."""
        address, record = self.address(dataset.spec), self.record(dataset.name)
        tip = read_tip(self.storage, str(address.path))
        if tip is None:
            return None
        if record is None or not _describes(record, address, tip):
            owner = self._owner(address)
            ids = {record.table_id if record is not None else None, tip.table_id}
            is_another = len(ids) == 2 and None not in ids
            return StoredTable(
                definition=None if record is None or is_another else record.definition,
                other_owner=None if owner == self.pipeline else _owner_text(owner),
                # A storage that was moved as a whole has its tables at other paths.
                elsewhere=record.path if record is not None and is_another and record.path != address.path else "",
                other_storage=self.other_storage(dataset.name, self.path(dataset.spec)),
                kind=stored_kind(self.storage, dataset.name, self.path(dataset.spec), tip, None),
            )
        # Replacing a view also replaces its columns with those of its query, which may be fewer than the declared ones.
        is_view = dataset.kind is DatasetKind.MATERIALIZED_VIEW
        is_complete = is_view or tip.schema is None or has_columns(tip.schema, record.schema)
        is_complete = is_complete and self._has_wide_auxiliary(dataset)
        return StoredTable(
            definition=record.definition if is_complete else None, other_owner=None,
            other_storage=self.other_storage(dataset.name, self.path(dataset.spec)),
            kind=stored_kind(self.storage, dataset.name, self.path(dataset.spec), tip, record),
        )  # fmt: skip

    def other_storage(self, name: QualifiedName, path: str) -> str:
        """Return another storage that writes to the dataset's table at a path, for messages; empty if there is none."""
        if not self.is_outside(name, path):
            return ""
        mark = self._storage_mark(TableAddress(path=path))
        if mark is not None:
            return StorageIdentity.of(self.storage).other_storage(path, mark, self.spark)
        record = self.record(name)  # a table in its default folder names no storage, and another path may lead there
        return "" if record is None else original_root(record, path, self.spark)

    def may_prune(self, record: TableRecord) -> bool:
        """Whether a recorded table exists, and belongs to this pipeline and to this storage."""
        is_in_storage = not record.is_outside or self.is_claimed(record.dataset, record.path)
        return is_in_storage and self.is_ours(record) and not self.other_storage(record.dataset, record.path)

    def is_claimed(self, name: QualifiedName, path: str) -> bool:
        """Whether the table at a path names this storage, by its present or a former identity."""
        return self._storage_mark(TableAddress(path=path)) is not None and not self.other_storage(name, path)

    def is_outside(self, name: QualifiedName, path: str) -> bool:
        """Whether a table is outside its default folder in this storage, so that another storage may use it, too."""
        layout = self.layout
        if path not in (layout.table(name), layout.auxiliary(name)) and path != layout.table(name, private=True):
            return True
        return has_link(path, self.storage.root)  # the link may lead out of the storage

    def _storage_mark(self, address: TableAddress) -> str | None:
        """Return the property that names the table's storage; None if there is no property or no table."""
        return self.metadata(address).properties.get(STORAGE_PROPERTY) if self.exists(address) else None

    def claim(self, dataset: GraphDataset) -> None:
        """Mark an existing table outside the storage as owned by this one, so that no other storage writes to it.

        Raises:
            OperationError: TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE.
        """
        address = self.address(dataset.spec)
        wanted = self._own_mark(dataset.name, str(address.path))
        if not wanted or not self.exists(address) or wanted == {STORAGE_PROPERTY: self._storage_mark(address)}:
            return
        self.check_owner(dataset.spec, address)
        self.mark(dataset.name, str(address.path))
        # Another copy of the same storage may have claimed it at the same moment.
        self.check_owner(dataset.spec, address)

    def mark(self, name: QualifiedName, path: str) -> None:
        """Mark the dataset's table at a path as owned by this storage if it is outside, whatever its former owner."""
        wanted = self._own_mark(name, path)
        if wanted:
            address = TableAddress(path=path)
            self._set_properties(wanted, address, self.metadata(address).properties)

    def _own_mark(self, name: QualifiedName, path: str) -> dict[str, str]:
        return {STORAGE_PROPERTY: StorageIdentity.of(self.storage).mark} if self.is_outside(name, path) else {}

    def _has_wide_auxiliary(self, dataset: GraphDataset) -> bool:
        """Whether the auxiliary table, if any, has the wider types; a rewind restores it separately."""
        if not dataset.widens or dataset.cdc is None:
            return True
        tip = read_tip(self.storage, str(self.auxiliary(dataset.spec).path))
        if tip is None or tip.schema is None:
            return True
        change = schema_change(json.loads(tip.schema), auxiliary_schema(dataset.cdc).jsonValue())
        return not (change.widened or change.retyped)

    def create(self, dataset: GraphDataset, rebuild: int | None = None, planned: SchemaChange | None = None) -> None:
        """Create the table, or change the existing one to the dataset's definition.

        Args:
            dataset: the dataset.
            rebuild: the rebuild whose copy to create or change; None for the table itself.
            planned: the columns that the table may get; None for all missing columns.

        Raises:
            OperationError: TABLE_NOT_OWNED if the table belongs to another owner;
                PARTITIONING_CHANGED if only a full refresh can apply the partitioning; TABLE_CHANGED_SINCE_PLAN.
        """
        address = self.address(dataset.spec, rebuild)
        if self.exists(address):
            self._adopt(dataset, address, self.auxiliary(dataset.spec, rebuild), planned)
        else:
            self._create(dataset, address)
        if rebuild is None:
            failpoint("tables.after_create")
            # A crash here is safe: without a record, the next update reads the owner from the table and records it.
            self.write_record(dataset)

    def write_record(self, dataset: GraphDataset) -> None:
        """Record that the table has the dataset's definition, and register it in a configured catalog."""
        # First, because the record still has the former folder of the table.
        name_table(self.spark, dataset.spec, self.path(dataset.spec), self.record(dataset.name))
        tip = read_tip(self.storage, self.path(dataset.spec))
        record = TableRecord(
            dataset=dataset.name, path=self.path(dataset.spec), table_id=tip.table_id if tip is not None else None,
            pipeline=self.pipeline, definition=definition_of(dataset), schema=dataset.table_schema or "",
            partition_columns=dataset.spec.partition_columns, kind=recorded_kind(dataset),
        )  # fmt: skip
        write_record(self.storage, self.layout, record)

    def record_unknown(self, dataset: GraphDataset) -> None:
        """Record the columns of a table defined by earlier code; the next plan applies the dataset's definition."""
        address = self.address(dataset.spec)
        tip = read_tip(self.storage, str(address.path))
        record = TableRecord(
            dataset=dataset.name, path=str(address.path), table_id=tip.table_id if tip is not None else None,
            pipeline=self.pipeline, definition="", schema=self.schema(address) or "",
            partition_columns=self.partition_columns(address), kind=recorded_kind(dataset),
        )  # fmt: skip
        write_record(self.storage, self.layout, record)

    def schema(self, address: TableAddress) -> str | None:
        """Return the columns of a table as JSON, hidden ones included; None if there is no table."""
        if not self.exists(address):
            return None
        with unguarded():
            found = self.spark.read.format("delta").load(str(address.path)).schema.json()
        return with_definitions(found, self.metadata(address).schema)

    def partition_columns(self, address: TableAddress) -> tuple[str, ...]:
        """Return the partition columns of an existing table."""
        return self.metadata(address).partition_columns

    def _create(self, dataset: GraphDataset, address: TableAddress) -> None:
        spec = dataset.spec
        # A process that was killed while it created the table left a log folder, in which Delta then creates no table.
        self.storage.delete_tree(f"{address.path}/_delta_log")
        builder = new_table(self._creating, address, StructType.fromJson(json.loads(dataset.table_schema or "")))
        for key, value in self.properties(dataset).items():
            builder = builder.property(key, value)
        if spec.comment:
            builder = builder.comment(spec.comment)
        if spec.partition_columns:
            builder = builder.partitionedBy(*spelled_as_in(dataset.table_schema, spec.partition_columns))
        if spec.cluster_by:
            builder = builder.clusterBy(*spelled_as_in(dataset.table_schema, spec.cluster_by))
        builder.execute()

    def check_owner(self, dataset: DatasetSpec, address: TableAddress) -> None:
        """Check that a table belongs to this pipeline and this storage, before its rows are replaced.

        Raises:
            OperationError: TABLE_NOT_OWNED, TABLE_OF_OTHER_STORAGE.
        """
        self._check_pipeline(dataset, address)
        other = self.other_storage(dataset.name, str(address.path))
        if other:
            raise OperationError(
                "TABLE_OF_OTHER_STORAGE", location=dataset.location, dataset=dataset.name, path=address.path,
                other=other, root=self.storage.root,
                statement=address.given_to(self.storage.root),
            )  # fmt: skip

    def _check_pipeline(self, dataset: DatasetSpec, address: TableAddress) -> None:
        if self.exists(address) and not self._is_recorded(self.record(dataset.name), address):
            self.check_ours(dataset.name, str(address.path), dataset.location)

    def check_ours(self, name: QualifiedName, path: str, location: SourceLocation | None) -> None:
        """Check that the table at a path, if there is one, belongs to this pipeline.

        Raises:
            OperationError: TABLE_NOT_OWNED.
        """
        address = TableAddress(path=path)
        owner = self._owner(address) if self.exists(address) else self.pipeline
        if owner != self.pipeline:
            raise OperationError(
                "TABLE_NOT_OWNED", location=location, dataset=name, path=path, owner=_owner_text(owner), advice=""
            )

    def _owner(self, address: TableAddress) -> str | None:
        """Return the pipeline in a table's owner property; None if there is no such property."""
        return self.metadata(address).properties.get(OWNER_PROPERTY)

    def metadata(self, address: TableAddress) -> LogTip:
        """Return the metadata of an existing table, from its log or, if no small log file has it, by a query."""
        tip = read_tip(self.storage, str(address.path))
        if tip is not None and tip.table_id is not None:
            return tip
        detail = self._detail(address).asDict()
        return tip_of(-1, {**detail, "configuration": detail["properties"]})

    def _detail(self, address: TableAddress) -> Row:
        with unguarded():  # the owner check also runs inside query functions
            detail = DeltaTable.forPath(self.spark, str(address.path)).detail().first()
        assert detail is not None
        return detail

    def _adopt(
        self, dataset: GraphDataset, address: TableAddress, auxiliary: TableAddress, planned: SchemaChange | None
    ) -> None:
        self.check_ours(dataset.name, str(address.path), dataset.spec.location)
        stored = self.metadata(address)
        if not are_equal(stored.partition_columns, dataset.spec.partition_columns):
            raise OperationError(
                "PARTITIONING_CHANGED",
                location=dataset.spec.location,
                dataset=dataset.name,
                stored=", ".join(stored.partition_columns) or "nothing",
                wanted=", ".join(dataset.spec.partition_columns) or "nothing",
            )
        change_columns(self.spark, dataset, address, planned, self.metadata)
        if dataset.widens and dataset.cdc is not None and self.exists(auxiliary):
            widen_columns(self.spark, dataset, auxiliary, auxiliary_schema(dataset.cdc), self.metadata)
        self._set_properties(self.properties(dataset), address, stored.properties)
        if dataset.spec.comment and dataset.spec.comment != stored.comment:
            self._sql(f"COMMENT ON TABLE {address.sql} IS {string_literal(dataset.spec.comment)}")
        self.cluster(dataset, address)

    def cluster(self, dataset: GraphDataset, address: TableAddress) -> None:
        """Set the clustering columns of an existing table; `OPTIMIZE` clusters its rows."""
        wanted = spelled_as_in(dataset.table_schema, dataset.spec.cluster_by)
        if wanted and list(wanted) != self._detail(address)["clusteringColumns"]:
            self._sql(f"ALTER TABLE {address.sql} CLUSTER BY ({', '.join(wanted)})")

    def _set_properties(self, wanted: Mapping[str, str], address: TableAddress, stored: Mapping[str, str]) -> None:
        changed = {key: value for key, value in wanted.items() if stored.get(key) != value}
        if changed:
            pairs = (f"{string_literal(key)} = {string_literal(value)}" for key, value in sorted(changed.items()))
            self._sql(f"ALTER TABLE {address.sql} SET TBLPROPERTIES ({', '.join(pairs)})")

    def properties(self, dataset: GraphDataset) -> dict[str, str]:
        """Return the table's properties: the owners, AUTO CDC and column defaults, overridden by the user's."""
        engine = {OWNER_PROPERTY: self.pipeline, **self._own_mark(dataset.name, self.path(dataset.spec))}
        if dataset.cdc is not None:
            engine |= table_properties(dict(dataset.spec.table_properties))
        if dataset.kind is not DatasetKind.MATERIALIZED_VIEW:  # a view has the defaults as values
            engine |= property_of_defaults(dataset.table_schema)
        return {**engine, **dict(dataset.spec.table_properties)}

    def delete_rows(self, address: TableAddress) -> None:
        """Remove all rows in one commit."""
        DeltaTable.forPath(self.spark, str(address.path)).delete()

    def _sql(self, statement: str) -> None:
        run_statement(self.spark, statement)

    def check_readable(self, dataset: DatasetSpec) -> None:
        """Check that a dataset has a table and that it belongs to this pipeline.

        Raises:
            OperationError: DATASET_NOT_MATERIALIZED, TABLE_NOT_OWNED.
        """
        address = self.address(dataset)
        if not self.exists(address):
            raise OperationError("DATASET_NOT_MATERIALIZED", dataset=dataset.name, location=dataset.location)
        self._check_pipeline(dataset, address)

    def frame(self, spec: DatasetSpec) -> DataFrame:
        """Return the rows of a dataset's table without hidden columns."""
        return self.spark.read.format("delta").load(self.path(spec)).drop(HIDDEN_COLUMN)


def _describes(record: TableRecord, address: TableAddress, tip: LogTip | None) -> bool:
    """Whether a record describes the table at an address.

    The table may have been replaced, or the dataset may now have the path of another table. In both cases only the
    table's own properties identify its owner. A table without an id is matched by its path.
    """
    if record.path != address.path:
        return False
    return record.table_id is None or (tip is not None and tip.table_id == record.table_id)


def _owner_text(owner: str | None) -> str:
    return f"pipeline {owner}" if owner else "an unknown owner"
