"""The last versions of a Delta table, from the JSON commits of its log, without Spark."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from framework.foundation.clock import timestamp_text
from framework.foundation.files.storage import is_local

_COMMIT = re.compile(r"(\d{20})\.json")
_MOST = 50


def delta_versions(folder: str | None) -> list[dict[str, Any]]:
    """Return the newest versions of a table, newest first; [] if there is no local table."""
    if folder is None or not is_local(folder):
        return []
    log = Path(folder) / "_delta_log"
    try:
        names = sorted(each.name for each in log.iterdir() if _COMMIT.fullmatch(each.name))
    except OSError:
        return []
    return [version for name in reversed(names[-_MOST:]) if (version := _version(log / name)) is not None]


def _version(path: Path) -> dict[str, Any] | None:
    try:
        lines = path.read_text("utf-8").splitlines()
        infos = (json.loads(line).get("commitInfo") for line in lines if '"commitInfo"' in line)
        info: dict[str, Any] = next((each for each in infos if each), {})
    except (OSError, ValueError, AttributeError):
        return None
    time = info.get("timestamp")
    return {
        "version": int(path.stem),
        "timestamp": None if time is None else timestamp_text(datetime.fromtimestamp(time / 1000, tz=UTC)),
        "operation": info.get("operation"),
        "parameters": info.get("operationParameters") or {},
        "metrics": info.get("operationMetrics") or {},
    }
