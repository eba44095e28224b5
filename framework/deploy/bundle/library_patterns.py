"""Patterns in the libraries of pipelines, expanded to one entry for each matching file."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from framework.deploy.bundle.nodes import Node

_PATTERN = frozenset("*?[")
_FIRST_LINE = "Databricks notebook source"
_COMMENTS = {".py": "# ", ".r": "# ", ".scala": "// ", ".sql": "-- "}


def expand_libraries(settings: Node, root: Path) -> Node:
    """Expand the patterns in a pipeline's `file` and `notebook` libraries; workspace paths stay.

    A pattern without a match stays, and is reported later as a missing path.
    """
    libraries = settings.get("libraries")
    if libraries is None or not isinstance(libraries.value, tuple):
        return settings
    entries = tuple(each for entry in libraries.value for each in _expanded(entry, root))
    return settings.with_entry("libraries", Node(value=entries, location=libraries.location))


def is_notebook(path: Path) -> bool:
    """Return whether a file is a notebook, by its extension and its first line."""
    suffix = path.suffix.lower()
    if suffix == ".ipynb":
        return True
    if suffix not in _COMMENTS:
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip() == _COMMENTS[suffix] + _FIRST_LINE


def _expanded(entry: Node, root: Path) -> Iterator[Node]:
    for kind in ("file", "notebook"):
        path = entry.get(kind, "path")
        if path is None or not isinstance(path.value, str) or not _is_local_pattern(path.value):
            continue
        folder = posixpath.dirname(path.location.file)
        found = sorted(each for each in (root / folder).glob(path.value.replace("**", "*")) if each.is_file())
        for each in found:
            name = Path(os.path.relpath(each, root / folder)).as_posix()
            yield entry.with_entry(kind, {"path": Node(value=name, location=path.location)})
        if found:
            return
    yield entry


def _is_local_pattern(text: str) -> bool:
    return bool(_PATTERN & set(text)) and not text.startswith(("/", "${", "~")) and ":" not in text
