"""The project's source, read and parsed once, for the tests of style rules."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Python file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """The dotted name of the module."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def tree(self) -> ast.Module:
        """The parsed text."""
        return _parsed(self.text)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def sources(folder: str) -> tuple[Source, ...]:
    """All Python files under a folder of the repository, by path; generated and example projects left out."""
    files = sorted((ROOT / folder).rglob("*.py"))
    texts = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}
    return tuple(
        Source(path=path, text=text)
        for path, text in texts.items()
        if "/new_project/templates/" not in path and "/fixtures/" not in path and "conformance/modules/" not in path
    )


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return all files that git tracks and that exist."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file())
