"""Columns of a table that the code does not have, which the plan of a full refresh names."""

from __future__ import annotations

import json

from framework.declare.specs import DatasetKind, DatasetSpec
from framework.graph.graph import GraphDataset
from framework.run.tables.left_columns import left_columns
from framework.sources.delta.log import LogTip
from tests.support.fake_pipeline import name

KIND = DatasetKind.STREAMING_TABLE


def schema(*names: str) -> str:
    """A schema of these columns."""
    return json.dumps({"type": "struct", "fields": [{"name": each, "type": "long"} for each in names]})


def test_columns_are_compared_by_name_in_any_case() -> None:
    """Those of the table that the code does not have are named as the table has them; of what is unknown, none."""
    spec = DatasetSpec(name=name("t"), kind=KIND)
    declared = GraphDataset(spec=spec, kind=KIND, schema=schema("id"), table_schema=schema("id", "__sluice"))
    tip = LogTip(version=3, table_id="t", schema=schema("ID", "Own", "__sluice", "note"))
    assert left_columns(declared, tip) == ("Own", "note")
    assert left_columns(declared, None) == left_columns(declared, LogTip(version=3, table_id=None)) == ()
    assert left_columns(GraphDataset(spec=spec, kind=KIND), tip) == ()
