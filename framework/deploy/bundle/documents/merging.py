"""Merging of settings: a mapping over another, and lists whose entries have a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from framework.deploy.bundle.documents.nodes import Node, kind_of
from framework.foundation.errors import UserError

# Kind of resource -> its lists whose entries with the same key are merged, and that key.
_KEYED = {
    "jobs": {
        "tasks": "task_key",
        "job_clusters": "job_cluster_key",
        "parameters": "name",
        "environments": "environment_key",
    },
    "pipelines": {"clusters": "label"},
}
_KEYED_EVERYWHERE = {"grants": "principal"}


def merge(base: Node, over: Node) -> Node:
    """Merge `over` into `base`: mappings recursively, lists concatenated, scalars of `over`; null changes nothing.

    A scalar has the location of the kept value; a mapping or list has the location of `base`.

    Raises:
        UserError: BUNDLE_MERGE_KINDS, a mapping, a list and a scalar (such as a reference) can't be merged.
    """
    if over.value is None:
        return base
    if base.value is None:
        return over
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        merged = dict(base.value)
        for key, value in over.value.items():
            merged[key] = merge(merged[key], value) if key in merged else value
        return Node(value=merged, location=base.location)
    if isinstance(base.value, tuple) and isinstance(over.value, tuple):
        return Node(value=base.value + over.value, location=base.location)
    if isinstance(base.value, dict | tuple) or isinstance(over.value, dict | tuple):
        kinds = {"actual": kind_of(over.value), "expected": kind_of(base.value)}
        raise UserError("BUNDLE_MERGE_KINDS", location=over.location, other=base.location, **kinds)
    return over


def collapse_resources(tree: Node) -> Node:
    """Collapse the keyed lists of all resources: tasks by `task_key`, clusters by `label`, grants by principal, ...

    References must be resolved before, because a key may contain a variable.
    """
    resources = tree.get("resources")
    if resources is None:
        return tree
    collapsed = {
        kind: Node(
            value={key: collapse(kind, each) for key, each in named.entries(kind).items()}, location=named.location
        )
        for kind, named in resources.entries("resources").items()
    }
    return tree.with_entry("resources", Node(value=collapsed, location=resources.location))


def collapse(kind: str, resource: Node) -> Node:
    """Merge the entries of a resource's keyed lists that have the same key; later entries win."""
    if not isinstance(resource.value, dict):
        return resource
    fields = {**_KEYED.get(kind, {}), **_KEYED_EVERYWHERE}
    changed = {
        field: _collapse_list(resource.value[field], partial(_key_of, key))
        for field, key in fields.items()
        if field in resource.value and isinstance(resource.value[field].value, tuple)
    }
    if "grants" in changed:
        grants = tuple(_without_duplicates(grant) for grant in changed["grants"].value)
        changed["grants"] = Node(value=grants, location=changed["grants"].location)
    return Node(value={**resource.value, **changed}, location=resource.location)


def _key_of(key: str, entry: Node) -> str:
    """Return the key of an entry; entries without a key share one."""
    found = entry.get(key)
    if key == "label":
        # A cluster without a label is the default one, and labels are case-insensitive.
        return "default" if found is None else str(found.value).lower()
    return "" if found is None else str(found.value)


def _collapse_list(entries: Node, key_of: Callable[[Node], str]) -> Node:
    kept: list[Node] = []
    index: dict[str, int] = {}
    for entry in entries.value:
        key = key_of(entry) if entry.is_map else None
        if key is not None and key in index:
            kept[index[key]] = merge(kept[index[key]], entry)
            continue
        if key is not None:
            index[key] = len(kept)
        kept.append(entry)
    return Node(value=tuple(kept), location=entries.location)


def _without_duplicates(grant: Node) -> Node:
    """Return a grant without duplicate privileges."""
    privileges = grant.get("privileges")
    if privileges is None or not isinstance(privileges.value, tuple):
        return grant
    unique: dict[str, Node] = {}
    for each in privileges.value:
        unique.setdefault(repr(each.plain()), each)
    return grant.with_entry("privileges", tuple(unique.values()))
