"""What a variable may look up in a workspace: where it is listed, and what of it is its name and its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupKind:
    """A listing of the workspace.

    Args:
        path: of the listing.
        items: the field of the answer that holds the page.
        name: the field of an item that is its name; `a.b` lies in field `a`.
        id: the field that a reference to the variable becomes.
        narrowing: the query by which the service leaves out others, `{name}` being the wanted one, in it escaped.
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
        path="/api/2.0/preview/scim/v2/ServicePrincipals", items="Resources", name="displayName", id="applicationId",
        narrowing=("filter", 'displayName eq "{name}"'),
    ),
    "warehouse": LookupKind(path="/api/2.0/sql/warehouses", items="warehouses"),
}  # fmt: skip
