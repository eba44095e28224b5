"""Detect older versions of a Delta table with dropped or retyped columns, which a stream can't read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.sources.delta.log import commit_files, metadata_at, read_commit, read_tip

_MOST_COMMITS = 500


def lacks_columns_of(storage: Storage, table_path: str, version: int) -> bool:
    """Return whether a table has dropped or retyped a column of a version since; False if unknown."""
    tip = read_tip(storage, table_path)
    then = _columns(metadata_at(storage, table_path, version).get("schemaString"))
    now = {} if tip is None else _columns(tip.schema)
    return bool(now) and any(now.get(name) != kind for name, kind in then.items())


def present_since(storage: Storage, table_path: str) -> int | None:
    """Return the version that set a table's present metadata; None if its log no longer has that commit."""
    files = commit_files(storage, table_path)
    for version in sorted(files, reverse=True)[:_MOST_COMMITS]:
        if any("metaData" in action for action in read_commit(storage, files[version])):
            return version
    return None


def _columns(schema: str | None) -> Mapping[str, Any]:
    """Return the type of each column by its name in lower case."""
    fields = json.loads(schema or "{}").get("fields", ())
    return {field["name"].lower(): field["type"] for field in fields}
