"""Modules, functions and values keep the shape that the house rules give them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import PurePath

import pytest

from tests.support.sources import Source, sources

_MODULE_LINES = 450
_FUNCTION_LINES = 60
_FOLDER_MODULES = 20
_WORDS_FOR_NOTHING = ("util", "utils", "helper", "helpers", "common", "manager", "misc")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(source: Source) -> Iterator[Definition]:
    """Every class, function and method of the file."""
    return (
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    """The public classes and functions of a body, and the public methods of its classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def body_lines(node: Definition) -> int:
    """The lines of a definition without those of its docstring."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return lines


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """A module over 450 lines has two subjects."""
    long = {source.path: len(source.text.splitlines()) for source in sources("framework")}
    assert {path: lines for path, lines in long.items() if lines > _MODULE_LINES} == {}


def test_no_folder_has_more_modules_than_a_reader_can_scan() -> None:
    """A folder with over 20 modules has two subjects."""
    modules = [PurePath(source.path) for source in sources("framework")]
    folders = Counter(str(path.parent) for path in modules if path.name != "__init__.py")
    assert {folder: count for folder, count in folders.items() if count > _FOLDER_MODULES} == {}


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def test_the_imports_of_a_module_come_first_and_those_for_types_last() -> None:
    """A reader finds everything that a module uses in one block."""
    scattered = []
    for source in sources("framework"):
        body = [node for node in source.tree.body if not isinstance(node, ast.Expr)]
        head = list(takewhile(lambda node: isinstance(node, ast.Import | ast.ImportFrom), body))
        rest = body[len(head) + (len(head) < len(body) and _is_for_types(body[len(head)])) :]
        scattered += [
            f"{source.path}:{node.lineno}"
            for node in rest
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_for_types(node)
        ]
    assert scattered == []


def test_no_function_is_longer_than_a_screen() -> None:
    """A function over 60 lines has two tasks."""
    long = [
        f"{source.path}:{node.lineno} {node.name}: {body_lines(node)} lines"
        for source in sources("framework")
        for node in definitions(source)
        if not isinstance(node, ast.ClassDef) and body_lines(node) > _FUNCTION_LINES
    ]
    assert long == []


def test_every_public_name_says_what_it_promises() -> None:
    """Modules, classes, functions and methods without an underscore have a docstring."""
    silent = [source.path for source in sources("framework") if source.text and not ast.get_docstring(source.tree)]
    silent += [
        f"{source.path}:{node.lineno} {node.name}"
        for source in sources("framework")
        for node in public_definitions(source.tree.body)
        if not ast.get_docstring(node) and "overload" not in map(ast.unparse, node.decorator_list)
    ]
    assert silent == []


def test_every_test_says_which_promise_it_holds_us_to() -> None:
    """Test modules and test functions have a docstring."""
    silent = [
        f"{source.path}:{node.lineno} {node.name}"
        for source in sources("tests")
        for node in definitions(source)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert silent == []


@pytest.mark.parametrize("folder", ["framework", "tests"])
def test_no_module_is_named_after_nothing(folder: str) -> None:
    """A module is named after one subject, not `utils` or the like."""
    parts = {source.path: source.module.replace("_", ".").split(".") for source in sources(folder)}
    assert [path for path, words in parts.items() if set(words) & set(_WORDS_FOR_NOTHING)] == []


@pytest.mark.parametrize("folder", ["framework", "tests"])
def test_annotations_cost_nothing_at_run_time(folder: str) -> None:
    """Every module with code starts with `from __future__ import annotations`."""
    missing = [
        source.path
        for source in sources(folder)
        if len(source.tree.body) > 1 and "from __future__ import annotations" not in source.text
    ]
    assert missing == []


def test_dataclasses_are_values() -> None:
    """Each dataclass is frozen."""
    loose = {
        f"{source.module}.{node.name}"
        for source in sources("framework")
        for node in definitions(source)
        for mark in node.decorator_list
        if "dataclass" in ast.unparse(mark) and "frozen=True" not in ast.unparse(mark)
    }
    assert loose == set()


def test_no_module_imports_itself_in_a_circle() -> None:
    """Imports form no cycle, lazy and type-only ones counted; `prepare` raises CycleError with the circle."""
    known = {source.module for source in sources("framework")}
    graph = {source.module: imported(source, known) - {source.module} for source in sources("framework")}
    TopologicalSorter(graph).prepare()


def imported(source: Source, known: set[str]) -> set[str]:
    """The modules of ours that a file imports anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & known) or {node.module}
    return found & known
