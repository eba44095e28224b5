"""Definitions in cells that explore: their imports, functions, classes and constants, without what the cells do.

A notebook with `%%sluice` cells has its declarations in them. Its other cells run updates and show rows when a person
runs them; as a library, they only supply the names that the declarations use.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WIDGETS = "dbutils.widgets."


def definitions_in(lines: Sequence[str], *, undecorated: bool = False) -> tuple[str, ...]:
    """Return the lines of a cell with only its definitions; other lines are empty.

    Definitions are imports, functions, classes, names of literal values, and the widgets of `dbutils`. A cell that is
    not valid Python stays whole, so that its error is reported.

    Args:
        lines: the Python code of the cell, without notebook commands.
        undecorated: whether functions with decorators, which may declare datasets, are left out.
    """
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return tuple(lines)
    kept: set[int] = set()
    for statement in tree.body:
        decorators = getattr(statement, "decorator_list", [])
        if _defines(statement) and not (undecorated and decorators):
            first = min([statement.lineno, *(each.lineno for each in decorators)])
            kept.update(range(first, (statement.end_lineno or first) + 1))
    return tuple(line if number in kept else "" for number, line in enumerate(lines, 1))


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, _DEFINITIONS):
        return True
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return statement.value is not None and _is_literal(statement.value)
    return isinstance(statement, ast.Expr) and ast.unparse(statement.value).startswith(_WIDGETS)


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True
