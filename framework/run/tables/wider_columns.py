"""Types that a stored table does not have yet: wider ones of its columns, and those that need a feature of Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from delta import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from framework.cdc.model.columns import match_field, quote
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.foundation.wider_types import WIDENING_PROPERTY, wider_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.table_address import TableAddress
    from framework.graph.graph import GraphDataset


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
        session: Any = spark._jsparkSession
        session.sql(f"ALTER TABLE {address.sql} SET TBLPROPERTIES ({pairs})")


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


def widen_columns(spark: SparkSession, address: TableAddress, wanted: StructType, *, dataset: GraphDataset) -> None:
    """Widen the columns of a table whose wanted types are wider; others stay. Idempotent.

    The property that allows it comes first, so that a table which never needs it keeps its protocol. A crash in between
    is safe: the next call widens the columns.

    Args:
        spark: changes the table.
        address: the table, which exists.
        wanted: the columns, with names as in the table or in another case.
        dataset: the dataset of the table, for the error.

    Raises:
        OperationError: CONSTRAINT_KEEPS_TYPE if a CHECK constraint refers to such a column.
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
    session: Any = spark._jsparkSession
    detail = DeltaTable.forPath(spark, str(address.path)).detail().first()
    assert detail is not None
    if detail["properties"].get(WIDENING_PROPERTY, "").lower() != "true":
        session.sql(f"ALTER TABLE {address.sql} SET TBLPROPERTIES ('{WIDENING_PROPERTY}' = 'true')")
        failpoint("tables.before_wider_types")
    columns = ", ".join(f"{path} TYPE {kind.simpleString()}" for path, _, kind in changes)
    try:
        session.sql(f"ALTER TABLE {address.sql} ALTER COLUMN {columns}")
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("DELTA_CONSTRAINT_"):
            raise
        raise _constrained(dataset, address, detail["properties"], changes, error) from error
    failpoint("tables.after_wider_types")


def _constrained(
    dataset: GraphDataset, address: TableAddress, properties: dict[str, str], changes: Sequence[_Change],
    error: PySparkException,
) -> OperationError:  # fmt: skip
    """Return the error for a column with a CHECK constraint, with the statements that make it wider."""
    found = error.getMessageParameters() or {}
    column, listed = found.get("columnName", "").replace("`", ""), found.get("constraints", "")
    # Delta names one of the columns; without a name, all of them are meant.
    named = [each for each in changes if each[0].replace("`", "").lower() == column.lower()] or changes
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
        columns=", ".join(f"{path} from {old.simpleString()} to {new.simpleString()}" for path, old, new in named),
        constraints=", ".join(f"{name} ({text})" for name, text in blocking.items()),
        statements="; ".join(statements),
    )


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
