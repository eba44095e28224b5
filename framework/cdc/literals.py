"""Literals of computed values; a value does not leave the JVM.

Python has no value for a text that is not valid UTF-8, nor for a date before year 1 or after year 9999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.classic.column import Column as ClassicColumn

from framework.cdc.expressions import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CATALYST = "org.apache.spark.sql.catalyst.expressions"


def struct_literal(frame: DataFrame) -> Column:
    """The literal of the one struct that a frame holds: one job.

    Args:
        frame: one row with one column, a struct.
    """
    (field,) = frame._jdf.schema().fields()
    row = frame._jdf.queryExecution().executedPlan().executeCollect()[0]
    # A struct stays a handle in Python; Py4J converts a number or a text to a value of Python's.
    struct = row.getStruct(0, field.dataType().length())
    literal = java_class(f"{_CATALYST}.Literal")(struct, field.dataType())
    return ClassicColumn(java_class("org.apache.spark.sql.classic.ExpressionUtils").column(literal))
