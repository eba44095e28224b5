"""The types of a Delta sink's columns, which must have all values of a query whose types have become wider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from delta import DeltaTable
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, NumericType, StructType, TimestampNTZType

from framework.cdc.model.columns import find_field
from framework.foundation.errors import OperationError
from framework.foundation.wider_types import wider_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.graph.graph import GraphDataset

_WIDENED = (NumericType, DateType, TimestampNTZType)


def check_sink_types(session: SparkSession, sink: GraphDataset, found: StructType) -> None:
    """Check that the table of a Delta sink can have all values of a query, before a row is written.

    Delta converts a stream's values to the types of its table: 10.25 becomes 10 in a column of whole numbers. The table
    is the user's, so it is not altered.

    Args:
        session: reads the table's columns.
        sink: a sink of any format.
        found: the columns of the query.

    Raises:
        OperationError: SINK_TYPE_TOO_NARROW.
    """
    path = {name.lower(): value for name, value in sink.spec.options}.get("path")
    if (sink.spec.format or "").lower() != "delta" or path is None or not DeltaTable.isDeltaTable(session, path):
        return
    stored = session.read.format("delta").load(path).schema
    for column, narrow, wide in _too_narrow(stored, found):
        raise OperationError(
            "SINK_TYPE_TOO_NARROW",
            location=sink.spec.location,
            dataset=sink.name,
            path=path,
            column=column,
            stored=narrow.simpleString(),
            found=wide.simpleString(),
        )


def _too_narrow(stored: StructType, found: StructType, prefix: str = "") -> Iterator[tuple[str, DataType, DataType]]:
    """Yield the columns and fields that can't have all values of a query, each with both types."""
    for field in found.fields:
        known = find_field(stored, field.name)
        if known is not None:
            yield from _parts(known.dataType, field.dataType, f"{prefix}{known.name}")


def _parts(stored: DataType, found: DataType, path: str) -> Iterator[tuple[str, DataType, DataType]]:
    if isinstance(stored, StructType) and isinstance(found, StructType):
        yield from _too_narrow(stored, found, f"{path}.")
    elif isinstance(stored, ArrayType) and isinstance(found, ArrayType):
        yield from _parts(stored.elementType, found.elementType, f"{path}.element")
    elif isinstance(stored, MapType) and isinstance(found, MapType):
        yield from _parts(stored.keyType, found.keyType, f"{path}.key")
        yield from _parts(stored.valueType, found.valueType, f"{path}.value")
    elif isinstance(stored, _WIDENED) and isinstance(found, _WIDENED) and wider_type(stored, found) != stored:
        yield path, stored, found
