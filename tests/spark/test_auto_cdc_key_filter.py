"""The Bloom filter of a batch's keys: it passes all rows of these keys, and few others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from framework.cdc.events.key_filter import with_keys_of
from tests.support.key_types import KEY_TYPES, KEYS_PER_TYPE, key_columns

NAMES = [name for name, _, _ in KEY_TYPES]
BOTH_ZEROS = "named_struct('f', float('{0}0.0'), 'd', array(double('{0}0.0'))) AS key"


def test_a_filter_passes_all_rows_of_its_keys_and_few_others(spark: SparkSession) -> None:
    """Of a million keys, all of the ten thousand in the batch pass, and at most one in a hundred others."""
    rows, source = spark.range(1_000_000), spark.range(0, 1_000_000, 100)
    passed = with_keys_of(rows, source, ["id"], key_count=10_000)
    row = passed.selectExpr("count(*)", "count_if(id % 100 = 0)").first()
    assert row is not None
    assert row[1] == 10_000
    assert row[0] < 20_000


def test_keys_of_all_types_pass_a_filter_of_these_keys(spark: SparkSession) -> None:
    """Also keys with nulls at some depth, NaN, and texts that are not valid UTF-8."""
    rows = spark.sql(" UNION ALL ".join(f"SELECT {key_columns(number)}" for number in range(KEYS_PER_TYPE)))
    assert with_keys_of(rows, rows, NAMES, key_count=KEYS_PER_TYPE).count() == KEYS_PER_TYPE


def test_zeros_of_either_sign_are_one_key(spark: SparkSession) -> None:
    """A row of another program has -0.0, an event 0.0; Spark joins the two."""
    rows, source = (spark.sql(f"SELECT {BOTH_ZEROS.format(sign)}") for sign in ("-", ""))
    assert with_keys_of(rows, source, ["key"], key_count=1).count() == 1


@pytest.mark.parametrize("key_count", [0, 1])
def test_a_filter_without_keys_passes_no_row(spark: SparkSession, key_count: int) -> None:
    """A batch may have no event that changes a row."""
    assert with_keys_of(spark.range(10), spark.range(0), ["id"], key_count=key_count).count() == 0
