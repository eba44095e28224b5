"""Paths of a bundle: translated to workspace paths, with the patterns in libraries expanded and links refused."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from framework.deploy.bundle.documents.nodes import Node
from framework.foundation.errors import UserError

_ELSEWHERE = re.compile(r"/|\w[\w+.-]*:|~|\$\{|\{\{")
_OPTION = re.compile(r"(-r|-e|--requirement|--editable)\s+(?![/'\"$])(?!\w+:)")
_DESIGNER = ".designer.ipynb"
_PACKAGE = re.compile(r"\.(whl|jar)$")
_EXTENSION = re.compile(r"\.(py|sql|r|scala|ipynb)$", re.IGNORECASE)
_NOT_NOTEBOOKS = frozenset({"spark_python_task", "sql_task", "dbt_task", "notebook_task"})
_PATTERN = frozenset("*?[")
_FIRST_LINE = "Databricks notebook source"
_COMMENTS = {".py": "# ", ".r": "# ", ".scala": "// ", ".sql": "-- "}


class _Role(Enum):
    """Role of a path."""

    FOLDER = "an existing folder"
    PATTERN = "a folder or a pattern, which may be missing"
    FILE = "an existing file"
    SOURCE = "an existing source file that is not a notebook"
    NOTEBOOK = "an existing notebook, whose extension the workspace removes"
    LIBRARY = "a package to upload, or a requirement of another kind"


# Fields that hold paths; `*` is every entry of a list.
_PIPELINE: Mapping[tuple[str, ...], _Role] = {
    ("root_path",): _Role.FOLDER,
    ("libraries", "*", "glob", "include"): _Role.PATTERN,
    ("libraries", "*", "file", "path"): _Role.SOURCE,
    ("libraries", "*", "notebook", "path"): _Role.NOTEBOOK,
    ("environment", "dependencies", "*"): _Role.LIBRARY,
}
_TASK: Mapping[tuple[str, ...], _Role] = {
    ("notebook_task", "notebook_path"): _Role.NOTEBOOK,
    ("spark_python_task", "python_file"): _Role.SOURCE,
    ("sql_task", "file", "path"): _Role.FILE,
    ("dbt_task", "project_directory"): _Role.PATTERN,
    ("libraries", "*", "whl"): _Role.LIBRARY,
    ("libraries", "*", "jar"): _Role.LIBRARY,
    ("libraries", "*", "requirements"): _Role.FILE,
}
_JOB: Mapping[tuple[str, ...], _Role] = {
    **{("tasks", "*", *path): role for path, role in _TASK.items()},
    **{("tasks", "*", "for_each_task", "task", *path): role for path, role in _TASK.items()},
    ("environments", "*", "spec", "dependencies", "*"): _Role.LIBRARY,
}
_PATHS = {"pipelines": _PIPELINE, "jobs": _JOB}


def in_workspace(kind: str, settings: Node, *, root: Path, file_path: str) -> Node:
    """Translate the paths of the bundle's own files in a resource's settings to workspace paths.

    A package becomes `./dist/x.whl`, relative to the bundle's root: its workspace path is known once it is built.

    Raises:
        UserError: BUNDLE_PATH_OUTSIDE; BUNDLE_PATH_LINK; BUNDLE_PATH_MISSING; BUNDLE_NOT_A_NOTEBOOK.
    """
    if kind == "jobs" and settings.get("git_source") is not None:
        return settings
    if kind == "pipelines":
        settings = _expand_libraries(settings, root)
    translation = _Translation(root, file_path)
    for path, role in _PATHS.get(kind, {}).items():
        settings = translation.at(settings, path, role)
    return settings


class _Translation:
    """Translates the paths of one resource."""

    def __init__(self, root: Path, file_path: str) -> None:
        self._root = root
        self._file_path = file_path

    def at(self, node: Node, path: tuple[str, ...], role: _Role) -> Node:
        if not path:
            return self._translated(node, role)
        if path[0] == "*":
            if not isinstance(node.value, tuple):
                return node
            return node.with_value(tuple(self.at(each, path[1:], role) for each in node.value))
        below = node.get(path[0])
        if below is None or (path[0] in _NOT_NOTEBOOKS and _is_from_git(below)):
            return node
        return node.with_value({**node.value, path[0]: self.at(below, path[1:], role)})

    def _translated(self, node: Node, role: _Role) -> Node:
        text = node.value
        if isinstance(text, str) and role is _Role.LIBRARY and (option := _OPTION.match(text)):
            path = self._translated(node.with_value(text[option.end() :]), _Role.FILE)
            return node.with_value(f"{option[0]}{path.value}")
        if not isinstance(text, str) or not _is_local(text, role):
            return node
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(node.location.file), text))
        if inside == ".." or inside.startswith("../"):
            raise UserError("BUNDLE_PATH_OUTSIDE", location=node.location, path=text, root=self._root)
        if role is _Role.LIBRARY and _PACKAGE.search(inside):
            return node.with_value(f"./{inside}")
        if role not in (_Role.PATTERN, _Role.LIBRARY):
            inside = self._found(inside, node, role)
        return node.with_value(posixpath.normpath(posixpath.join(self._file_path, inside)))

    def _found(self, inside: str, node: Node, role: _Role) -> str:
        link = first_link(self._root, inside)
        if link is not None:
            raise UserError("BUNDLE_PATH_LINK", location=node.location, path=node.value, link=link)
        path = self._root / inside
        if not (path.is_dir() if role is _Role.FOLDER else path.is_file()):
            raise UserError("BUNDLE_PATH_MISSING", location=node.location, path=node.value, inside=inside)
        if role in (_Role.SOURCE, _Role.NOTEBOOK) and _is_notebook(path) != (role is _Role.NOTEBOOK):
            kinds = ("a notebook", "a regular file") if role is _Role.SOURCE else ("a regular file", "a notebook")
            raise UserError(
                "BUNDLE_NOT_A_NOTEBOOK",
                location=node.location,
                path=node.value,
                inside=inside,
                actual=kinds[0],
                expected=kinds[1],
            )
        if role is not _Role.NOTEBOOK or inside.endswith(_DESIGNER):
            return inside
        return _EXTENSION.sub("", inside)


def packages_of(kind: str, settings: object) -> Iterator[str]:
    """Return the bundle's own packages in plain settings, as `./dist/x.whl`."""
    for path, role in _PATHS.get(kind, {}).items():
        if role is _Role.LIBRARY:
            yield from (text for text in _texts(settings, path) if text.startswith("./") and _PACKAGE.search(text))


def _texts(value: object, path: tuple[str, ...]) -> Iterator[str]:
    if not path:
        yield from [value] if isinstance(value, str) else []
    elif path[0] == "*":
        for each in value if isinstance(value, list) else []:
            yield from _texts(each, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from _texts(value[path[0]], path[1:])


def _is_local(text: str, role: _Role) -> bool:
    """Return whether a text is a path of the bundle: not a workspace path, URL, parameter or name of a package."""
    if not text or _ELSEWHERE.match(text):
        return False
    return role is not _Role.LIBRARY or text.startswith(("./", "../")) or _PACKAGE.search(text) is not None


def _is_from_git(task: Node) -> bool:
    source = task.get("source")
    return source is not None and source.value == "GIT"


def _expand_libraries(settings: Node, root: Path) -> Node:
    """Expand the patterns in a pipeline's `file` and `notebook` libraries; workspace paths stay.

    A pattern without a match stays, and is reported later as a missing path.
    """
    libraries = settings.get("libraries")
    if libraries is None or not isinstance(libraries.value, tuple):
        return settings
    entries = tuple(each for entry in libraries.value for each in _expanded(entry, root))
    return settings.with_entry("libraries", Node(value=entries, location=libraries.location))


def _is_notebook(path: Path) -> bool:
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
            yield entry.with_entry(kind, {"path": path.with_value(name)})
        if found:
            return
    yield entry


def _is_local_pattern(text: str) -> bool:
    return bool(_PATTERN & set(text)) and not text.startswith(("/", "${", "~")) and ":" not in text


def leads_outside(path: Path, root: Path) -> bool:
    """Return whether a path with its links resolved is outside of a folder; True also for a cycle of links."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return True


def first_link(root: Path, path: str) -> str | None:
    """Return the first part of a path below a folder that is a link; None if no part is a link."""
    current = Path()
    for part in Path(path).parts:
        current /= part
        if (root / current).is_symlink():
            return current.as_posix()
    return None
