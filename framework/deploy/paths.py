"""Paths in a bundle: written relative to the file they stand in, in the workspace below the bundle's files."""

from __future__ import annotations

import posixpath

from framework.deploy.nodes import Node

# Where settings hold paths of files; `*` is every entry of a list.
_PATHS = {
    "pipelines": (
        ("root_path",),
        ("libraries", "*", "glob", "include"),
        ("libraries", "*", "file", "path"),
        ("libraries", "*", "notebook", "path"),
        ("environment", "dependencies", "*"),
    ),
    "jobs": (
        ("tasks", "*", "notebook_task", "notebook_path"),
        ("tasks", "*", "spark_python_task", "python_file"),
        ("tasks", "*", "sql_task", "file", "path"),
        ("tasks", "*", "libraries", "*", "whl"),
    ),
}


def in_workspace(kind: str, settings: Node, file_path: str) -> Node:
    """The settings with the paths of the bundle's own files turned into those of the workspace."""
    for path in _PATHS.get(kind, ()):
        settings = _at(settings, path, file_path)
    return settings


def _at(node: Node, path: tuple[str, ...], file_path: str) -> Node:
    if not path:
        return _translated(node, file_path)
    if path[0] == "*":
        if not isinstance(node.value, tuple):
            return node
        return Node(value=tuple(_at(each, path[1:], file_path) for each in node.value), place=node.place)
    below = node.get(path[0])
    if below is None:
        return node
    return Node(value={**node.value, path[0]: _at(below, path[1:], file_path)}, place=node.place)


def _translated(node: Node, file_path: str) -> Node:
    text = node.value
    if not isinstance(text, str) or not f"{text}/".startswith(("./", "../")):
        return node
    folder = posixpath.dirname(node.place.file)
    return Node(value=posixpath.normpath(posixpath.join(file_path, folder, text)), place=node.place)
