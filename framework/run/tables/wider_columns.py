"""Types that a stored table does not have yet: wider ones of its columns, and those that need a feature of Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from delta import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from framework.cdc.model.columns import match_field, quote
from framework.engine.sessions.session import run_statement
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.wider_types import WIDENING_PROPERTY, wider_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.table_address import TableAddress
    from framework.graph.graph import GraphDataset
    from framework.sources.delta.log import LogTip


_CONSTRAINT = "delta.constraints."
"""The prefix of the properties that have the expressions of a table's CHECK constraints."""

_Change = tuple[str, DataType, DataType]
"""The path of a column or field as SQL, its stored type, and the wider one."""

_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
"""The features of Delta without which a table has no column of a type."""


def support_types(spark: SparkSession, address: TableAddress, wanted: StructType) -> None:
    """Let a table have the types of columns that it is about to get: Delta asks for that by a property. Idempotent.

    Args:
        spark: changes the table.
        address: the table, which exists.
        wanted: the columns.
    """
    needed = {_FEATURES[kind] for kind in _kinds(wanted) if kind in _FEATURES}
    if not needed:
        return
    detail = DeltaTable.forPath(spark, str(address.path)).detail().first()
    assert detail is not None
    missing = sorted(needed - set(detail["tableFeatures"] or ()))
    if missing:
        pairs = ", ".join(f"'delta.feature.{feature}' = 'supported'" for feature in missing)
        run_statement(spark, f"ALTER TABLE {address.sql} SET TBLPROPERTIES ({pairs})")


def _kinds(data_type: DataType) -> Iterator[str]:
    """Yield the names of the types at any depth; names of columns are none, even if they read `variant`."""
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


def widen_columns(
    spark: SparkSession, address: TableAddress, wanted: StructType, *, dataset: GraphDataset,
    metadata: Callable[[TableAddress], LogTip],
) -> None:  # fmt: skip
    """Widen the columns of a table whose wanted types are wider; others stay. Idempotent.

    The property that allows it comes first, so that a table which never needs it keeps its protocol. A crash in between
    is safe: the next call widens the columns.

    Args:
        spark: changes the table.
        address: the table, which exists.
        wanted: the columns, with names as in the table or in another case.
        dataset: the dataset of the table, for the error.
        metadata: reads the metadata of the table, if it has to be changed.

    Raises:
        OperationError: CONSTRAINT_KEEPS_TYPE if a CHECK constraint refers to such a column,
            GENERATED_COLUMN_KEEPS_TYPE if a generated column depends on one.
    """
    stored = spark.read.format("delta").load(str(address.path)).schema
    changes = [
        (path, narrow, wide)
        for path, narrow, wide in common_leaves(stored, wanted, quote)
        if narrow != wide and wider_type(narrow, wide) == wide
    ]
    if not changes:
        return
    support_types(spark, address, wanted)
    properties = metadata(address).properties
    if properties.get(WIDENING_PROPERTY, "").lower() != "true":
        run_statement(spark, f"ALTER TABLE {address.sql} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")
        failpoint("tables.before_wider_types")
    columns = ", ".join(f"{path} TYPE {kind.simpleString()}" for path, _, kind in changes)
    try:
        run_statement(spark, f"ALTER TABLE {address.sql} ALTER COLUMN {columns}")
    except PySparkException as error:
        condition = error.getCondition() or ""
        if condition.startswith("DELTA_CONSTRAINT_"):
            raise _constrained(dataset, address, properties, changes, error) from error
        if condition.startswith("DELTA_GENERATED_COLUMNS_"):
            raise _generating(dataset, changes, error) from error
        raise
    failpoint("tables.after_wider_types")


def _constrained(
    dataset: GraphDataset, address: TableAddress, properties: Mapping[str, str], changes: Sequence[_Change],
    error: PySparkException,
) -> OperationError:  # fmt: skip
    """Return the error for a column with a CHECK constraint, with the statements that make it wider."""
    named, listed = _named(changes, error), (error.getMessageParameters() or {}).get("constraints", "")
    checks = {key.removeprefix(_CONSTRAINT): text for key, text in properties.items() if key.startswith(_CONSTRAINT)}
    meant = {line.partition(" ->")[0].strip() for line in listed.splitlines()}
    blocking = {name: text for name, text in checks.items() if name in meant} or checks
    statements = [
        *(f"ALTER TABLE {address.sql} DROP CONSTRAINT {quote(name)}" for name in blocking),
        *(f"ALTER TABLE {address.sql} ALTER COLUMN {path} TYPE {kind.simpleString()}" for path, _, kind in named),
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


def _generating(dataset: GraphDataset, changes: Sequence[_Change], error: PySparkException) -> OperationError:
    """Return the error for a column that generated columns depend on."""
    generated = (error.getMessageParameters() or {}).get("generatedColumns", "")
    return OperationError(
        "GENERATED_COLUMN_KEEPS_TYPE",
        location=dataset.spec.location,
        dataset=dataset.name,
        columns=_listed(_named(changes, error)),
        generated=", ".join(line.strip() for line in generated.splitlines() if line.strip()),
    )


def _named(changes: Sequence[_Change], error: PySparkException) -> Sequence[_Change]:
    """Return the changes of the column that an error of Delta names; all of them if it names none."""
    column = (error.getMessageParameters() or {}).get("columnName", "").replace("`", "").lower()
    return [each for each in changes if each[0].replace("`", "").lower() == column] or changes


def _listed(changes: Sequence[_Change]) -> str:
    return ", ".join(f"{path} from {old.simpleString()} to {new.simpleString()}" for path, old, new in changes)


def common_leaves(
    stored: StructType, other: StructType, spelled: Callable[[str], str] = str, prefix: str = ""
) -> Iterator[tuple[str, DataType, DataType]]:
    """Yield what two schemas have in the same place, other than structs, arrays and maps: its path and both types.

    Args:
        stored: columns, whose names are in the path.
        other: columns, with names in any case.
        spelled: how a name is written in the path.
        prefix: of the paths.
    """
    for field in stored.fields:
        match = match_field(other, field.name)
        if match is not None:
            yield from _common_parts(field.dataType, match.dataType, spelled, f"{prefix}{spelled(field.name)}")


def _common_parts(
    stored: DataType, other: DataType, spelled: Callable[[str], str], path: str
) -> Iterator[tuple[str, DataType, DataType]]:
    if isinstance(stored, StructType) and isinstance(other, StructType):
        yield from common_leaves(stored, other, spelled, f"{path}.")
    elif isinstance(stored, ArrayType) and isinstance(other, ArrayType):
        yield from _common_parts(stored.elementType, other.elementType, spelled, f"{path}.element")
    elif isinstance(stored, MapType) and isinstance(other, MapType):
        yield from _common_parts(stored.keyType, other.keyType, spelled, f"{path}.key")
        yield from _common_parts(stored.valueType, other.valueType, spelled, f"{path}.value")
    else:
        yield path, stored, other
