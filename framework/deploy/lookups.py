"""Lookups: the ids of the things of a workspace that have a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from framework.deploy.lookup_kinds import LOOKUP_KINDS, LookupKind
from framework.deploy.workspace import Workspace
from framework.foundation.errors import OperationError

LookUp = Callable[[str, str], tuple[str, ...]]
"""From a kind and a name to the ids of all that have it."""

_MOST_PAGES = 1000


def workspace_lookup(workspace: Workspace) -> LookUp:
    """Looks up names in a workspace, whose listing is read to its end: a name that two share must be noticed."""

    def look_up(kind: str, name: str) -> tuple[str, ...]:
        listing = LOOKUP_KINDS[kind]
        found = (item for item in _listed(workspace, listing, name) if _name(item, listing) == name)
        return tuple(str(item[listing.id]) for item in found)

    return look_up


def _name(item: Mapping[str, Any], listing: LookupKind) -> Any:
    value: Any = item
    for field in listing.name.split("."):
        value = value.get(field) if isinstance(value, Mapping) else None
    return value


def _listed(workspace: Workspace, listing: LookupKind, name: str) -> Iterator[Mapping[str, Any]]:
    query: dict[str, Any] = {}
    # A name that would need escaping in the service's filter is searched for among all.
    if listing.narrowing is not None and not {*"'\"\\%_"} & set(name):
        query[listing.narrowing[0]] = listing.narrowing[1].format(name=name)
    for _ in range(_MOST_PAGES):
        page = workspace.read(listing.path, query)
        yield from page.get(listing.items) or []
        if not page.get("next_page_token"):
            return
        query = {**query, "page_token": page["next_page_token"]}
    raise OperationError("WORKSPACE_CALL_FAILED", call=f"GET {listing.path}", cause=f"more than {_MOST_PAGES} pages")
