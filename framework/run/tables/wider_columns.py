"""Types that a stored table does not have yet: wider ones of its columns, and those that need a feature of Delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from delta import DeltaTable
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from framework.cdc.model.columns import find_field, quote
from framework.foundation.failpoints import failpoint
from framework.foundation.wider_types import WIDENING_PROPERTY, wider_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.table_address import TableAddress


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


def widen_columns(spark: SparkSession, address: TableAddress, wanted: StructType) -> None:
    """Widen the columns of a table whose wanted types are wider; others stay. Idempotent.

    The property that allows it comes first, so that a table which never needs it keeps its protocol. A crash in between
    is safe: the next call widens the columns.

    Args:
        spark: changes the table.
        address: the table, which exists.
        wanted: the columns, with names as in the table or in another case.
    """
    stored = spark.read.format("delta").load(str(address.path)).schema
    changes = [
        f"{path} TYPE {wide.simpleString()}"
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
    session.sql(f"ALTER TABLE {address.sql} ALTER COLUMN {', '.join(changes)}")


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
        match = find_field(other, field.name)
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
