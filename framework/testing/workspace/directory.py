"""Listings of objects that deploys only look up by name: clusters, warehouses, metastores and more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from framework.testing.workspace.exchange import Handler, Request

_PAGE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    path: str
    items: str
    name: str = "name"
    id: str = "id"


_LISTINGS: Mapping[str, _Listing] = {
    "alert": _Listing(path="sql/alerts", items="results", name="display_name"),
    "cluster": _Listing(path="clusters/list", items="clusters", name="cluster_name", id="cluster_id"),
    "cluster_policy": _Listing(path="policies/clusters/list", items="policies", id="policy_id"),
    "dashboard": _Listing(path="lakeview/dashboards", items="dashboards", name="display_name", id="dashboard_id"),
    "instance_pool": _Listing(
        path="instance-pools/list", items="instance_pools", name="instance_pool_name", id="instance_pool_id"
    ),
    "metastore": _Listing(path="unity-catalog/metastores", items="metastores", id="metastore_id"),
    "notification_destination": _Listing(path="notification-destinations", items="results", name="display_name"),
    "query": _Listing(path="sql/queries", items="results", name="display_name"),
    "service_principal": _Listing(
        path="preview/scim/v2/ServicePrincipals", items="Resources", name="displayName", id="applicationId"
    ),
    "warehouse": _Listing(path="sql/warehouses", items="warehouses"),
}


class Directory:
    """Names and ids of objects by kind, listed in pages."""

    def __init__(self) -> None:
        self._entries: dict[str, list[tuple[str, str]]] = {kind: [] for kind in _LISTINGS}

    def add(self, kind: str, name: str, id: str) -> None:
        """Add an object of a kind; names may repeat."""
        self._entries[kind].append((name, id))

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each listing."""
        return {f"GET /api/V/{listing.path}": self._handler(kind) for kind, listing in _LISTINGS.items()}

    def _handler(self, kind: str) -> Handler:
        listing = _LISTINGS[kind]

        def answer(request: Request) -> dict[str, Any]:
            first = int(request.query.get("page_token") or 0)
            entries = self._entries[kind]
            page = [{listing.name: entry[0], listing.id: entry[1]} for entry in entries[first : first + _PAGE]]
            more = {"next_page_token": str(first + _PAGE)} if first + _PAGE < len(entries) else {}
            return {listing.items: page} | more

        return answer
