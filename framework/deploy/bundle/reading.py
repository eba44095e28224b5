"""Reading of a bundle's files into one tree: the root file, then its includes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from framework.deploy.bundle.checks.known_keys import TOP_KEYS, check_names
from framework.deploy.bundle.documents.findings import BundleFinding, warning
from framework.deploy.bundle.documents.merging import merge
from framework.deploy.bundle.documents.nodes import Node, read_bundle_yaml
from framework.deploy.bundle.documents.paths import leads_outside
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.yaml_documents import find_anchors

ROOT_FILE = "databricks.yml"
_FORMER_TARGETS = "environments"
_WILDCARD = re.compile(r"[*?\[]")
_SUFFIXES = frozenset({".yml", ".yaml", ".json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFiles:
    """The files of a bundle as one tree.

    Args:
        tree: the merged mappings.
        findings: warnings about unknown keys, misplaced includes, and patterns that match nothing.
    """

    tree: Node
    findings: tuple[BundleFinding, ...]


def read_files(root: Path) -> BundleFiles:
    """Read a bundle's root file and its includes, and merge them.

    Raises:
        UserError: a file that can't be read, an include without a file or with a reference, a mistyped key, a resource
            declared twice.
    """
    tree = _read(root / ROOT_FILE, root)
    findings = [*check_names(tree)]
    known = {(kind, name): settings.location for kind, name, settings in resources_of(tree)}
    included, unmatched = _included(root, tree)
    findings += unmatched
    for path in included:
        part = _read(path, root)
        findings += check_names(part)
        if (include := part.get("include")) is not None:
            findings.append(warning("BUNDLE_INCLUDE_NESTED", include.location))
            part = _without(part, {"include"})
        _add_resources(known, part)
        tree = merge(tree, part)
    return BundleFiles(tree=tree, findings=tuple(findings))


def resources_of(tree: Node) -> Iterator[tuple[str, str, Node]]:
    """Return kind, name and settings of each resource."""
    resources = tree.get("resources")
    for kind, named in resources.entries("resources").items() if resources is not None else ():
        for name, settings in named.entries(f"resources.{kind}").items():
            yield kind, name, settings


def _read(path: Path, root: Path) -> Node:
    """Read a file's mapping, without unknown top-level keys that only hold anchors (`definitions: {a: &a ...}`)."""
    tree = read_bundle_yaml(path, root=root)
    if _FORMER_TARGETS in tree.value and "targets" not in tree.value:
        targets = tree.value[_FORMER_TARGETS]
        tree = _without(tree, {_FORMER_TARGETS}).with_entry("targets", targets)
    unknown = set(tree.value) - TOP_KEYS
    if not unknown:
        return tree
    anchors = find_anchors(path)
    return _without(tree, {key for key in unknown if _holds_anchors(tree.value[key], anchors)})


def _holds_anchors(node: Node, anchors: frozenset[tuple[int, int]]) -> bool:
    """Return whether a node is an anchor, or a collection of anchors only."""
    if (node.location.line, node.location.column) in anchors:
        return True
    below = tuple(node.value.values()) if isinstance(node.value, dict) else node.value
    return isinstance(below, tuple) and bool(below) and all(_holds_anchors(each, anchors) for each in below)


def _without(tree: Node, keys: set[str]) -> Node:
    return Node(value={key: each for key, each in tree.value.items() if key not in keys}, location=tree.location)


def _included(root: Path, tree: Node) -> tuple[list[Path], list[BundleFinding]]:
    """Return the included files, each once, in the order of the patterns and of the names within a pattern.

    Patterns that match nothing are warnings, but not `resources/*/*.yml` if `resources/*.yml` has matched: the
    templates of `databricks bundle init` have both.
    """
    include = tree.get("include")
    patterns = include.items("include") if include is not None else ()
    matches = [(pattern, _matches(root, pattern)) for pattern in patterns]
    folders = {_fixed_folder(pattern.text("include")) for pattern, found in matches if found}
    unmatched = [
        warning("BUNDLE_INCLUDE_EMPTY", pattern.location, pattern=pattern.text("include"))
        for pattern, found in matches
        if not found and _fixed_folder(pattern.text("include")) not in folders
    ]
    return [*_once(root, matches)], unmatched


def _matches(root: Path, pattern: Node) -> list[Path]:
    """Return the files that a pattern of an include matches, in the order of their names."""
    text = pattern.text("include")
    if not text or PurePosixPath(text).is_absolute():
        raise UserError("BUNDLE_INCLUDE_ABSOLUTE", location=pattern.location, pattern=text)
    if "${" in text:
        raise UserError("BUNDLE_INCLUDE_REFERENCE", location=pattern.location, pattern=text)
    # `**` is `*` here: the CLI's patterns match within one folder.
    found = sorted(path for path in root.glob(text.replace("**", "*")) if path.is_file())
    if not found and not _WILDCARD.search(text):
        raise UserError("BUNDLE_INCLUDE_MATCHES_NOTHING", location=pattern.location, pattern=text)
    return found


def _fixed_folder(pattern: str) -> str:
    """Return the folders of a pattern before its first wildcard."""
    return _WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")[0]


def _once(root: Path, matches: Sequence[tuple[Node, list[Path]]]) -> Iterator[Path]:
    """Yield each matched file once; refuse those that are no files of the bundle."""
    seen = {(root / ROOT_FILE).resolve()}
    for pattern, found in matches:
        text = pattern.text("include")
        for path in found:
            # A pattern with `..` leaves the root explicitly; a link must not.
            if leads_outside(path, root) and ".." not in PurePosixPath(text).parts:
                named = path.relative_to(root).as_posix()
                raise UserError("BUNDLE_LINK_OUTSIDE", location=pattern.location, path=named, target=path.resolve())
            if path.suffix not in _SUFFIXES:
                raise UserError("BUNDLE_INCLUDE_NOT_YAML", location=pattern.location, pattern=text, path=path.name)
            if path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def _add_resources(known: dict[tuple[str, str], SourceLocation], part: Node) -> None:
    """Add the resources of a file to `known`; refuse one that another file declares."""
    for kind, name, settings in resources_of(part):
        if (kind, name) in known:
            key, other = f"{kind}.{name}", known[kind, name]
            raise UserError("BUNDLE_DUPLICATE_RESOURCE", location=settings.location, key=key, other=other)
        known[kind, name] = settings.location
