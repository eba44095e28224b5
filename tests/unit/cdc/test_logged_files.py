"""The entry of a file in a table's log."""

from __future__ import annotations

import json

from framework.engine.delta.table_version import LoggedFile

STATISTICS = {"numRecords": 5, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
ENTRY = {"size": 400, "stats": json.dumps(STATISTICS), "deletionVector": {"cardinality": 2}}


def test_statistics_count_where_their_names_are_those_of_the_columns() -> None:
    """With mapped columns a name may be that of another column, so only the number of rows is known."""
    assert (STATISTICS, 3) == ((found := LoggedFile.read(ENTRY, names_match=True)).statistics, found.rows)
    assert ({"numRecords": 5}, 3) == ((found := LoggedFile.read(ENTRY, names_match=False)).statistics, found.rows)
    assert ({}, None) == ((found := LoggedFile.read({"size": 0}, names_match=False)).statistics, found.rows)
