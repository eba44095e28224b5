"""Lookups of workspace objects: from a kind and a name to ids, for `lookup` variables of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from framework.deploy.api.workspace import Workspace
from framework.foundation.errors import OperationError

LookUp = Callable[[str, str], tuple[str, ...]]
"""Function from a kind and a name to the ids of all objects with that name."""

_MAX_PAGES = 1000


def workspace_lookup(workspace: Workspace) -> LookUp:
    """Return a lookup in a workspace; it reads a listing to its end, because a duplicate name must be detected."""

    def look_up(kind: str, name: str) -> tuple[str, ...]:
        listing = LOOKUP_KINDS[kind]
        found = (item for item in _listed(workspace, listing, name) if _name(item, listing) == name)
        return tuple(str(item[listing.id]) for item in found)

    return look_up


def listed_ids(workspace: Workspace, kind: str) -> tuple[str, ...]:
    """Return the ids of all objects of a kind."""
    listing = LOOKUP_KINDS[kind]
    return tuple(str(item[listing.id]) for item in _listed(workspace, listing))


def _name(item: Mapping[str, Any], listing: LookupKind) -> Any:
    value: Any = item
    for field in listing.name.split("."):
        value = value.get(field) if isinstance(value, Mapping) else None
    return value


def _listed(workspace: Workspace, listing: LookupKind, name: str | None = None) -> Iterator[Mapping[str, Any]]:
    query: dict[str, Any] = {}
    # A name that would need escaping in the service's filter is searched for among all.
    if name is not None and listing.narrowing is not None and not {*"'\"\\%_"} & set(name):
        query[listing.narrowing[0]] = listing.narrowing[1].format(name=name)
    for _ in range(_MAX_PAGES):
        page = workspace.read(listing.path, query)
        yield from page.get(listing.items) or []
        if not page.get("next_page_token"):
            return
        query = {**query, "page_token": page["next_page_token"]}
    raise OperationError(
        "WORKSPACE_CALL_FAILED", call=f"GET {listing.path}", cause=f"The list has more than {_MAX_PAGES} pages."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKind:
    """Listing of one kind of workspace object.

    Args:
        path: path of the listing.
        items: field of the response that holds the page's items.
        name: field of an item that holds its name; `a.b` is field `b` of field `a`.
        id: field of an item that holds its id, the variable's value.
        narrowing: query parameter and value that filter the listing in the service; `{name}` is the name. None if
            the listing is not filtered.
    """

    path: str
    items: str
    name: str = "name"
    id: str = "id"
    narrowing: tuple[str, str] | None = None


LOOKUP_KINDS: Mapping[str, LookupKind] = {
    "alert": LookupKind(path="/api/2.0/sql/alerts", items="results", name="display_name"),
    "cluster": LookupKind(path="/api/2.1/clusters/list", items="clusters", name="cluster_name", id="cluster_id"),
    "cluster_policy": LookupKind(path="/api/2.0/policies/clusters/list", items="policies", id="policy_id"),
    "dashboard": LookupKind(
        path="/api/2.0/lakeview/dashboards", items="dashboards", name="display_name", id="dashboard_id"
    ),
    "instance_pool": LookupKind(
        path="/api/2.0/instance-pools/list", items="instance_pools", name="instance_pool_name", id="instance_pool_id"
    ),
    "job": LookupKind(
        path="/api/2.2/jobs/list", items="jobs", name="settings.name", id="job_id", narrowing=("name", "{name}")
    ),
    "metastore": LookupKind(path="/api/2.1/unity-catalog/metastores", items="metastores", id="metastore_id"),
    "notification_destination": LookupKind(
        path="/api/2.0/notification-destinations", items="results", name="display_name"
    ),
    "pipeline": LookupKind(
        path="/api/2.0/pipelines", items="statuses", id="pipeline_id", narrowing=("filter", "name LIKE '{name}'")
    ),
    "query": LookupKind(path="/api/2.0/sql/queries", items="results", name="display_name"),
    "service_principal": LookupKind(
        path="/api/2.0/preview/scim/v2/ServicePrincipals",
        items="Resources",
        name="displayName",
        id="applicationId",
        narrowing=("filter", 'displayName eq "{name}"'),
    ),
    "warehouse": LookupKind(path="/api/2.0/sql/warehouses", items="warehouses"),
}
