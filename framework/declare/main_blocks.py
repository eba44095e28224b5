"""Blocks `if __name__ == "__main__":`, which Databricks runs: each file of a pipeline is the main module there.

Only files that were written for Databricks have them run: notebooks, and modules that import `dlt`, which exists only
there. In other modules such a block is for the module as a script, and may start a pipeline itself.
"""

from __future__ import annotations

import ast


def with_main_blocks(tree: ast.Module, *, is_notebook: bool) -> ast.Module:
    """Return the code of a file that a pipeline names, with the blocks that Databricks runs outside of their condition.

    Args:
        tree: the code. Its module keeps its name, by which its functions are pickled.
        is_notebook: whether the file is a notebook.
    """
    if not is_notebook and not any(_imports_dlt(statement) for statement in ast.walk(tree)):
        return tree
    body = [each for statement in tree.body for each in (_block(statement) or (statement,))]
    return ast.Module(body=body, type_ignores=tree.type_ignores)


def _imports_dlt(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Import):
        return any(alias.name == "dlt" for alias in statement.names)
    return isinstance(statement, ast.ImportFrom) and statement.module == "dlt" and statement.level == 0


def _block(statement: ast.stmt) -> list[ast.stmt]:
    """The statements below `if __name__ == "__main__":`; none of another statement."""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return []
    compared = statement.test
    sides = {ast.unparse(side) for side in (compared.left, *compared.comparators)}
    is_main = isinstance(compared.ops[0], ast.Eq) and sides == {"__name__", "'__main__'"}
    return statement.body if is_main else []
