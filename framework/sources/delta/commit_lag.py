"""What unread commits of a Delta table hold, and how long its log keeps them."""

from __future__ import annotations

import json
from typing import Any

from framework.foundation.files.storage_port import Storage
from framework.sources.delta.log import LogTip, commit_files, read_commit
from framework.sources.delta.partitions import PartitionCondition
from framework.sources.delta.unread import retention_seconds
from framework.sources.port import NO_LAG, Lag


def commit_lag(
    actions: list[dict[str, Any]], skipped: int, conditions: tuple[PartitionCondition, ...], now: float
) -> Lag:
    """Return the rows, bytes and age of the files that a commit adds.

    Args:
        actions: the actions of the commit.
        skipped: the number of its files that were read.
        conditions: conditions on the partitions of the files.
        now: the present time in epoch seconds.
    """
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")][skipped:]
    added = [add for add in added if all(each.may_match(add["partitionValues"].get(each.key)) for each in conditions)]
    if not added:
        return NO_LAG
    counts = [_record_count(add) for add in added]
    times = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    stamp = next((time for time in times if isinstance(time, int)), None)
    return Lag(
        records=None if None in counts else sum(count or 0 for count in counts),
        bytes=sum(int(add.get("size", 0)) for add in added),
        seconds=None if stamp is None else max(now - stamp / 1000, 0.0),
    )


def _record_count(add: dict[str, Any]) -> int | None:
    try:
        return int(json.loads(add.get("stats") or "{}")["numRecords"])
    except (ValueError, KeyError):
        return None


def lost_in(storage: Storage, path: str, tip: LogTip, version: int | None, now: float) -> float | None:
    """Return the seconds until Delta may delete a commit from a log; 0 if it has, None if it is unknown or not there.

    Args:
        storage: reads the log.
        path: the folder of the table.
        tip: the newest version of the table.
        version: the first unread version; None if it is unknown.
        now: the present time in epoch seconds.
    """
    if version is None or version > tip.version:
        return None
    file = commit_files(storage, path).get(version)
    if file is None:
        return 0.0
    infos = (action["commitInfo"] for action in read_commit(storage, file) if "commitInfo" in action)
    stamp = next((time for info in infos if isinstance(time := info.get("timestamp"), int)), None)
    kept = retention_seconds(tip)
    return None if stamp is None or kept is None else max(stamp / 1000 + kept - now, 0.0)
