"""Catalyst expressions for which PySpark has no function, as PySpark columns, and their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

from framework.engine.jvm.java import java_class, scala_items, scala_object

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_BRIDGE = "org.apache.spark.sql.classic.ExpressionUtils"


def bloom_filter(source: DataFrame, hashed: Column, *, items: int, bits: int) -> Column:
    """Return the Bloom filter of row hashes, as a scalar subquery.

    Args:
        source: the rows.
        hashed: the hash of a row, a BIGINT.
        items: the estimated number of rows.
        bits: the number of bits.
    """
    bridge = java_class(_BRIDGE)
    sizes = (_long(items), _long(bits))
    aggregate = java_class(f"{_CATALYST}.aggregate.BloomFilterAggregate")(bridge.expression(hashed._jc), *sizes)
    return source.select(ClassicColumn(bridge.column(aggregate.toAggregateExpression()))).scalar()


def might_contain(bits: Column, hashed: Column) -> Column:
    """Return whether a Bloom filter may contain a hash."""
    bridge = java_class(_BRIDGE)
    test = java_class(f"{_CATALYST}.BloomFilterMightContain")
    return ClassicColumn(bridge.column(test(bridge.expression(bits._jc), bridge.expression(hashed._jc))))


def _long(number: int) -> Any:
    return java_class(_BRIDGE).expression(F.lit(number).cast("bigint")._jc)


def struct_literal(frame: DataFrame) -> Column:
    """Return a literal of the only value in a frame: one job.

    Args:
        frame: one row with one struct column.
    """
    (field,) = frame._jdf.schema().fields()
    row = frame._jdf.queryExecution().executedPlan().executeCollect()[0]
    # A struct stays a JVM handle in Python; Py4J converts a number or a text to a Python value.
    struct = row.getStruct(0, field.dataType().length())
    literal = java_class(f"{_CATALYST}.Literal")(struct, field.dataType())
    return ClassicColumn(java_class(_BRIDGE).column(literal))


def variant_bytes(value: Column, part: Literal["value", "metadata"]) -> Column:
    """Return the encoded value or the dictionary of a variant; SQL has no function that returns them."""
    bridge = java_class(_BRIDGE)
    binary = scala_object("org.apache.spark.sql.types.BinaryType")
    nothing = scala_object("scala.collection.immutable.Nil")
    invoke = java_class(f"{_CATALYST}.objects.Invoke")
    method = {"value": "getValue", "metadata": "getMetadata"}[part]
    # No arguments; the call propagates null, its result is nullable, and it is deterministic.
    called = invoke(bridge.expression(value._jc), method, binary, nothing, nothing, *(True, True, True))
    return ClassicColumn(bridge.column(called))


def constant_text(expression: Any) -> str | None:
    """Return the value of a constant expression as a string; None if it is NULL or not constant."""
    while expression.nodeName() == "Alias":
        expression = expression.child()
    value = expression.value() if expression.nodeName() == "Literal" else None
    return None if value is None else str(value.toString())


def identity(attribute: Any) -> int:
    """Return the identifier of a column in a plan."""
    return int(attribute.exprId().id())


def parts_of(expression: Any) -> list[Any]:
    """Return the children of an expression."""
    return scala_items(expression.children())
