"""Rows of tests that are written in any type are read back equal, by Spark and without it."""

from __future__ import annotations

import math
import string
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from framework.engine.files.storage import open_storage
from framework.sandbox.delta_inputs import DeltaInput
from framework.sandbox.differences.comparison import compare_rows
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.rows import Rows
from framework.sandbox.stored.plain_tables import plain_table
from framework.sandbox.values.text_tables import TextCell
from framework.sandbox.values.typed_values import of_spark
from tests.support.spark_types import data_type

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - local times, and those of UTC
_DOUBLES = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1]) | st.floats()
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9).map(TextCell),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32) | st.just(0.1),
    "double": _DOUBLES | st.integers(-(2**53), 2**53),
    "decimal(9,2)": st.decimals(-9_999_999, 9_999_999, places=2) | st.decimals(0, 9, places=1).map(str),
    "decimal(38,18)": st.decimals(-(10**19), 10**19, places=18, allow_nan=False),
    "string": _TEXT,
    "binary": st.binary(max_size=8),
    "date": st.dates(date(1, 1, 1), date(9999, 12, 31)) | st.dates(date(1000, 1, 1)).map(str),
    "timestamp": _TIMES.map(lambda time: time.replace(tzinfo=UTC)) | _TIMES.map(str),
    "timestamp_ntz": _TIMES,
}
_NESTED: dict[str, st.SearchStrategy[Any]] = {
    "array<double>": st.lists(st.none() | _DOUBLES, max_size=3),
    "map<string, timestamp>": st.dictionaries(_TEXT, st.none() | _TIMES, max_size=3),
    "map<int, array<string>>": st.dictionaries(st.integers(0, 9), st.lists(_TEXT, max_size=2), max_size=3),
    "struct<x: decimal(38,18), y: struct<z: binary>>": st.fixed_dictionaries(
        {}, optional={"x": st.just(Decimal("1.1")), "y": st.fixed_dictionaries({"z": st.binary(max_size=2)})}
    ),
}
_VARIANTS: dict[str, st.SearchStrategy[Any]] = {
    "variant": st.recursive(
        st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(string.ascii_letters, min_size=1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=5,
    ).map(lambda value: [value]),
}


@pytest.mark.parametrize("kinds", [_SCALARS | _NESTED, _VARIANTS], ids=["without Spark", "by Spark"])
def test_what_is_written_is_read_back_equal(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kinds: Mapping[str, st.SearchStrategy[Any]]
) -> None:
    """Every type that a given table can have, with NULL in each, as PySpark collects it and as its files are read."""
    schema = StructType([StructField(f"c{number}", data_type(kind)) for number, kind in enumerate(kinds)])
    row = st.fixed_dictionaries({f"c{number}": st.none() | values for number, values in enumerate(kinds.values())})

    @settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(rows=st.lists(row, min_size=20, max_size=20))
    def holds(rows: list[dict[str, Any]]) -> None:
        folder: Path = tmp_path_factory.mktemp("typed")
        typed = Rows.of(rows).typed(schema)
        DeltaInput(folder / "table").append(spark, schema, typed, 1.7e9)
        frame = spark.read.format("delta").load(str(folder / "table"))
        _check(typed, [of_spark(each, schema) for each in frame.collect()], schema)
        plain = plain_table(open_storage(str(folder)), str(folder / "table"))
        assert (kinds is _VARIANTS) == (plain is None)
        if plain is not None:
            _check(typed, plain[1], schema)

    holds()


def _check(typed: Any, found: Any, schema: StructType) -> None:
    difference = compare_rows(typed, found, schema)
    assert difference is None, DifferenceFormat().text("table", difference)
