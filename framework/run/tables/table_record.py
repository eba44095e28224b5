"""The record of a table's last applied definition: a small file that lets an idle update skip opening the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from framework.cdc.model.reserved_names import AUXILIARY_PREFIX
from framework.checkpoints.generations import folder_name
from framework.engine.files.storage import open_storage
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage
from framework.foundation.files.storage_port import present_path
from framework.foundation.files.stored_format import UNUSABLE, StoredFormat
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import real_path
from framework.graph.graph import GraphDataset
from framework.plan.state import TableKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_FORMAT = StoredFormat(1)
_WRITTEN_AGAIN = " Or delete it: the next update reads the table, and writes it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """The last applied definition of a table.

    Args:
        dataset: the dataset's name.
        path: the table's folder.
        definition: hash of the table's definition.
        schema: JSON of the table's columns, hidden columns included.
        pipeline: the pipeline that created it.
        kind: how rows come into the table.
        table_id: Delta's id of the table; None if it was unknown.
        partition_columns: the partition columns, which can't change without a rebuild.
        written_in: the root of the storage from which this one was moved or copied with the record; empty if there is
            none.
        written_path: the table's folder in the record; differs from `path` if the other storage still has the table.
    """

    dataset: QualifiedName
    path: str
    definition: str
    schema: str
    pipeline: str
    kind: TableKind
    table_id: str | None = None
    partition_columns: tuple[str, ...] = ()
    written_in: str = ""
    written_path: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether the table did not move or get copied with the storage, so that another storage may own it."""
        return bool(self.written_in) and real_path(self.written_path) == real_path(self.path)


def definition_of(dataset: GraphDataset) -> str:
    """Return a hash of the definition of a dataset's table, not including the query."""
    spec = dataset.spec
    parts = {
        "schema": dataset.table_schema,
        "comment": spec.comment,
        "properties": sorted(spec.table_properties),
        "partition": spec.partition_columns,
        "cluster": spec.cluster_by,
        "cluster_auto": spec.cluster_by_auto,
        "path": spec.path,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def read_record(storage: Storage, layout: StorageLayout, name: QualifiedName) -> TableRecord | None:
    """Read the record of a dataset's table; None if there is none.

    Raises:
        OperationError: STORED_FILE_DAMAGED, STORED_FORMAT_UNKNOWN.
    """
    return _FORMAT.read(storage, layout.record(name), lambda found: _parse(found, layout), remedy=_WRITTEN_AGAIN)


def original_root(record: TableRecord, path: str, spark: SparkSession) -> str:
    """Return the root of the storage from which a record was copied, if that storage has the table at a path; else "".

    A moved storage leaves nothing at its former root. A storage that can't be read counts as moved.
    """
    if not record.written_in or real_path(record.written_path) != real_path(path):
        return ""
    try:
        return record.written_in if _is_still_there(record, spark) else ""
    except OperationError as error:
        return record.written_in if error.condition in UNUSABLE else ""


def _is_still_there(record: TableRecord, spark: SparkSession) -> bool:
    """Whether the storage in which a record was written still has the record's table.

    Raises:
        OperationError: that storage, or its record of the table, can't be read.
    """
    storage = open_storage(record.written_in, spark)
    found = read_record(storage, StorageLayout(storage=storage), record.dataset)
    return found is not None and real_path(found.path) == real_path(record.written_path)


def recorded_names(storage: Storage, layout: StorageLayout) -> tuple[QualifiedName, ...]:
    """Return the names of the tables that have a record, sorted; files with other names are ignored."""
    names = (_named(file) for file in storage.list_names(layout.records) if file.endswith(".json"))
    return tuple(sorted(name for name in names if name is not None))


def read_records(
    storage: Storage, layout: StorageLayout, besides: Collection[QualifiedName]
) -> tuple[TableRecord, ...]:
    """Read the records of all tables, sorted by name, except those in `besides`.

    Raises:
        OperationError: STORED_FILE_DAMAGED, STORED_FORMAT_UNKNOWN.
    """
    names = [name for name in recorded_names(storage, layout) if name not in besides]
    found = (read_record(storage, layout, name) for name in names)
    return tuple(sorted((record for record in found if record is not None), key=lambda record: record.dataset))


def write_record(storage: Storage, layout: StorageLayout, record: TableRecord) -> None:
    """Replace the record. It is written after the table, so a missing record only costs a read of the table."""
    content = {**asdict(record), "storage": storage.root}
    del content["written_in"], content["written_path"]
    storage.write_text(layout.record(record.dataset), _FORMAT.text(content, indent=1))


def _named(file: str) -> QualifiedName | None:
    """Return the dataset name in a record's file name; only its last part may contain a dot. None for other files."""
    parts = file.removesuffix(".json").split(".", maxsplit=2)
    return QualifiedName(catalog=parts[0], schema=parts[1], table=parts[2]) if len(parts) == 3 else None


def _parse(found: dict[str, Any], layout: StorageLayout) -> TableRecord:
    json.loads(found["schema"])  # an invalid schema is also damage
    stored, root = found["path"], found["storage"]
    path = present_path(layout.storage, stored, root)
    is_other = real_path(root) != real_path(layout.storage.root)
    return TableRecord(
        dataset=QualifiedName(**found["dataset"]),
        path=path or stored,
        definition=found["definition"],
        schema=found["schema"],
        pipeline=found["pipeline"],
        kind=TableKind(found["kind"]),
        table_id=found["table_id"],
        partition_columns=tuple(found["partition_columns"]),
        written_in=root if is_other else "",
        written_path=stored if is_other else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLayout:
    """Paths below the storage root, in the form that Spark accepts.

    ::

        tables/<catalog>/<schema>/<table>      datasets that other readers find by path
        private/<catalog>/<schema>/<table>     private datasets
        rebuilds/<dataset>/<n>/table           a full refresh that is not published yet
        backups/<dataset>/<n>/                 see `checkpoints.backups`
        records/<dataset>.json                 the last applied definition of a table
        prunes/<dataset>.json                  the mark of a table that is being deleted
        checkpoints/<dataset>/<flow>/<n>       see the package `checkpoints`
        staged/<dataset>/<flow>/               files of a snapshot, see `staged_snapshot`
        events/<update>.jsonl                  see the package `record`
    """

    storage: Storage

    def table(self, name: QualifiedName, *, private: bool = False) -> str:
        """Return the folder of a dataset's table."""
        return self.storage.path("private" if private else "tables", name.catalog, name.schema, name.table)

    def auxiliary(self, name: QualifiedName) -> str:
        """Return the folder of AUTO CDC's auxiliary table of a target."""
        return self.storage.path("tables", name.catalog, name.schema, f"{AUXILIARY_PREFIX}{name.table}")

    def rebuilds(self, name: QualifiedName) -> str:
        """Return the folder of a dataset's rebuilds."""
        return self.storage.path("rebuilds", str(name))

    def staged(self, name: QualifiedName, flow: QualifiedName | None = None) -> str:
        """Return the folder of the staged files of a dataset, or of one of its flows."""
        return self.storage.path("staged", folder_name(name), *(() if flow is None else (folder_name(flow),)))

    def rebuild(self, name: QualifiedName, number: int) -> str:
        """Return the folder of a rebuild."""
        return self.storage.path("rebuilds", str(name), str(number))

    @property
    def records(self) -> str:
        """The folder of all records."""
        return self.storage.path("records")

    def record(self, name: QualifiedName) -> str:
        """Return the path of a table's record."""
        return self.storage.path("records", f"{name}.json")
