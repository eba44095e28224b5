"""What a dataset's table was last brought to, kept as a small file so that an idle update need not open it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from framework.foundation.names import QualifiedName
from framework.foundation.storage import Storage
from framework.graph.graph import GraphDataset
from framework.run.layout import StorageLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """The definition a table was brought to.

    Args:
        definition: hash of everything that shapes the table.
        schema: JSON of the table's columns, those that readers don't see included.
        partition_columns: how it is partitioned, which can't change without a rebuild.
    """

    definition: str
    schema: str
    partition_columns: tuple[str, ...] = ()


def definition_of(dataset: GraphDataset) -> str:
    """A hash of all that shapes a dataset's table; the query is not part of it."""
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
    """The record of a dataset's table; None when there is none."""
    text = storage.read_text(layout.record(name))
    if text is None:
        return None
    found = json.loads(text)
    return TableRecord(
        definition=found["definition"],
        schema=found["schema"],
        partition_columns=tuple(found["partition_columns"]),
    )


def write_record(storage: Storage, layout: StorageLayout, name: QualifiedName, record: TableRecord) -> None:
    """Replace the record. It is written after the table, so a missing one only means to look at the table again."""
    storage.write_text(layout.record(name), json.dumps(asdict(record), indent=1))
