"""The statistics of new files give the counts of a load, or show that the events must be counted."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from framework.cdc.analysis.target_schema import CdcTarget, hidden_type
from framework.cdc.initial_load import NewFileStatistics
from framework.cdc.model.reserved_names import HIDDEN_COLUMN
from framework.foundation.names import QualifiedName

SEQUENCE = StructType([StructField("file", StringType()), StructField("position", LongType())])
TABLE = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField(HIDDEN_COLUMN, hidden_type(SEQUENCE, 1, ())),
    ]
)
TARGET = CdcTarget(
    name=QualifiedName(catalog="main", schema="default", table="target"),
    keys=("id",), scd_type=1, table_json=TABLE.json(), literal_flows=(),
)  # fmt: skip


def file(rows: int, *, key_nulls: int | None = 0, **hidden_nulls: object) -> dict[str, Any]:
    """The statistics of a file; nulls of the hidden column's parts by their names."""
    nulls = {HIDDEN_COLUMN: hidden_nulls} | ({} if key_nulls is None else {"id": key_nulls})
    return {"numRecords": rows, "nullCount": nulls, "minValues": {"id": rows}, "maxValues": {"id": rows * 10}}


@pytest.mark.parametrize(
    "hidden", [{"once": 0}, {"once": 3, "sequence": {"file": 3, "position": 0}}], ids=["literal", "a part of a struct"]
)
def test_file_statistics_count_valid_events(hidden: dict[str, Any]) -> None:
    """No key is null, and of each point some part is not null."""
    counts = NewFileStatistics(files=[file(3, **hidden), file(4, **hidden)]).counts(TARGET)
    assert counts is not None
    assert (7, 0, {"id": 0}, {}) == (counts.rows, counts.null_sequences, counts.null_keys, counts.ranges)


@pytest.mark.parametrize(
    "doubtful",
    [
        {},
        file(3, key_nulls=1, once=0),
        file(3, key_nulls=None, once=0),
        file(3),
        file(3, once=1, sequence={"file": 1, "position": 1}),
    ],
    ids=["no statistics", "a null key", "no statistics of keys", "no statistics of points", "possibly null points"],
)
def test_missing_statistics_or_possible_violations_need_a_count(doubtful: dict[str, Any]) -> None:
    """One such file is enough."""
    assert NewFileStatistics(files=[file(3, once=0), doubtful]).counts(TARGET) is None


def test_the_span_of_a_key_covers_all_files() -> None:
    """It is known only if each file has bounds that are whole numbers."""
    files = [file(3), file(1), file(4)]
    assert (1, 40) == NewFileStatistics(files=files).span("id")
    assert NewFileStatistics(files=files).span("name") is None
    assert NewFileStatistics(files=[*files, {"numRecords": 1}]).span("id") is None
    assert NewFileStatistics(files=[{"minValues": {"id": "a"}, "maxValues": {"id": "b"}}]).span("id") is None
