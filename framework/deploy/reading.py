"""The files of a bundle, read into one tree: the root file, then what it includes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from framework.deploy.bundle_yaml import read_bundle_yaml
from framework.deploy.merging import merge
from framework.deploy.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

ROOT_FILE = "databricks.yml"
_TARGET_KEYS = frozenset({
    "default", "mode", "presets", "bundle", "workspace", "artifacts", "resources", "variables", "git", "run_as",
    "sync", "permissions",
})  # fmt: skip
_KEYS = frozenset({
    "artifacts", "bundle", "experimental", "include", "permissions", "presets", "python", "resources", "run_as",
    "scripts", "sync", "targets", "variables", "workspace",
})  # fmt: skip
_DEPLOYED_KINDS = frozenset({"pipelines", "jobs", "schemas", "volumes"})


def read_files(root: Path) -> Node:
    """The mapping of a bundle's root file with those of its includes merged in, checked for keys nobody knows.

    Raises:
        UserError: a file that can't be read, an include without a file, an unknown key, a resource declared twice.
    """
    tree = _checked(read_bundle_yaml(root / ROOT_FILE, root=root))
    for path in _included(root, tree):
        part = _checked(read_bundle_yaml(path, root=root))
        if (include := part.get("include")) is not None:
            raise UserError(
                "BUNDLE_UNKNOWN_KEY", location=include.place, key="include", where="an included file", hint=""
            )
        _refuse_doubles(tree, part)
        tree = merge(tree, part)
    return tree


def check_keys(node: Node, known: frozenset[str], where: str) -> None:
    """Refuse a key that the format does not have.

    Raises:
        UserError: BUNDLE_UNKNOWN_KEY, with the nearest known one.
    """
    for key, value in node.entries(where).items():
        if key not in known:
            hint = nearest_hint(key, known)
            raise UserError("BUNDLE_UNKNOWN_KEY", location=value.place, key=key, where=where, hint=hint)


def resources_of(tree: Node) -> Iterator[tuple[str, str, Node]]:
    """Kind, name and settings of each resource."""
    resources = tree.get("resources")
    for kind, named in resources.entries("resources").items() if resources is not None else ():
        for name, settings in named.entries(f"resources.{kind}").items():
            yield kind, name, settings


def _checked(tree: Node) -> Node:
    check_keys(tree, _KEYS, "a bundle")
    _check_kinds(tree)
    targets = tree.get("targets")
    for name, target in targets.entries("targets").items() if targets is not None else ():
        if target.value is not None:
            check_keys(target, _TARGET_KEYS, f"target {name}")
            _check_kinds(target)
    return tree


def _check_kinds(tree: Node) -> None:
    resources = tree.get("resources")
    if resources is not None:
        check_keys(resources, _DEPLOYED_KINDS, "the resources that Sluice deploys")


def _included(root: Path, tree: Node) -> Iterator[Path]:
    include = tree.get("include")
    for pattern in include.items("include") if include is not None else ():
        text = pattern.text("include")
        found = sorted(path for path in root.glob(text) if path.is_file() and path.name != ROOT_FILE)
        if not found:
            raise UserError("BUNDLE_INCLUDE_MATCHES_NOTHING", location=pattern.place, pattern=text)
        yield from found


def _refuse_doubles(tree: Node, part: Node) -> None:
    before: dict[tuple[str, str], SourceLocation] = {
        (kind, name): settings.place for kind, name, settings in resources_of(tree)
    }
    for kind, name, settings in resources_of(part):
        if (kind, name) in before:
            key, other = f"{kind}.{name}", before[kind, name]
            raise UserError("BUNDLE_DUPLICATE_RESOURCE", location=settings.place, key=key, other=other)
