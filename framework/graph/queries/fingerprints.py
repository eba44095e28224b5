"""Fingerprints of queries: a text that changes whenever the result of a query may have changed.

A materialized view is skipped when neither its inputs nor its code changed. The fingerprint of the code is the
analysed plan, with expression identifiers numbered in order of appearance. Stand-ins have the name of the
dataset that they represent, so the plans of two datasets with equal schemas differ.

Two texts of a plan are used, because each omits something. The one that `explain` displays has no quotes: `IN (a,b)`
may be one value or two. In the SQL of its expressions, values have their types and quotes, but other arguments are
missing, such as the options of `from_json`. Neither has the rows of literals, and the options and columns of files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from framework.foundation.jvm_cache import java_class, method, scala_items
from framework.graph.queries.pickled_functions import function_text, pickled_functions
from framework.graph.reading.relations import analysed_plan, delta_version, file_relation, plan_leaves

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
_CATALYST = "org.apache.spark.sql.catalyst"
_IN_THE_TEXT = frozenset({"CTERelationRef", "OneRowRelation", "Range", "UnionLoopRef"})
_RUNS_PYTHON = re.compile(r"Pandas|Arrow|Python")
_MAY_RUN_PYTHON = re.compile(r"Pandas|Arrow|Python|Generate ")  # a table function has the name of its class only
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

    None means that the query must be computed in each update: it uses the current time or random
    values, reads data of unknown identity, or runs Python functions of unknown source, or with
    broadcast values, on rows.

    Args:
        frames: the analysed query, over stand-ins for the datasets of the pipeline, and the conditions of the
            expectations that filter its rows.
        declared: what is declared of the rows beside the query: its expectations, and the options of its reads by name.
        code_version: hash of the modules' source, used beside the functions' own code and values if Python functions
            run on rows; None if it is unknown.
        settings: the flow's own Spark settings, which may change the result of the same plan.
        session_settings: those of the session.
        file_identity: returns a text for the current content of the files that the query reads by path, or
            None if computing it would take too long.
    """
    own = (f"{key}={value}" for key, value in sorted(settings.items()))
    parts = [*declared, *own, *session_settings]
    functions: list[str | None] = []
    runs_python = False
    patterns = java_class("org.apache.spark.sql.catalyst.trees.TreePattern")
    for frame in frames:
        plan = analysed_plan(frame)
        if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
            return None
        text = plan.treeString(True, False, _MAX_FIELDS, False, False)  # noqa: FBT003 - a Java call
        values = _expressions(plan)
        if values is None or (_NOW.search(values) and _TO_TIME.search(values)):
            return None
        parts += [_renumbered(_IDENTIFIER, _renumbered(_FRAME, text)), _renumbered(_FRAME, values)]
        if plan.containsPattern(patterns.PYTHON_UDF()) or _MAY_RUN_PYTHON.search(text):
            functions += [function_text(each) for each in pickled_functions(plan)]
            runs_python = runs_python or bool(functions) or _RUNS_PYTHON.search(text) is not None
    if runs_python:
        functions.append(code_version)
    inputs = [_identity(leaf, file_identity) for frame in frames for leaf in plan_leaves(frame)]
    known = [each for each in (*functions, *inputs) if each is not None]
    if len(known) < len(functions) + len(inputs):
        return None
    return hashlib.sha256("\n".join([*parts, *known]).encode()).hexdigest()[:32]


def _expressions(plan: Any) -> str | None:
    """The SQL of the expressions of a plan and its subqueries; None if Spark has none for one of them."""
    of_node = method(f"{_CATALYST}.plans.QueryPlan", "expressions", "scala.collection.immutable.Seq")
    to_sql = method(f"{_CATALYST}.expressions.Expression", "sql", "java.lang.String")
    try:
        plans = (plan, *scala_items(plan.subqueriesAll()))
        return "\n".join(str(each.flatMap(of_node).map(to_sql).mkString("\n")) for each in plans)
    except Py4JJavaError:
        return None


def _identity(leaf: Any, file_identity: Callable[[list[str]], str | None]) -> str | None:
    """A text that changes with the rows of a leaf, beside the texts of the plan; None if there is none."""
    name = str(leaf.nodeName())
    if name in _IN_THE_TEXT:
        return ""
    if name == "LocalRelation":
        return "" if leaf.data().isEmpty() else str(leaf.toSQL("t"))
    files = file_relation(leaf)
    if files is None:
        return None
    content = delta_version(files) or file_identity(sorted(files.inputFiles()))
    return None if content is None else f"{content} {_format(leaf.relation())}"


def _format(relation: Any) -> str:
    """The columns and options with which files are read."""
    mapper = java_class("org.apache.spark.sql.delta.util.JsonUtils").mapper()
    options = json.loads(mapper.writeValueAsString(relation.options()))
    return json.dumps([sorted(options.items()), relation.dataSchema().json(), relation.partitionSchema().json()])


def _renumbered(identifier: re.Pattern[str], text: str) -> str:
    """Replace the identifiers `#17`, `CTERelationDef 9`, … of a plan's text by `#0`, `#1`, … in order of appearance."""
    numbers: dict[str, str] = {}
    return identifier.sub(lambda found: numbers.setdefault(found.group(), f"#{len(numbers)}"), text)
