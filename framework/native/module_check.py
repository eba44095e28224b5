"""Static check of a module's source for declarations without a native form, without Spark and without running it.

Computed arguments (`**arguments`) are not checked here: they raise an error with the same condition when Databricks
loads the module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.notebooks import SUFFIX, python_of
from framework.native.interface import (
    COMPOSED,
    INTERFACE,
    LOCAL_ONLY,
    OLDER_FUNCTIONS,
    compares_rows,
    is_said,
    native_parameter,
)

_OURS = "framework.pipelines"
_NATIVE = ("pyspark.pipelines", "dlt")
_OLDER = {old: new for new, olds in OLDER_FUNCTIONS.items() for old in olds if old not in INTERFACE}
_SYNONYMS = {**_OLDER, "create_table": "table", "create_view": "temporary_view"}


def files_faults(paths: Iterable[Path]) -> tuple[UserError, ...]:
    """The faults of all Python files and notebooks among the paths, in their order."""
    return tuple(fault for path in paths for fault in module_faults(_source(path), str(path)))


def _source(path: Path) -> str:
    """The Python code of a file; nothing of a file that is not run, or can't be."""
    if path.suffix != SUFFIX:
        return path.read_text(encoding="utf-8") if path.suffix == ".py" else ""
    try:
        return python_of(path, path.read_text(encoding="utf-8"))
    except UserError:  # reported when the notebook is run
        return ""


def face_import(path: Path) -> SourceLocation | None:
    """The location where a file imports `framework.pipelines`; None if it does not, or is not valid Python."""
    try:
        tree = ast.parse(_source(path))
    except SyntaxError:
        return None
    for node, name in _imports(tree):
        if f"{name}.".startswith(f"{_OURS}."):
            return _location_of(str(path), node)
    return None


def module_faults(source: str, file: str) -> tuple[UserError, ...]:
    """The uses without a native form in a module, in order of its lines; empty if the source is not valid Python.

    Each is a UserError with its line: NATIVE_ARGUMENT_MISSING, NATIVE_FUNCTION_OURS or NATIVE_IMPORT_MISSING.
    """
    try:
        tree = ast.parse(source, file)
    except SyntaxError:  # reported when the module is run
        return ()
    imported = dict(_imported(tree))
    faults = [*_import_faults(tree, file), *_call_faults(tree, file, imported)]
    return tuple(sorted(faults, key=lambda fault: fault.location.line if fault.location is not None else 0))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each imported name with the full name of its module or function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname is not None else (alias.name, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _import_faults(tree: ast.Module, file: str) -> Iterator[UserError]:
    """Faults for imports of Sluice's engine, which is not available on Databricks."""
    for node, name in _imports(tree):
        if name.partition(".")[0] == "framework" and not f"{name}.".startswith(f"{_OURS}."):
            yield UserError("NATIVE_IMPORT_MISSING", location=_location_of(file, node), name=name)


def _imports(tree: ast.Module) -> Iterator[tuple[ast.stmt, str]]:
    """The import statements that run with the module, with the full name of each import."""
    for node in _run_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def _run_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _run_nodes(node)


def _call_faults(tree: ast.Module, file: str, imported: dict[str, str]) -> Iterator[UserError]:
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        module, _, function = _meaning(ast.unparse(node), imported).rpartition(".")
        if module == _OURS and function in LOCAL_ONLY:
            yield UserError("NATIVE_FUNCTION_LOCAL", location=_location_of(file, node), function=function)
        elif module in _NATIVE and function in {*COMPOSED, *LOCAL_ONLY}:
            yield UserError("NATIVE_FUNCTION_OURS", location=_location_of(file, node), function=function, module=module)
        elif module == _OURS or module in _NATIVE:
            call = called.get(id(node))
            yield from _argument_faults(call, function, file, ours=module == _OURS) if call is not None else ()


def _meaning(text: str, imported: dict[str, str]) -> str:
    """The full name of a dotted name, with its imported prefix resolved."""
    for name, meant in imported.items():
        if text == name or text.startswith(f"{name}."):
            return meant + text[len(name) :]
    return text


def _argument_faults(call: ast.Call, function: str, file: str, *, ours: bool) -> Iterator[UserError]:
    native = COMPOSED.get(function, (_SYNONYMS.get(function, function),))
    if not all(each in INTERFACE for each in native):
        return
    known = {name for each in native for name in (*INTERFACE[each].parameters, INTERFACE[each].decorates)}
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and compares_rows(function, node.value):
            yield UserError(
                "NATIVE_ARGUMENT_MISSING", location=_location_of(file, node), function=function, argument=node.value
            )
    for keyword in call.keywords:
        if keyword.arg is None or not _is_said(function, keyword, ours=ours):
            continue
        if native_parameter(keyword.arg) not in known:
            yield UserError(
                "NATIVE_ARGUMENT_MISSING",
                location=_location_of(file, keyword.value),
                function=function,
                argument=keyword.arg,
            )


def _is_said(function: str, keyword: ast.keyword, *, ours: bool) -> bool:
    """Whether the argument would be forwarded to the native module."""
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else ...
    return value is not None and not (ours and keyword.arg is not None and not is_said(function, keyword.arg, value))


def _location_of(file: str, node: ast.AST) -> SourceLocation:
    return SourceLocation(file=file, line=getattr(node, "lineno", 1))
