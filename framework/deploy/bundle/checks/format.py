"""The sections of a bundle file and its resources as types: their keys and the types of their values.

`field_checks` uses these types to check names and to convert values. The types have no instances: a bundle stays a tree
of nodes. The fields of resources come from `databricks-sdk`, whose dataclasses have the names and types of the
service's fields; fields that only bundles have (permissions, grants, lifecycle) are added here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any, Literal, TypedDict, get_type_hints

UNDEPLOYED_KINDS = frozenset(
    {
        "alerts",
        "apps",
        "catalogs",
        "clusters",
        "dashboards",
        "database_catalogs",
        "database_instances",
        "experiments",
        "external_locations",
        "genie_spaces",
        "instance_pools",
        "job_runs",
        "model_serving_endpoints",
        "models",
        "postgres_branches",
        "postgres_catalogs",
        "postgres_databases",
        "postgres_endpoints",
        "postgres_projects",
        "postgres_roles",
        "postgres_synced_tables",
        "quality_monitors",
        "registered_models",
        "secret_scopes",
        "secrets",
        "sql_warehouses",
        "synced_database_tables",
        "vector_search_endpoints",
        "vector_search_indexes",
    }
)
"""Kinds of resources that the format has and Sluice does not deploy."""

KINDS = frozenset({"jobs", "pipelines", "schemas", "volumes"})
"""Kinds of resources that Sluice deploys."""


class Git(TypedDict, total=False):
    """`git` of a bundle or a target."""

    branch: str
    origin_url: str


class Lock(TypedDict, total=False):
    """`bundle.deployment.lock`."""

    enabled: bool
    force: bool


class Deployment(TypedDict, total=False):
    """`bundle.deployment`."""

    fail_on_active_runs: bool
    lock: Lock


class BundleSection(TypedDict, total=False):
    """`bundle`."""

    name: str
    cluster_id: str
    compute_id: str
    databricks_cli_version: str
    deployment: Deployment
    engine: Literal["direct", "terraform"]
    git: Git
    uuid: str


class Workspace(TypedDict, total=False):
    """`workspace`."""

    account_id: str
    artifact_path: str
    auth_type: str
    azure_client_id: str
    azure_environment: str
    azure_login_app_id: str
    azure_tenant_id: str
    azure_use_msi: bool
    azure_workspace_resource_id: str
    client_id: str
    experimental_is_unified_host: bool
    file_path: str
    google_service_account: str
    host: str
    profile: str
    resource_path: str
    root_path: str
    state_path: str
    workspace_id: str


class Presets(TypedDict, total=False):
    """`presets`."""

    artifacts_dynamic_version: bool
    jobs_max_concurrent_runs: int
    name_prefix: str
    pipelines_development: bool
    source_linked_deployment: bool
    tags: dict[str, str]
    trigger_pause_status: Literal["PAUSED", "UNPAUSED"]


class Sync(TypedDict, total=False):
    """`sync`."""

    include: list[str]
    exclude: list[str]
    paths: list[str]


class RunAs(TypedDict, total=False):
    """`run_as`."""

    user_name: str
    service_principal_name: str


class Permission(TypedDict, total=False):
    """An entry of `permissions`."""

    level: str
    user_name: str
    group_name: str
    service_principal_name: str


class ArtifactFile(TypedDict, total=False):
    """An entry of `files` of an artifact."""

    source: str


class Artifact(TypedDict, total=False):
    """An entry of `artifacts`."""

    build: str
    dynamic_version: bool
    executable: str
    files: list[ArtifactFile]
    path: str
    type: Literal["whl", "jar"]


class Variable(TypedDict, total=False):
    """The declaration of a variable."""

    default: Any
    description: str
    lookup: dict[str, str]
    type: Literal["complex", "string", ""]
    value: Any


class Experimental(TypedDict, total=False):
    """`experimental`."""

    immutable_folder: bool
    pydabs: Any
    python: Any
    python_wheel_wrapper: bool
    record_deployment_history: bool
    scripts: Any
    skip_artifact_cleanup: bool
    skip_name_prefix_for_schema: bool
    use_legacy_run_as: bool


class Common(TypedDict, total=False):
    """Sections of a bundle that a target may change."""

    artifacts: dict[str, Artifact]
    bundle: BundleSection
    permissions: list[Permission]
    presets: Presets
    resources: Any
    run_as: RunAs
    sync: Sync
    workspace: Workspace


class Target(Common, total=False):
    """An entry of `targets`; its variables may be values or declarations."""

    cluster_id: str
    compute_id: str
    default: bool
    git: Git
    mode: str
    variables: Any


class BundleFile(Common, total=False):
    """A file of a bundle."""

    experimental: Experimental
    include: list[str]
    python: Any
    scripts: Any
    targets: dict[str, Target]
    variables: dict[str, Variable]


class MergedBundle(BundleFile, total=False):
    """A bundle whose target is merged into it."""

    cluster_id: str
    compute_id: str
    mode: str


class Lifecycle(TypedDict, total=False):
    """`lifecycle` of a resource."""

    prevent_destroy: bool


class Grant(TypedDict, total=False):
    """An entry of `grants`."""

    principal: str
    privileges: list[str]


@functools.cache
def resource_types(kind: str) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Return the types of a kind's fields by name, and the fields that the service requires."""
    from databricks.sdk.service.catalog import SchemasAPI, VolumesAPI
    from databricks.sdk.service.jobs import JobSettings
    from databricks.sdk.service.pipelines import PipelinesAPI

    if kind == "jobs":
        hints, required = get_type_hints(JobSettings), frozenset[str]()
    else:
        create = {"pipelines": PipelinesAPI.create, "schemas": SchemasAPI.create, "volumes": VolumesAPI.create}[kind]
        hints, required = _arguments(create)
    access: Any = list[Permission] if kind in {"jobs", "pipelines"} else list[Grant]
    name = "permissions" if kind in {"jobs", "pipelines"} else "grants"
    extra = {name: access, "lifecycle": Lifecycle}
    return hints | extra, required - {"volume_type"}


def _arguments(create: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the arguments of a method that creates a resource, and those without a default."""
    hints = get_type_hints(create)
    hints.pop("return", None)
    parameters = inspect.signature(create).parameters
    return hints, frozenset(name for name in hints if parameters[name].default is inspect.Parameter.empty)
