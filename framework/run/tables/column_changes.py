"""Schema evolution of stored tables: added columns, wider types, and types that need a Delta table feature."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from delta import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from framework.cdc.model.columns import quote
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.engine.sessions.session import run_statement
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.schema.change import ColumnChange, SchemaChange, schema_change
from framework.schema.data_types import merge_schemas
from framework.schema.lattice import GROWN_TABLE, WIDENING_PROPERTY
from framework.sources.delta.log import LogTip, read_tip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.files.storage import Storage
    from framework.foundation.table_address import TableAddress
    from framework.graph.graph import GraphDataset


_CONSTRAINT = "delta.constraints."
"""The prefix of the properties with the expressions of a table's CHECK constraints."""

_Metadata = Callable[["TableAddress"], LogTip]

_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""The Delta table features that columns of these types need."""


def support_types(spark: SparkSession, address: TableAddress, wanted: StructType) -> None:
    """Enable the table features for the types of columns that a table is about to get, by a property. Idempotent.

    Args:
        spark: changes the table.
        address: the table, which exists.
        wanted: the columns.
    """
    needed = features_of(wanted)
    if not needed:
        return
    detail = DeltaTable.forPath(spark, str(address.path)).detail().first()
    assert detail is not None
    missing = sorted(needed - set(detail["tableFeatures"] or ()))
    if missing:
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in feature_properties(missing).items())
        run_statement(spark, f"ALTER TABLE {address.sql} SET TBLPROPERTIES ({pairs})")


def features_of(columns: StructType) -> set[str]:
    """Return the Delta table features for the types of columns, which Delta does not enable on an existing table."""
    return {_FEATURES[kind] for kind in _kinds(columns) if kind in _FEATURES}


def feature_properties(features: Iterable[str]) -> dict[str, str]:
    """Return the properties that enable Delta table features."""
    return {f"delta.feature.{feature}": "supported" for feature in features}


def _kinds(data_type: DataType) -> Iterator[str]:
    """Yield the type names at any depth; column names are skipped, even if they read `variant`."""
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _kinds(field.dataType)
    elif isinstance(data_type, ArrayType):
        yield from _kinds(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _kinds(data_type.keyType)
        yield from _kinds(data_type.valueType)
    else:
        yield data_type.typeName()


def change_of(dataset: GraphDataset, stored: str | None) -> SchemaChange | None:
    """Return the change from a table's stored columns to its dataset's columns; None if either is unknown.

    The change includes the hidden column of AUTO CDC: see `shown`.

    Args:
        dataset: the dataset.
        stored: the columns of its table, as JSON.
    """
    if not stored or not dataset.table_schema:
        return None
    return schema_change(json.loads(stored), json.loads(dataset.table_schema))


def shown(change: SchemaChange) -> SchemaChange:
    """Return a change without the hidden column of AUTO CDC, as a plan shows it."""
    return change.without(HIDDEN_COLUMN)


def check_stored(storage: Storage, path: str, dataset: GraphDataset, planned: SchemaChange | None) -> None:
    """Check that a table's column change is the planned one, before its rows are replaced; unknown columns pass.

    Args:
        storage: reads the log of the table.
        path: the table.
        dataset: the dataset of the table.
        planned: the change in the plan; None if the columns were unknown.

    Raises:
        OperationError: TABLE_CHANGED_SINCE_PLAN.
    """
    tip = None if planned is None else read_tip(storage, path)
    if tip is not None and tip.schema and dataset.table_schema:
        check_replaced(dataset, planned, tip.schema, dataset.table_schema)


def check_replaced(dataset: GraphDataset, planned: SchemaChange | None, stored: str, written: str) -> None:
    """Check that the columns that replace those of a table change them as planned.

    Args:
        dataset: the dataset of the table.
        planned: the change in the plan; None if the columns were unknown.
        stored: the columns of the table, as JSON.
        written: the columns that replace them, as JSON.

    Raises:
        OperationError: TABLE_CHANGED_SINCE_PLAN.
    """
    if planned is not None:
        _check_planned(dataset, schema_change(json.loads(stored), json.loads(written)), planned)


def check_fits(storage: Storage, path: str, dataset: GraphDataset) -> None:
    """Check that a table has the columns of its flow, before the flow writes; unknown columns pass.

    The step that sets the table up has made all planned changes before. Delta's sink would add what is missing since.

    Raises:
        OperationError: TABLE_CHANGED_SINCE_PLAN.
    """
    tip = read_tip(storage, path)
    change = change_of(dataset, None if tip is None else tip.schema)
    if change is not None:
        _check_planned(dataset, _needed(dataset, change), SchemaChange())


def _needed(dataset: GraphDataset, change: SchemaChange) -> SchemaChange:
    """Return the part of a change that the flows of a streaming table need, including what no step changes."""
    return replace(change.gained(widens=dataset.widens), retyped=change.conflicts(widens=dataset.widens))


def _check_planned(dataset: GraphDataset, change: SchemaChange, planned: SchemaChange) -> None:
    """Check that a plan contains the whole change; an update that died may have made a part of it already.

    Raises:
        OperationError: TABLE_CHANGED_SINCE_PLAN.
    """
    if not shown(change).is_part_of(planned):
        raise OperationError(
            "TABLE_CHANGED_SINCE_PLAN",
            location=dataset.spec.location,
            dataset=dataset.name,
            change=shown(change).words(),
            planned=planned.words() or "changes no column",
        )


def change_columns(
    spark: SparkSession, dataset: GraphDataset, address: TableAddress, planned: SchemaChange | None, metadata: _Metadata
) -> None:
    """Widen and add a table's columns, nested ones included; write nothing if there is no difference.

    Args:
        spark: changes the table.
        dataset: the dataset of the table.
        address: the existing table.
        planned: the only changes that may be made; None if no plan contains them.
        metadata: reads the table's metadata, if it has to be changed.

    Raises:
        OperationError: TABLE_CHANGED_SINCE_PLAN, CONSTRAINT_KEEPS_TYPE, GENERATED_COLUMN_KEEPS_TYPE.
    """
    change = change_of(dataset, _columns(spark, address).json())
    if change is None:
        return
    gained = change.gained(widens=dataset.widens)
    if planned is not None:
        # Conflicts, which no step resolves, are refused by the plan: one that is found here is newer. A table that is
        # altered after this check is altered at worst in part; the next plan has the rest, or refuses the table.
        _check_planned(dataset, _needed(dataset, change), planned)
    wanted = StructType.fromJson(json.loads(dataset.table_schema or ""))
    # Widen first: Delta adds no columns while others have different types.
    _widen(spark, dataset, address, gained, wanted, metadata=metadata)
    if gained.added:
        support_types(spark, address, wanted)
        empty = spark.createDataFrame([], _with_types_of(_columns(spark, address), wanted))
        empty.write.format("delta").mode("append").option("mergeSchema", "true").save(str(address.path))


def _with_types_of(stored: StructType, wanted: StructType) -> StructType:
    """Return the wanted columns with the stored types, which may be wider; `wanted` itself if a type conflicts."""
    merged = merge_schemas(stored, wanted, GROWN_TABLE)
    if merged is None:
        return wanted
    types = {field.name.lower(): field.dataType for field in merged.fields}
    fields = ((each, types[each.name.lower()]) for each in wanted.fields)
    return StructType([StructField(f.name, kind, nullable=f.nullable, metadata=f.metadata) for f, kind in fields])


def widen_columns(
    spark: SparkSession, dataset: GraphDataset, address: TableAddress, wanted: StructType, metadata: _Metadata
) -> None:
    """Widen an existing table's columns to wider wanted types; change no other column, and add none.

    Raises:
        OperationError: CONSTRAINT_KEEPS_TYPE, GENERATED_COLUMN_KEEPS_TYPE.
    """
    change = schema_change(_columns(spark, address).jsonValue(), wanted.jsonValue())
    _widen(spark, dataset, address, change, wanted, metadata=metadata)


def _columns(spark: SparkSession, address: TableAddress) -> StructType:
    return spark.read.format("delta").load(str(address.path)).schema


def _widen(
    spark: SparkSession,
    dataset: GraphDataset,
    address: TableAddress,
    change: SchemaChange,
    wanted: StructType,
    *,
    metadata: _Metadata,
) -> None:
    """Change the types of a change's widened columns.

    The table property that allows this is set only now, so that a table that never needs it keeps its protocol. A crash
    in between is safe: the next plan has the same change.

    Raises:
        OperationError: CONSTRAINT_KEEPS_TYPE if a CHECK constraint refers to such a column,
            GENERATED_COLUMN_KEEPS_TYPE if a generated column depends on one.
    """
    if not change.widened:
        return
    support_types(spark, address, wanted)
    properties = metadata(address).properties
    if properties.get(WIDENING_PROPERTY, "").lower() != "true":
        run_statement(spark, f"ALTER TABLE {address.sql} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")
        failpoint("tables.before_wider_types")
    columns = ", ".join(f"{_sql_path(each)} TYPE {each.after}" for each in change.widened)
    try:
        run_statement(spark, f"ALTER TABLE {address.sql} ALTER COLUMN {columns}")
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition.startswith("DELTA_CONSTRAINT_"):
            raise _constrained(dataset, address, properties, change.widened, error) from error
        if condition.startswith("DELTA_GENERATED_COLUMNS_"):
            raise _generating(dataset, change.widened, error) from error
        raise
    failpoint("tables.after_wider_types")


def _sql_path(column: ColumnChange) -> str:
    return ".".join(map(quote, column.path))


def _constrained(
    dataset: GraphDataset,
    address: TableAddress,
    properties: Mapping[str, str],
    changes: Sequence[ColumnChange],
    error: PySparkException,
) -> OperationError:
    """Return the error for a column with a CHECK constraint, with the statements that widen it."""
    named, listed = _named(changes, error), (error.getMessageParameters() or {}).get("constraints", "")
    checks = {key.removeprefix(_CONSTRAINT): text for key, text in properties.items() if key.startswith(_CONSTRAINT)}
    meant = {line.partition(" ->")[0].strip() for line in listed.splitlines()}
    blocking = {name: text for name, text in checks.items() if name in meant} or checks
    statements = [
        *(f"ALTER TABLE {address.sql} DROP CONSTRAINT {quote(name)}" for name in blocking),
        *(f"ALTER TABLE {address.sql} ALTER COLUMN {_sql_path(each)} TYPE {each.after}" for each in named),
        *(f"ALTER TABLE {address.sql} ADD CONSTRAINT {quote(name)} CHECK ({text})" for name, text in blocking.items()),
    ]
    return OperationError(
        "CONSTRAINT_KEEPS_TYPE",
        location=dataset.spec.location,
        dataset=dataset.name,
        columns=_listed(named),
        constraints=", ".join(f"{name} ({text})" for name, text in blocking.items()),
        statements="; ".join(statements),
    )


def _generating(dataset: GraphDataset, changes: Sequence[ColumnChange], error: PySparkException) -> OperationError:
    """Return the error for a column that a generated column depends on."""
    generated = (error.getMessageParameters() or {}).get("generatedColumns", "")
    return OperationError(
        "GENERATED_COLUMN_KEEPS_TYPE",
        location=dataset.spec.location,
        dataset=dataset.name,
        columns=_listed(_named(changes, error)),
        generated=", ".join(line.strip() for line in generated.splitlines() if line.strip()),
    )


def _named(changes: Sequence[ColumnChange], error: PySparkException) -> Sequence[ColumnChange]:
    """Return the changes of the column named in a Delta error; all changes if it names none."""
    column = (error.getMessageParameters() or {}).get("columnName", "").replace("`", "").lower()
    return [each for each in changes if each.name.replace("`", "").lower() == column] or changes


def _listed(changes: Sequence[ColumnChange]) -> str:
    return ", ".join(f"{_sql_path(each)} from {each.before} to {each.after}" for each in changes)
