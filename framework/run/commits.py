"""What the commits of a table say of the rows they wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from framework.checkpoints.delta_log import latest_version
from framework.foundation.storage import Storage


def rows_written(storage: Storage, path: str, *, after: int | None, query_id: str | None = None) -> int:
    """The output rows of a table's commits since version `after` (None: of all), of one query where given.

    Commits are read from the log itself: Spark's progress does not tell the rows of a Delta sink,
    and counting them in the query would cost a pass.
    """
    first = 0 if after is None else after + 1
    last = latest_version(storage, path)
    total = 0
    for version in range(first, (last if last is not None else -1) + 1):
        for info in _commit_infos(storage, f"{path}/_delta_log/{version:020d}.json"):
            if query_id in (None, info.get("operationParameters", {}).get("queryId")):
                total += int(info.get("operationMetrics", {}).get("numOutputRows", 0))
    return total


def _commit_infos(storage: Storage, file: str) -> Iterator[dict[str, Any]]:
    for line in (storage.read_text(file) or "").splitlines():
        if line.startswith('{"commitInfo"'):
            yield json.loads(line)["commitInfo"]
