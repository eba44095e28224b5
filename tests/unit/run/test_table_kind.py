"""The kind of a table that no record has, as after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from framework.checkpoints.generations import GenerationStore
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.plan.state import TableKind
from framework.run.tables.table_kind import stored_kind
from framework.run.tables.table_record import TableRecord
from framework.sources.delta.log import LogTip

NAME = QualifiedName(catalog="main", schema="s", table="t")
COLUMNS = '{"fields": [{"name": "id", "type": "long"}]}'
Case = tuple[dict[str, str | None], bool, str, TableKind | None, TableKind | None]
HIDDEN = '{"fields": [{"name": "id", "type": "long"}, {"name": "__sluice", "type": "long"}]}'


@pytest.mark.parametrize(
    "case",
    [
        ({"computed_from": None}, False, COLUMNS, None, TableKind.MATERIALIZED_VIEW),
        ({"computed_from": "x"}, True, COLUMNS, None, TableKind.MATERIALIZED_VIEW),
        ({"computed_from": "x"}, True, COLUMNS, TableKind.STREAMING_TABLE, TableKind.STREAMING_TABLE),
        ({}, True, COLUMNS, None, TableKind.STREAMING_TABLE),
        ({}, True, HIDDEN, TableKind.STREAMING_TABLE, TableKind.AUTO_CDC_TARGET),
        ({}, False, COLUMNS, None, None),
    ],
    ids=["crash", "was a stream", "was a view", "not recorded", "target", "unknown"],
)
def test_the_kind_of_a_table_is_known_from_its_log_if_no_record_has_it(tmp_path: Path, case: Case) -> None:
    """A view that was killed before its record was written is no streaming table for the next update."""
    mark, is_written, schema, recorded, expected = case
    storage, table = LocalStorage(str(tmp_path)), tmp_path / "t"
    commit = {"commitInfo": {"userMetadata": json.dumps({"sluice": mark})}}
    storage.write_text(f"{table}/_delta_log/{0:020d}.json", json.dumps(commit, separators=(",", ":")))
    if is_written:
        GenerationStore(storage).begin(NAME, NAME, reason="first run", fingerprint="f")
    record = None
    if recorded is not None:
        record = TableRecord(dataset=NAME, path=str(table), definition="", schema=schema, pipeline="p", kind=recorded)
    tip = LogTip(version=0, table_id="t-1", schema=schema)
    assert stored_kind(storage, NAME, str(table), tip, record) == expected
