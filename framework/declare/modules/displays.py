"""Statements of modules that only show rows, such as `display(df)`: they declare nothing, and are skipped.

Their arguments are not evaluated, because datasets have no rows while modules are loaded.
"""

from __future__ import annotations

import ast

from framework.declare.registry import add_note
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

_NAMES = frozenset({"display", "displayHTML"})


def without_displays(tree: ast.Module, path: str) -> ast.Module:
    """Return a module's code without `display` statements outside of functions; add a note for each.

    Args:
        tree: the code.
        path: its file.
    """
    own = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    kept = []
    for statement in tree.body:
        name = _shown_by(statement)
        if name is None or name in own:
            kept.append(statement)
            continue
        location = SourceLocation(file=path, line=statement.lineno)
        add_note(UserError("STATEMENT_PASSED_OVER", location=location, statement=f"{name}(…)"))
    return ast.Module(body=kept, type_ignores=tree.type_ignores)


def _shown_by(statement: ast.stmt) -> str | None:
    """Return the name of the called function if a statement only shows rows; else None."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    called = statement.value.func
    if isinstance(called, ast.Name) and called.id in _NAMES:
        return called.id
    is_method = isinstance(called, ast.Attribute) and called.attr == "display" and not statement.value.args
    return "display" if is_method else None
