"""The cells of notebooks in both formats, by content: Python, SQL, text, or a notebook command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from pathlib import Path

from framework.foundation.notebooks import SUFFIX as NOTEBOOK_SUFFIX
from framework.foundation.notebooks import NotebookCell, notebook_cells

PYTHON, SQL, MODULE = "python", "sql", "module"
_OF_SUFFIX = {".py": PYTHON, ".sql": SQL}
_FIRST_LINES = {".py": "# Databricks notebook source", ".sql": "-- Databricks notebook source"}
_SEPARATOR = re.compile(r"(?:#|--) COMMAND -+\s*")
_MAGIC = re.compile(r"(?:#|--) MAGIC(?: (.*)|\s*)", re.DOTALL)
_COMMAND = re.compile(r"\s*(%%?[\w-]+|!pip\b|!)")
_COMMENT = re.compile(r"\s*(?:(?:#|--).*)?", re.DOTALL)
_MODULE = "%%sluice"
_END = "# COMMAND ----------"
_WHOLE = frozenset({PYTHON, SQL, "md", "md-sandbox", "sh", "fs", "scala", "r"})
"""Commands that apply to all lines of their cell; other commands apply to their own line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A part of a notebook.

    Args:
        kind: `python`, `module` for Python below `%%sluice`, `sql`, or the word of a notebook command, such as `md` and
            `pip`; `!` for shell commands.
        line: the line of the file where it begins.
        lines: the content, without the command word.
        shown: the first line that is not empty, as written.
        name: the name that `%%sluice` gives to its cell; empty without one.
    """

    kind: str
    line: int
    lines: tuple[str, ...]
    shown: str
    name: str = ""


def cells_of(path: Path, text: str) -> tuple[Cell, ...] | None:
    """Return the cells of a notebook in order; None if the file is not a notebook.

    Args:
        path: the file: an `.ipynb`, or a `.py` or `.sql` file that Databricks exported.
        text: its content.

    Raises:
        UserError: NOTEBOOK_UNREADABLE.
    """
    if path.suffix == NOTEBOOK_SUFFIX:
        return tuple(part for cell in notebook_cells(path, text) if not cell.is_test for part in _parts(cell))
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[0].strip() != _FIRST_LINES.get(path.suffix):
        return None
    return tuple(part for cell in _exported(lines, _OF_SUFFIX[path.suffix]) for part in _parts(cell))


def _exported(lines: list[str], language: str) -> Iterator[NotebookCell]:
    """Yield the cells of an exported notebook; lines with MAGIC, without that word, are separate from others."""
    cell: list[tuple[int, str]] = []
    for number, line in enumerate([*lines, _END], 1):
        if not _SEPARATOR.fullmatch(line):
            cell.append((number, line))
            continue
        yield from _runs(cell, language)
        cell = []


def _runs(cell: list[tuple[int, str]], language: str) -> Iterator[NotebookCell]:
    """Yield the parts of a cell with consecutive lines of the same kind.

    A cell that Databricks wrote has lines of one kind: its lines with MAGIC are mixed with comments only.
    """
    found: list[NotebookCell] = []
    for is_magic, group in groupby(cell, key=lambda each: bool(_MAGIC.fullmatch(each[1]))):
        run = [*group]
        texts = tuple(_content(line) for _, line in run) if is_magic else tuple(line for _, line in run)
        if not is_magic and all(_COMMENT.fullmatch(line) for line in texts):
            continue
        if is_magic and not _COMMAND.match(texts[0]):  # continues the cell after a comment between its lines
            if not found or not found[-1].lines[0].lstrip().startswith("%"):
                continue
            last = found.pop()
            gap = ("",) * (run[0][0] - last.line - len(last.lines))
            found.append(NotebookCell(line=last.line, lines=(*last.lines, *gap, *texts), language=language))
        else:
            found.append(NotebookCell(line=run[0][0], lines=texts, language=language))
    yield from found


def _content(line: str) -> str:
    match = _MAGIC.fullmatch(line)
    return "" if match is None else match[1] or ""


def _parts(cell: NotebookCell) -> Iterator[Cell]:
    """Yield a cell with the kind of its first command; one-line commands become separate parts."""
    first = cell.lines[cell.first]
    command, line, below = _COMMAND.match(first), cell.line + cell.first, cell.lines[cell.first + 1 :]
    kind = "" if command is None else command[1].lstrip("%")
    if command is not None and command[1] == _MODULE:
        name = first[command.end() :].strip()
        for each in _code(PYTHON, line + 1, below):
            yield replace(each, kind=MODULE, name=name) if each.kind == PYTHON else each
    elif command is None or not (command[1].startswith("%%") or kind in _WHOLE):
        yield from _code(cell.language, cell.line, cell.lines)
    elif kind == PYTHON:
        yield from _code(kind, line, (first[command.end() :].strip(), *below))
    else:
        rest = " " * command.end() + first[command.end() :]
        yield Cell(kind=kind, line=line, lines=(rest, *below), shown=first.strip())


def _code(kind: str, line: int, lines: tuple[str, ...]) -> Iterator[Cell]:
    """Yield code, after the one-line commands in it, which are removed from the code."""
    left, found = [*lines], list[Cell]()
    for place in _commands(kind, line, lines):
        if not left[place].strip():
            continue  # continues the previous line
        written = [left[place]]
        while written[-1].rstrip().endswith("\\") and place + len(written) < len(lines):
            written.append(left[place + len(written)])
        word = _COMMAND.match(written[0])
        assert word is not None
        left[place : place + len(written)] = [""] * len(written)
        indent = written[0][: len(written[0]) - len(written[0].lstrip())]
        left[place] = f"{indent}pass" if indent else ""  # it may be the only statement of a block
        text = " ".join(each.rstrip().removesuffix("\\") for each in written)
        found.append(Cell(kind=word[1].lstrip("%"), line=line + place, lines=(text[word.end() :],), shown=text.strip()))
    if any(each.strip() for each in left):
        shown = next(each.strip() for each in left if each.strip())
        found.append(Cell(kind=kind, line=line, lines=tuple(left), shown=shown))
    yield from sorted(found, key=lambda each: (each.kind in {PYTHON, SQL}, each.line))


def _commands(kind: str, line: int, lines: tuple[str, ...]) -> list[int]:
    """Return the indexes of one-line commands; in SQL they precede the code."""
    if kind == PYTHON:
        return [*NotebookCell(line=line, lines=lines, language=PYTHON).commands()]
    written = [place for place, text in enumerate(lines) if text.strip()]
    return [*takewhile(lambda place: _COMMAND.match(lines[place]), written)]
