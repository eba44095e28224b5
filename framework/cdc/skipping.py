"""Which of a table's files may have rows of some keys, by what its log says of each file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.cdc.expressions import java_class

Spans = Mapping[str, tuple[int, int]]
"""The least and the greatest value of keys that are whole numbers."""


def files_within(files: Any, spans: Spans) -> list[Any]:
    """The files of a Scala `Seq[AddFile]` that may have a row whose keys lie in all of the spans."""
    # One call for all files; asked one by one they would be hundreds.
    told = json.loads(java_class("org.apache.spark.sql.delta.util.JsonUtils").mapper().writeValueAsString(files))
    return [files.apply(index) for index, file in enumerate(told) if may_hold(_statistics(file), spans)]


def _statistics(file: Mapping[str, Any]) -> Mapping[str, Any]:
    found = file.get("stats") or {}
    return json.loads(found) if isinstance(found, str) else found


def may_hold(statistics: Mapping[str, Any], spans: Spans) -> bool:
    """Whether a file may have such a row; one that does not tell may.

    Examples:
        >>> told = {"minValues": {"id": 10}, "maxValues": {"id": 20}}
        >>> [may_hold(told, {"id": span}) for span in ((0, 9), (0, 10), (20, 30), (21, 30))]
        [False, True, True, False]
        >>> may_hold({}, {"id": (0, 9)}), may_hold({"minValues": {"id": 10}}, {"id": (0, 9)})
        (True, True)
    """
    least, most = statistics.get("minValues", {}), statistics.get("maxValues", {})
    return all(
        not (isinstance(least.get(key), int) and isinstance(most.get(key), int))
        or (least[key] <= span[1] and span[0] <= most[key])
        for key, span in spans.items()
    )
