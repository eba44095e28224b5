"""Commits of two Delta tables are compared without what differs between any two commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framework.foundation.table_address import TableAddress

_OF_ONE_COMMIT = {"timestamp", "txnId", "path", "modificationTime", "deletionTimestamp", "id", "createdTime", "size",
    "executionTimeMs", "lastUpdated", "numOutputBytes", "numRemovedBytes", "baseRowId"}  # fmt: skip


def commit_of(table: TableAddress, version: int) -> list[Any]:
    """Return the actions of a commit, without the statistics of removed files: Delta's commands leave them out."""
    lines = (Path(str(table.path)) / "_delta_log" / f"{version:020d}.json").read_text("utf-8").splitlines()
    actions = [_plain(json.loads(line)) for line in lines]
    for action in actions:
        action.get("remove", {}).pop("stats", None)
    return sorted(actions, key=json.dumps)


def checksum_of(table: TableAddress, version: int) -> Any:
    """Return the checksum of a version."""
    checksum = json.loads((Path(str(table.path)) / "_delta_log" / f"{version:020d}.crc").read_text("utf-8"))
    checksum["allFiles"] = sorted((_plain(file) for file in checksum.get("allFiles", ())), key=json.dumps)
    del checksum["tableSizeBytes"], checksum["fileSizeHistogram"]
    return _plain(checksum)


def _plain(part: Any) -> Any:
    if isinstance(part, Mapping):
        kept = {key: _plain(value) for key, value in part.items() if key not in _OF_ONE_COMMIT}
        return {key: value for key, value in kept.items() if (key, value) != ("tags", {})}  # {} comes from a checksum
    return [_plain(each) for each in part] if isinstance(part, list) else part
