"""Private parts of Spark, PySpark, Py4J and Delta are named in the room `engine` alone (ADR 84)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from framework.engine.registry.session_check import PARTS
from tests.support.sources import Source, sources

ROOM = "framework/engine/"

_OF_PYTHON = {name for part in PARTS if part.is_python for name in part.names if name.startswith("_")} - {"_spark"}
_OTHERS_OF_PYTHON = {"_sc", "_jrdd", "_judf", "_jwrite", "_jschema", "_jseq", "_jbuilder", "_jconf", "_jdt"}
PRIVATE_NAMES = _OF_PYTHON | _OTHERS_OF_PYTHON
"""Attributes of PySpark's and Py4J's objects."""

FOR_ALL = {"built_once", "has_class", "keep_classes_of_pyspark"}
"""What other rooms may use of `engine/jvm/java.py`: the rest names classes of the JVM."""

# Names that methods of Python have, too, or that Java's public interfaces have.
_SHARED = {"createDataFrame", "dataType", "fromJson", "getActiveSession", "isStreaming", "tableExists"}
JAVA_NAMES = {
    name for part in PARTS if not part.is_python for name in part.names if re.search(r"[a-z][A-Z]", name)
} - _SHARED
"""Methods of Scala and Java whose names are not those of Python's methods."""


def private_names(source: Source) -> Iterator[str]:
    """Yield each use of a private name in a file, with its line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found = [each.name for each in node.names if each.name.partition(".")[0] == "py4j"]
        elif isinstance(node, ast.ImportFrom):
            found = _imported(node)
        elif isinstance(node, ast.Attribute):
            of_self = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            is_private = (node.attr in PRIVATE_NAMES and not of_self) or node.attr in JAVA_NAMES
            found = [node.attr] if is_private else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr"}:
            name = node.args[1]
            found = [name.value] if isinstance(name, ast.Constant) and name.value in PRIVATE_NAMES else []
        else:
            continue
        yield from (f"{source.path}:{node.lineno} {name}" for name in found)


def _imported(node: ast.ImportFrom) -> list[str]:
    module = node.module or ""
    names = [each.name for each in node.names]
    top = module.partition(".")[0]
    if top == "py4j" or module == "pyspark.java_gateway":
        return [f"{module}.{name}" for name in names]
    if top in {"pyspark", "delta"}:
        return [f"{module}.{name}" for name in names if name.startswith("_") and not name.startswith("__")]
    return [name for name in names if module == "framework.engine.jvm.java" and name not in FOR_ALL]


def test_private_parts_are_named_in_one_room() -> None:
    """Other rooms call its typed functions."""
    outside = (source for source in sources("framework") if not source.path.startswith(ROOM))

    assert [name for source in outside for name in private_names(source)] == []


def test_each_module_of_the_registry_exists() -> None:
    """An entry names the module that uses the part."""
    modules = {source.module.removeprefix("framework.engine.") for source in sources("framework/engine")}

    assert {part.module for part in PARTS} <= modules


def test_the_search_finds_each_kind_of_name() -> None:
    """An import, an attribute, a method of Scala, a name as a text."""
    text = """
from py4j.protocol import Py4JError
from pyspark.sql.types import _parse
from framework.engine.jvm.java import java_class, built_once
plan = frame._jdf.queryExecution().collectLeaves()
hasattr(column, "_jc")
self._jvm.end()
"""
    found = [name.partition(" ")[2] for name in private_names(Source(path="x.py", text=text))]

    assert sorted(found) == [
        "_jc", "_jdf", "collectLeaves", "java_class", "py4j.protocol.Py4JError", "pyspark.sql.types._parse",
        "queryExecution",
    ]  # fmt: skip
