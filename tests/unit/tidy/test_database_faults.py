"""The table of faults of databases names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "databases"
_ROW = re.compile(r"^\| (?P<fault>[^|]+) \| `(?P<file>[\w./]+)::(?P<test>test_\w+)` \|$")


def test_each_fault_of_a_database_has_a_test_that_exists() -> None:
    """Each row of the table in `tests/databases/README.md` names a function of a file."""
    lines = (FOLDER / "README.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    found = [_ROW.match(line) for line in rows]
    assert [line for line, match in zip(rows, found, strict=True) if match is None] == []
    named = {(match["file"], match["test"]) for match in found if match is not None}
    assert len(found) > 30
    assert [each for each in sorted(named) if each[1] not in _tests(each[0])] == []


def _tests(name: str) -> set[str]:
    path = ROOT / name if "/" in name else FOLDER / name
    if not path.is_file():
        return set()
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
