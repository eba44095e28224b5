"""Overwrites the rows and columns of a table in one commit, and keeps the rest of its definition.

Delta's option `overwriteSchema` takes the columns of a DataFrame, in which every column is nullable. The table would
lose its NOT NULL constraints, its clustering, and the defaults and comments that users gave its columns. Here the
columns are defined first, in the transaction of Delta's own write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from delta import DeltaTable

from framework.engine.delta.table_replacement import is_plain
from framework.engine.delta.table_version import DELTA, TableVersion, can_open, each, has_plain_fields, read_table
from framework.engine.jvm.java import java_class
from framework.engine.sessions.execution import active_session
from framework.foundation.computed_columns import EXPLICIT, IDENTITY, START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.engine.delta.transaction_identifiers import Batch
    from framework.foundation.table_address import TableAddress

_KEPT = ("comment", "CURRENT_DEFAULT")
"""Column metadata that users set on a table and that remains valid for different rows."""
_MAPPING = "delta.columnMapping."
ALL_PARTITIONS: Mapping[str, str] = {"partitionOverwriteMode": "static"}
"""Options that overwrite all partitions, regardless of the session's settings."""
_CLUSTERING = f"{DELTA}.skipping.clustering"


def overwrite_table(session: SparkSession, source: TableAddress, target: TableAddress, batch: Batch) -> None:
    """Replace the rows and columns of a table by the source's; a batch that was already applied is skipped.

    The columns have the types, the order and the NOT NULL constraints of the source. If a source column has no comment
    or default, the comment or default of the target's column with the same name and type is kept. Properties, CHECK
    constraints and clustering are kept. With an untested version of Delta, columns become nullable and lose their
    comments and defaults, and the table loses its clustering. A missing target, such as an auxiliary table that was not
    needed so far, is created.

    Args:
        session: reads and writes the rows.
        source: the table to read; the target gets its partition columns.
        target: the table to overwrite.
        batch: the transaction identifier of the commit.

    Raises:
        pyspark.errors.PySparkException: one of Delta's conflicts.
        py4j.protocol.Py4JJavaError: a row violates a constraint of the target.
    """
    rows = read_table(session, source)
    if can_open(target):
        with active_session(session):  # Delta reads settings from the thread's session
            version = TableVersion(session, target)
            if version.snapshot.version() >= 0:
                _commit(version, rows, TableVersion(session, source).snapshot.metadata(), batch)
                return
    detail = DeltaTable.forPath(session, str(source.path)).detail().first()
    assert detail is not None
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer = writer.options(**ALL_PARTITIONS, txnAppId=batch.application_id, txnVersion=batch.number)
    partitions = detail["partitionColumns"]
    (writer.partitionBy(*partitions) if partitions else writer).save(str(target.path))


def _commit(version: TableVersion, rows: DataFrame, definition: Any, batch: Batch) -> None:
    some, none = java_class("scala.Option").apply, java_class("scala.Option").empty()
    if version.last_batch(batch.application_id) >= batch.number:
        return
    has_numbers = IDENTITY in str(definition.schemaString())
    explicit = _files_with_numbers(version, rows, definition) if has_numbers else None
    _define_columns(version, definition)
    own = version.sequence(version.taken(batch.application_id, batch.number), *clustering(version))
    partitions, mode = definition.partitionColumns(), java_class("org.apache.spark.sql.SaveMode").Overwrite
    written = _written(version, rows, partitions) if explicit is None else _replacing(version, explicit)
    overwrites_columns = some(True)  # noqa: FBT003 - a JVM call
    operation = java_class(f"{DELTA}.DeltaOperations$Write")(
        mode, some(partitions), none, none, none, overwrites_columns, none, none, none
    )
    version.commit(written.prependedAll(own), operation)


def _written(version: TableVersion, rows: DataFrame, partitions: Any) -> Any:
    """Write the rows, and return the actions that replace all files by the new files, a Scala `Seq`.

    Delta's command lists the files that it removes by queries over the log (ADR 49). If no feature of the table
    is affected, the list is read from the checksum file of the last commit instead.
    """
    files, transaction = version.listed_files(), version.transaction
    columns = json.loads(transaction.metadata().schemaString())
    if files is None or not (is_plain(version.snapshot) and has_plain_fields(columns)):
        return version.write(rows, mode="Overwrite", options=ALL_PARTITIONS, partitions=partitions)
    transaction.readWholeTable()  # a concurrent commit of another writer is a conflict
    added, now = version.write_files(rows), version.now()
    removed = [file.removeWithTimestamp(now, True) for file in each(files)]  # noqa: FBT003 - a JVM call
    version.set_metrics({"numRemovedFiles": len(removed), "numRemovedBytes": version.listed_bytes()})
    return version.sequence(*each(added), *removed)


def _files_with_numbers(version: TableVersion, rows: DataFrame, definition: Any) -> Any:
    """Write rows with explicit identity values to new files; return the actions that add the files.

    Delta refuses explicit values for `GENERATED ALWAYS`. So the files are written by a transaction that is never
    committed, in which the columns accept values. With column mapping, both this transaction and the commit define the
    physical names.
    """
    scratch = version.log.startTransaction()
    stored = version.snapshot.metadata()
    columns = _struct(json.loads(definition.schemaString()), json.loads(stored.schemaString()))
    for field in columns["fields"]:
        field["metadata"] |= {EXPLICIT: True} if START in field["metadata"] else {}
    scratch.updateMetadataForTableOverwrite(_metadata(stored, columns, definition.partitionColumns()))
    return scratch.writeFiles(rows._jdf)


def _replacing(version: TableVersion, added: Any) -> Any:
    """Return the actions that replace all files by new files, a Scala `Seq`."""
    version.transaction.readWholeTable()  # a concurrent commit of another writer is a conflict
    now, present = version.now(), version.transaction.filterFiles()
    removed = [file.removeWithTimestamp(now, True) for file in each(present)]  # noqa: FBT003 - a JVM call
    version.set_metrics({"numRemovedFiles": len(removed)})
    return version.sequence(*each(added), *removed)


def _metadata(stored: Any, columns: dict[str, Any], partitions: Any) -> Any:
    """Return the metadata of a table with new columns."""
    return stored.copy(
        stored.id(),
        stored.name(),
        stored.description(),
        stored.format(),
        json.dumps(columns),
        partitions,
        stored.configuration(),
        stored.createdTime(),
    )


def _define_columns(version: TableVersion, definition: Any) -> None:
    stored = version.snapshot.metadata()
    columns = _struct(json.loads(definition.schemaString()), json.loads(stored.schemaString()))
    version.transaction.updateMetadataForTableOverwrite(_metadata(stored, columns, definition.partitionColumns()))


def _struct(struct: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return a struct (as in a schema's JSON) with the metadata that is kept from the stored struct."""
    known = {field["name"].lower(): field for field in stored["fields"]}
    return {**struct, "fields": [_field(field, known.get(field["name"].lower())) for field in struct["fields"]]}


def _field(field: dict[str, Any], stored: dict[str, Any] | None) -> dict[str, Any]:
    # Column mapping keeps the target's names and ids; Delta adds them for new columns.
    metadata = {key: value for key, value in field["metadata"].items() if not key.startswith(_MAPPING)}
    if stored is None:
        stored = {"type": None, "metadata": {}}
    kind, before = field["type"], stored["type"]
    if _is_struct(kind):
        kind = _struct(kind, before if _is_struct(before) else {"fields": []})
    if _is_struct(before) if _is_struct(kind) else before == kind:
        metadata = {**{key: stored["metadata"][key] for key in _KEPT if key in stored["metadata"]}, **metadata}
    return {**field, "type": kind, "metadata": metadata}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, dict) and kind["type"] == "struct"


def clustering(version: TableVersion) -> Iterator[Any]:
    """Yield the actions that keep clustering; none if the table has partitions or lacks a clustering column."""
    tables = java_class(f"{_CLUSTERING}.ClusteredTableUtils")
    is_possible = tables.isSupported(version.snapshot.protocol())  # else there is nothing to compute the state for
    if not (is_possible and tables.getClusteringColumnsOptional(version.snapshot).isDefined()):
        return
    names = [
        str(name)
        for name in each(java_class(f"{_CLUSTERING}.ClusteringColumnInfo").extractLogicalNames(version.snapshot))
    ]
    columns = json.loads(version.transaction.metadata().schemaString())
    has_partitions = version.transaction.metadata().partitionColumns().nonEmpty()
    is_kept = not has_partitions and all(_has(columns, name.lower()) for name in names)
    kept = version.sequence(*(names if is_kept else ()))
    yield from each(tables.getClusteringDomainMetadataForAlterTableClusterBy(kept, version.transaction))


def _has(struct: dict[str, Any], path: str) -> bool:
    """Return whether a struct has a field at a path, whose names may contain dots."""
    for field in struct["fields"]:
        name, kind = field["name"].lower(), field["type"]
        if path == name or (_is_struct(kind) and path.startswith(f"{name}.") and _has(kind, path[len(name) + 1 :])):
            return True
    return False
