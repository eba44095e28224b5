"""Fingerprints of queries: a text that changes whenever the result of a query may have changed.

A materialized view is skipped when neither its inputs nor its code changed. The fingerprint of the code is the
analysed plan, with expression identifiers numbered in order of appearance. Stand-ins have the name of the
dataset that they represent, so the plans of two datasets with equal schemas differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from framework.foundation.jvm_cache import java_class
from framework.graph.relations import analysed_plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NODE = re.compile(r"^[\s:+\-~|]*([A-Za-z0-9]+)", re.MULTILINE)
_IDENTIFIER = re.compile(r"#\d+")
_FILES = re.compile(r"\] (?:parquet|json|csv|text|orc|avro|xml|binaryFile)$", re.IGNORECASE)
_UNKNOWN_IDENTITY = frozenset({"LogicalRDD", "RelationV2", "ExternalRDD", "LogicalQueryStage"})
_RUNS_PYTHON = re.compile(r"Pandas|Arrow|Python")
_MAX_FIELDS = 100_000


def plan_fingerprint(
    frame: DataFrame,
    *,
    code_version: str | None,
    settings: Mapping[str, str],
    file_identity: Callable[[list[str]], str | None],
) -> str | None:
    """Return a hash of the query's computation, or None if it is unknown.

    None means that the query must be computed in each update: it uses the current time or random
    values, reads data of unknown identity, or runs Python functions of unknown source on rows.

    Args:
        frame: the analysed query, over stand-ins for the datasets of the pipeline.
        code_version: hash of the modules' source, used if Python functions run on rows;
            None if it is unknown.
        settings: the flow's own Spark settings, which may change the result of the same plan.
        file_identity: returns a text for the current content of the files that the query reads by path, or
            None if computing it would take too long.
    """
    plan = analysed_plan(frame)
    patterns = java_class("org.apache.spark.sql.catalyst.trees.TreePattern")
    if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        return None
    text = plan.treeString(True, False, _MAX_FIELDS, False, False)  # noqa: FBT003 - a Java call
    nodes = set(_NODE.findall(text))
    relations = [line for line in text.splitlines() if _NODE.match(line) and _NODE.findall(line) == ["Relation"]]
    if nodes & _UNKNOWN_IDENTITY or not all(_FILES.search(line) for line in relations):
        return None
    parts = [_renumbered(text), *_local_rows(plan), *(f"{key}={value}" for key, value in sorted(settings.items()))]
    if plan.containsPattern(patterns.PYTHON_UDF()) or _RUNS_PYTHON.search(text):
        if code_version is None:
            return None
        parts.append(code_version)
    if relations:
        identity = file_identity(sorted(frame.inputFiles()))
        if identity is None:
            return None
        parts.append(identity)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _renumbered(text: str) -> str:
    """Replace the identifiers `#17`, `#9`, … of a plan's text by `#0`, `#1`, … in order of appearance."""
    numbers: dict[str, str] = {}
    return _IDENTIFIER.sub(lambda found: numbers.setdefault(found.group(), f"#{len(numbers)}"), text)


def _local_rows(plan: Any) -> list[str]:
    """The literal rows of the query, which the plan's text omits."""
    leaves = plan.collectLeaves()
    found = [leaves.apply(index) for index in range(leaves.size())]
    return [str(leaf.data().toString()) for leaf in found if leaf.nodeName() == "LocalRelation"]
