"""The files of a bundle, read into one tree: the root file, then what it includes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from framework.deploy.bundle_yaml import read_bundle_yaml
from framework.deploy.known_keys import check_tree
from framework.deploy.links import leads_outside
from framework.deploy.merging import merge
from framework.deploy.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation

ROOT_FILE = "databricks.yml"


def read_files(root: Path) -> Node:
    """The mapping of a bundle's root file with those of its includes merged in, checked for keys nobody knows.

    Raises:
        UserError: a file that can't be read, an include without a file, an unknown key, a resource declared twice.
    """
    tree = _read(root / ROOT_FILE, root)
    known = {(kind, name): settings.place for kind, name, settings in resources_of(tree)}
    for path in _included(root, tree):
        part = _read(path, root)
        if (include := part.get("include")) is not None:
            raise UserError(
                "BUNDLE_UNKNOWN_KEY", location=include.place, key="include", where="an included file", hint=""
            )
        _add_resources(known, part)
        tree = merge(tree, part)
    return tree


def resources_of(tree: Node) -> Iterator[tuple[str, str, Node]]:
    """Kind, name and settings of each resource."""
    resources = tree.get("resources")
    for kind, named in resources.entries("resources").items() if resources is not None else ():
        for name, settings in named.entries(f"resources.{kind}").items():
            yield kind, name, settings


def _read(path: Path, root: Path) -> Node:
    tree = read_bundle_yaml(path, root=root)
    check_tree(tree)
    return tree


def _included(root: Path, tree: Node) -> Iterator[Path]:
    """The included files, each once: pattern after pattern, by name within one."""
    include = tree.get("include")
    seen = {root / ROOT_FILE}
    for pattern in include.items("include") if include is not None else ():
        text = pattern.text("include")
        path = PurePosixPath(text)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise UserError("BUNDLE_INCLUDE_OUTSIDE", location=pattern.place, pattern=text)
        found = sorted(each for each in root.glob(text) if each.is_file())
        if not found:
            raise UserError("BUNDLE_INCLUDE_MATCHES_NOTHING", location=pattern.place, pattern=text)
        for each in found:
            if leads_outside(each, root):
                named = each.relative_to(root).as_posix()
                raise UserError("BUNDLE_LINK_OUTSIDE", location=pattern.place, path=named, target=each.resolve())
        yield from (each for each in found if each not in seen)
        seen.update(found)


def _add_resources(known: dict[tuple[str, str], SourceLocation], part: Node) -> None:
    """Note the resources of a file; one that another file declares is refused."""
    for kind, name, settings in resources_of(part):
        if (kind, name) in known:
            key, other = f"{kind}.{name}", known[kind, name]
            raise UserError("BUNDLE_DUPLICATE_RESOURCE", location=settings.place, key=key, other=other)
        known[kind, name] = settings.place
