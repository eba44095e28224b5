"""Every cache is in one table of the architecture page, with its key and what ends it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

from tests.support.sources import ROOT, Source, sources

_DECORATORS = {"cache", "lru_cache"}
_MAPPINGS = {"dict", "defaultdict", "OrderedDict", "WeakKeyDictionary"}
# Mappings of a module that are no caches: nothing could be looked up again if they were lost.
_REGISTRIES = {
    "__init__._REGISTERED", "apply._locks", "cold_start._connectors", "failpoints._armed", "callbacks._callers",
    "session_global._loans", "shims._replaced",
}  # fmt: skip
_OF_USER = re.compile(r"cache(?:_folder\(\))? / \"([\w-]+)\"")


def _table() -> dict[str, str]:
    """The rows of the table: the first cell, and all others."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text("utf-8")
    section = text.partition("\n## Caches\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in section.splitlines() if line.startswith("| ")]
    return {row[0]: row[1] for row in rows[2:]}


def _name(node: ast.expr) -> str:
    """The last name of a decorator or a call, without its arguments."""
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _cached(source: Source) -> Iterator[str]:
    """Yield the functions whose results a module keeps, and its mappings that begin empty."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef) and _DECORATORS & {_name(each) for each in node.decorator_list}:
            yield node.name
    for node in source.tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        is_empty = isinstance(value, ast.Dict) and not value.keys
        is_made = isinstance(value, ast.Call) and _name(value) in _MAPPINGS
        if isinstance(target, ast.Name) and (is_empty or is_made):
            yield target.id


def test_every_cache_is_in_the_table() -> None:
    """A new one gets a row: what it holds, its key, and what ends it."""
    named = {each for cell in _table() for each in re.findall(r"`(\w+)`", cell)}
    found = {(PurePath(source.path).stem, name) for source in sources("framework") for name in _cached(source)}
    assert {f"{module}.{name}" for module, name in found} >= _REGISTRIES
    caches = {module for module, name in found if f"{module}.{name}" not in _REGISTRIES}
    assert sorted(caches - named) == []


def test_every_folder_of_the_users_cache_is_in_the_table() -> None:
    """Whoever deletes it knows what the next command costs."""
    found = {name for source in sources("framework") for name in _OF_USER.findall(source.text)}
    listed = {re.sub(r"\W*`.*", "", cell.strip("`")) for cell in _table() if "user's cache" in cell}
    assert found
    assert found == listed
