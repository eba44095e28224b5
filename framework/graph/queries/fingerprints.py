"""Fingerprints of queries: a text that changes whenever the result of a query may have changed.

A materialized view is skipped when neither its inputs nor its code changed. The fingerprint of the code is the
analysed plan, with expression identifiers numbered in order of appearance. Stand-ins have the name of the
dataset that they represent, so the plans of two datasets with equal schemas differ.

The fingerprint uses two texts of a plan, because each omits something. The text of `explain` has no quotes: `IN (a,b)`
may be one value or two. The SQL of the plan's expressions has types and quotes of values but lacks other arguments,
such as the options of `from_json`. Neither text has the rows of literals, or the options and columns of files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from framework.engine.files.storage import open_storage
from framework.engine.plans.plans import (
    analysed_plan,
    expression_texts,
    is_repeatable,
    local_rows_text,
    node_name,
    runs_python_function,
    tree_text,
)
from framework.engine.plans.relations import delta_table_of, file_relation, format_of, input_files, plan_leaves
from framework.graph.queries.pickled_functions import function_text, pickled_functions
from framework.sources.delta.read_commits import commit_identity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_IDENTIFIER = re.compile(
    r"#\d+|(?<=CTERelationDef )\d+|(?<=CTERelationRef )\d+|(?<=UnionLoop )\d+|(?<=UnionLoopRef )\d+"
    r"|(?<=], )\d+$",
    re.MULTILINE,
)
_FRAME = re.compile(r"_pyspark_[0-9a-f]{32}")
_NOW = re.compile(r"'\s*(?:now|today|tomorrow|yesterday)(?:\s[^']*)?'", re.IGNORECASE)
_TO_TIME = re.compile(r"AS (?:TIMESTAMP|TIMESTAMP_NTZ|DATE)\)|\b(?:try_)?to_(?:timestamp|date)", re.IGNORECASE)
_IN_THE_TEXT = frozenset({"CTERelationRef", "OneRowRelation", "Range", "UnionLoopRef"})
_RUNS_PYTHON = re.compile(r"Pandas|Arrow|Python")
_MAY_RUN_PYTHON = re.compile(r"Pandas|Arrow|Python|Generate ")  # a table function shows its class only
_MAX_FIELDS = 100_000


def plan_fingerprint(
    frames: Sequence[DataFrame],
    *,
    declared: Sequence[str],
    code_version: str | None,
    settings: Mapping[str, str],
    session_settings: Sequence[str],
    file_identity: Callable[[list[str]], str | None],
) -> str | None:
    """Return a hash of the query's computation, or None if it is unknown.

    None means that the query must be computed in each update: it uses the current time or random values, reads data of
    unknown identity, or runs Python functions on rows whose source is unknown or that use broadcast values.

    Args:
        frames: the analysed query, over stand-ins for the datasets of the pipeline, and the conditions of the
            expectations that filter its rows.
        declared: declarations that affect the rows beside the query: its expectations, and the options of reads by
            name.
        code_version: hash of the modules' source; it is added if Python functions run on rows, beside their own code
            and values. None if unknown.
        settings: the flow's own Spark settings, which may change the result of the same plan.
        session_settings: the settings of the session.
        file_identity: returns a text for the current content of files that the query reads by path, or None if
            computing it would take too long.
    """
    own = (f"{key}={value}" for key, value in sorted(settings.items()))
    parts = [*declared, *own, *session_settings]
    functions: list[str | None] = []
    runs_python = False
    for frame in frames:
        plan = analysed_plan(frame)
        if not is_repeatable(plan):
            return None
        text = tree_text(plan, most_fields=_MAX_FIELDS)
        values = expression_texts(plan)
        if values is None or (_NOW.search(values) and _TO_TIME.search(values)):
            return None
        parts += [_renumbered(_IDENTIFIER, _renumbered(_FRAME, text)), _renumbered(_FRAME, values)]
        if runs_python_function(plan) or _MAY_RUN_PYTHON.search(text):
            functions += [function_text(each) for each in pickled_functions(plan)]
            runs_python = runs_python or bool(functions) or _RUNS_PYTHON.search(text) is not None
    if runs_python:
        functions.append(code_version)
    inputs = [_identity(leaf, file_identity) for frame in frames for leaf in plan_leaves(frame)]
    known = [each for each in (*functions, *inputs) if each is not None]
    if len(known) < len(functions) + len(inputs):
        return None
    return hashlib.sha256("\n".join([*parts, *known]).encode()).hexdigest()[:32]


def _identity(leaf: Any, file_identity: Callable[[list[str]], str | None]) -> str | None:
    """Return a text that changes with the rows of a leaf, in addition to the plan's texts; None if unknown."""
    name = node_name(leaf)
    if name in _IN_THE_TEXT:
        return ""
    if name == "LocalRelation":
        return local_rows_text(leaf)
    files = file_relation(leaf)
    if files is None:
        return None
    content = _delta_version(files) or file_identity(input_files(files))
    return None if content is None else f"{content} {format_of(leaf)}"


def _delta_version(files: Any) -> str | None:
    """Return id, version and commit of the Delta table that a leaf reads; None if its files are not a Delta table's."""
    found = delta_table_of(files)
    if found is None:
        return None
    table_id, version, path = found
    # A folder that was restored from a backup and then written again has the same versions with other commits.
    commit = commit_identity(open_storage(path, SparkSession.getActiveSession()), path, version)
    return f"{table_id} {version} {commit}"


def _renumbered(identifier: re.Pattern[str], text: str) -> str:
    """Replace the identifiers `#17`, `CTERelationDef 9`, … of a plan by `#0`, `#1`, … in order of appearance."""
    numbers: dict[str, str] = {}
    return identifier.sub(lambda found: numbers.setdefault(found.group(), f"#{len(numbers)}"), text)
