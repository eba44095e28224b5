"""The identity of the tables that an update writes to."""

from __future__ import annotations

import json
from pathlib import Path

from framework.foundation.files.local_storage import LocalStorage
from framework.run.flows.written_tables import WrittenTables, found_id


def put_table(path: Path, table_id: str) -> None:
    """Write the first commit of a table's log."""
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    metadata = {"id": table_id, "schemaString": "{}", "partitionColumns": [], "configuration": {}, "createdTime": 1}
    (log / f"{0:020}.json").write_text(json.dumps({"metaData": metadata}))


def test_a_retry_has_the_table_of_the_first_try(tmp_path: Path) -> None:
    """A table that takes its place in between is another one; the next update decides whose it is."""
    storage, tables, path = LocalStorage(str(tmp_path)), WrittenTables(), tmp_path / "t"
    assert tables.id_of(storage, str(path)) is None
    put_table(path, "first")
    assert tables.id_of(storage, str(path)) == "first"
    put_table(path, "second")
    assert found_id(storage, str(path)) == "second"
    assert tables.id_of(storage, str(path)) == "first"
    assert WrittenTables().id_of(storage, str(path)) == "second"
