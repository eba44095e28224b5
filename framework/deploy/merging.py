"""Merging: one mapping over another, and lists that collapse by a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from framework.deploy.nodes import Node

# Kind of resource -> its lists whose entries are one when their key is the same, and that key.
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
    """`over` over `base`: mappings deep, lists one after the other, all else as `over` has it; null changes nothing.

    Places are those of what won; a mapping keeps its first.
    """
    if over.value is None:
        return base
    if isinstance(base.value, dict) and isinstance(over.value, dict):
        merged = dict(base.value)
        for key, value in over.value.items():
            merged[key] = merge(merged[key], value) if key in merged else value
        return Node(value=merged, place=base.place)
    if isinstance(base.value, tuple) and isinstance(over.value, tuple):
        return Node(value=base.value + over.value, place=base.place)
    return over


def collapse(kind: str, resource: Node) -> Node:
    """A resource whose keyed lists hold each key once: later entries merged over the first of their key."""
    if not isinstance(resource.value, dict):
        return resource
    fields = {**_KEYED.get(kind, {}), **_KEYED_EVERYWHERE}
    changed = {
        field: _collapse_list(resource.value[field], partial(_key_of, key))
        for field, key in fields.items()
        if field in resource.value and isinstance(resource.value[field].value, tuple)
    }
    return Node(value={**resource.value, **changed}, place=resource.place)


def _key_of(key: str, entry: Node) -> str | None:
    found = entry.get(key)
    if key == "label":
        # A cluster without a label is the default one, and labels know no case.
        return "default" if found is None else str(found.value).lower()
    return None if found is None else str(found.value)


def _collapse_list(entries: Node, key_of: Callable[[Node], str | None]) -> Node:
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
    return Node(value=tuple(kept), place=entries.place)
