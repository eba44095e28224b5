"""The lattice of types against Delta: each column that it calls wider is one that Delta widens, with all its values."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from framework.schema.lattice import TABLE, WIDENING_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = {
    "tinyint": ("-128", "127"),
    "smallint": ("-32768", "32767"),
    "int": ("-2147483648", "2147483647"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "float": ("-3.5", "3.4028235E38"),
    "double": ("-0.1", "1.7976931348623157E308"),
    "decimal(3,0)": ("-999", "999"),
    "decimal(5,2)": ("-999.99", "999.99"),
    "decimal(12,2)": ("-9999999999.99", "9999999999.99"),
    "decimal(22,2)": ("-99999999999999999999.99", "99999999999999999999.99"),
    "decimal(38,4)": ("-1234567890123456789012345678901234.5678", "0.0001"),
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp_ntz": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    "timestamp": ("2024-02-29 12:00:00", "2024-02-29 12:00:00.000001"),
    "string": ("", "a"),
}
"""Types, and the least and the greatest of their values, or two of them."""


def test_delta_widens_each_column_that_the_lattice_calls_wider(spark: SparkSession, tmp_path: Path) -> None:
    """One statement for all pairs of types; each value is as before, and queries by it find its file."""
    pairs = [(old, new) for old, new in product(VALUES, repeat=2) if old != new and TABLE.wider(old, new) == new]
    columns = {f"c{number}": pair for number, pair in enumerate(pairs)}
    table = f"delta.`{tmp_path}/pairs`"
    fields = ", ".join(f"{name} {old}" for name, (old, _) in columns.items())
    properties = f"'{WIDENING_PROPERTY}' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    spark.sql(f"CREATE TABLE {table} ({fields}) USING delta TBLPROPERTIES ({properties})")
    rows = (", ".join(f"CAST('{VALUES[old][place]}' AS {old})" for old, _ in pairs) for place in (0, 1))
    spark.sql(f"INSERT INTO {table} {' UNION ALL '.join(f'SELECT {row}' for row in rows)}")
    spark.sql(
        f"ALTER TABLE {table} ALTER COLUMN {', '.join(f'{name} TYPE {new}' for name, (_, new) in columns.items())}"
    )
    found = spark.read.format("delta").load(f"{tmp_path}/pairs")
    assert {field.name: field.dataType.simpleString() for field in found.schema.fields} == {
        name: new for name, (_, new) in columns.items()
    }
    kept = " AND ".join(
        f"count_if({name} = CAST(CAST('{value}' AS {old}) AS {new})) >= 1"
        for name, (old, new) in columns.items()
        for value in VALUES[old]
    )
    assert found.selectExpr(kept).first() == (True,)
    skipped = [name for name, (old, new) in columns.items() if found.where(
        f"{name} = CAST(CAST('{VALUES[old][1]}' AS {old}) AS {new})").isEmpty()]  # fmt: skip
    assert skipped == []
    kept_types = {kind for kind in VALUES if kind not in {old for old, _ in pairs}}
    assert kept_types == {"float", "double", "decimal(38,4)", "timestamp_ntz", "timestamp", "string"}
