"""The keys that the format has, section by section; whatever else is written is told, with the nearest known key."""

from __future__ import annotations

from collections.abc import Iterator

from framework.deploy.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

VARIABLE_KEYS = frozenset({"default", "description", "type", "lookup"})
_BUNDLE = frozenset({
    "artifacts", "bundle", "experimental", "include", "permissions", "presets", "python", "resources", "run_as",
    "scripts", "sync", "targets", "variables", "workspace",
})  # fmt: skip
_TARGET = frozenset({
    "default", "mode", "presets", "bundle", "workspace", "artifacts", "resources", "variables", "git", "run_as",
    "sync", "permissions", "cluster_id",
})  # fmt: skip
_KINDS = frozenset({"pipelines", "jobs", "schemas", "volumes"})
_SECTIONS = {
    "bundle": frozenset({"name", "cluster_id", "databricks_cli_version", "deployment", "git", "uuid"}),
    "workspace": frozenset({
        "artifact_path", "auth_type", "azure_client_id", "azure_environment", "azure_login_app_id", "azure_tenant_id",
        "azure_use_msi", "azure_workspace_resource_id", "client_id", "file_path", "google_service_account", "host",
        "profile", "resource_path", "root_path", "state_path",
    }),
    "presets": frozenset({
        "artifacts_dynamic_version", "jobs_max_concurrent_runs", "name_prefix", "pipelines_development",
        "source_linked_deployment", "tags", "trigger_pause_status",
    }),
    "sync": frozenset({"include", "exclude", "paths"}),
    "git": frozenset({"branch", "origin_url"}),
    "run_as": frozenset({"user_name", "service_principal_name"}),
    "resources": _KINDS,
}  # fmt: skip
_BELOW = {
    ("bundle", "git"): frozenset({"branch", "origin_url"}),
    ("bundle", "deployment"): frozenset({"fail_on_active_runs", "lock"}),
    ("bundle", "deployment", "lock"): frozenset({"enabled", "force"}),
}
_ARTIFACT = frozenset({"build", "dynamic_version", "executable", "files", "path", "type"})
_PERMISSION = frozenset({"level", "user_name", "group_name", "service_principal_name"})


def check_tree(tree: Node) -> None:
    """Refuse a key that the format does not have, anywhere but inside of resources.

    Raises:
        UserError: BUNDLE_UNKNOWN_KEY, with the nearest known one; BUNDLE_FIELD_TYPE.
    """
    check_keys(tree, _BUNDLE, "a bundle")
    _check_sections(tree)
    for name, declaration in _entries(tree, "variables"):
        check_keys(declaration, VARIABLE_KEYS, f"variable {name}")
    for name, target in _entries(tree, "targets"):
        check_keys(target, _TARGET, f"target {name}")
        _check_sections(target)


def check_keys(node: Node, known: frozenset[str], where: str) -> None:
    """Refuse a key of a mapping that is not known.

    Raises:
        UserError: BUNDLE_UNKNOWN_KEY, with the nearest known one.
    """
    for key, value in node.entries(where).items():
        if key not in known:
            hint = nearest_hint(key, known)
            raise UserError("BUNDLE_UNKNOWN_KEY", location=value.place, key=key, where=where, hint=hint)


def _check_sections(tree: Node) -> None:
    for section, known in _SECTIONS.items():
        node = tree.get(section)
        if node is not None:
            check_keys(node, known, "the resources that Sluice deploys" if section == "resources" else section)
    for path, known in _BELOW.items():
        node = tree.get(*path)
        if node is not None:
            check_keys(node, known, ".".join(path))
    for name, artifact in _entries(tree, "artifacts"):
        check_keys(artifact, _ARTIFACT, f"artifact {name}")
    permissions = tree.get("permissions")
    for entry in permissions.items("permissions") if permissions is not None else ():
        check_keys(entry, _PERMISSION, "an entry of permissions")


def _entries(tree: Node, section: str) -> Iterator[tuple[str, Node]]:
    node = tree.get(section)
    yield from node.entries(section).items() if node is not None else ()
