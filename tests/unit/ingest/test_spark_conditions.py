"""Conditions of a source database: Spark evaluates those that mean the same, and selects all rows otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.declare.copy_definition import CopiedColumn
from framework.ingest.confirmation import condition_in_spark
from tests.unit.ingest.test_drift import BEFORE

_TYPES = {
    "id": ("INT", "integer"), "amount": ("DECIMAL(10,2)", "numeric(10,2)"), "exact": ("STRING", "numeric"),
    "region": ("STRING", "character varying(9)"), "code": ("STRING", "character(4)"), "day": ("DATE", "date"),
    "flag": ("BOOLEAN", "boolean"), "seen": ("TIMESTAMP", "timestamp with time zone"), "net": ("STRING", "inet"),
    "as_text": ("STRING", "integer"), "Upper": ("INT", "integer"), "ratio": ("DOUBLE", "double precision"),
}  # fmt: skip
DEFINITION = replace(
    BEFORE,
    columns=tuple(
        CopiedColumn(name=name, type=kind, source_type=source, number=number, stamp="1")
        for number, (name, (kind, source)) in enumerate(_TYPES.items())
    ),
)


@pytest.mark.parametrize(
    "where",
    [
        "id = 5",
        "ID >= -5 AND id<10",
        "(id IN (1, 2,3) OR id BETWEEN 7 AND 9)\n",
        "id IS NOT NULL",
        "id = 1 and day < '2024-01-02'",
        "NOT (day IN ('2024-01-02'))",
        "id != 3 or day is null",
    ],
)
def test_comparisons_with_literals_select_the_same_rows(where: str) -> None:
    """Of whole numbers and dates."""
    assert condition_in_spark(where, DEFINITION) == where


@pytest.mark.parametrize(
    "where",
    [
        "\"region\" = 'EU'",
        "region = 'EU'",
        "region IN ('a b', '')",
        "amount <> 1.50",
        "amount = 1",
        "id / 10 = 2",
        "id = 20 / 2",
        "id ^ 2 = 400",
        "region = 'a\\b'",
        "code = 'EU'",
        "region < 'b'",
        "region BETWEEN 'a' AND 'b'",
        "flag = 'on'",
        "day < 'infinity'",
        "seen >= '2024-01-02'",
        "exact = 1",
        "as_text = 5",
        "net = '10.0.0.1'",
        "upper = 1",
        "id = 5 -- five",
        "id = 5::smallint",
        "id = 5.5",
        "region = '${x}'",
        "id = id",
        "region = 'it''s'",
        "id IN (SELECT 1)",
        "lower(region) = 'eu'",
        "id = 5 = true",
        "ratio = 0.1",
        "unknown = 1",
        "day = '2024-1-2'",
        "region LIKE 'E%'",
        "id = 1_000",
        "region = E'a'",
        "id = 12345678901234567890",
    ],
)
def test_any_other_condition_selects_all_rows(where: str) -> None:
    """Spark gives it another meaning, or may."""
    assert condition_in_spark(where, DEFINITION) == "true"


def test_columns_of_an_earlier_release_have_no_known_type() -> None:
    """All rows are compared then."""
    assert condition_in_spark("a = 1", None) == condition_in_spark("a = 1", BEFORE) == "true"
