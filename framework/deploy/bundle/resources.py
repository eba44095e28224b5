"""The resources of a target, from its resolved tree: fields checked, then mode, presets, access and paths applied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framework.deploy.bundle.checks.access import check_run_as, with_access
from framework.deploy.bundle.checks.field_checks import FieldChecks
from framework.deploy.bundle.checks.format import KINDS, UNDEPLOYED_KINDS, resource_types
from framework.deploy.bundle.checks.references import references_in
from framework.deploy.bundle.documents.bundle import FrozenSpec, Resource
from framework.deploy.bundle.documents.findings import BundleFinding, error, warning
from framework.deploy.bundle.documents.nodes import Node, secrets_in
from framework.deploy.bundle.documents.paths import in_workspace
from framework.deploy.bundle.modes import apply_presets, presets_of
from framework.deploy.bundle.reading import resources_of
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

_INGESTION = ("gateway_definition", "ingestion_definition")
_MANAGED = ("deployment_id", "version_id")


def resources_in(
    tree: Node, *, root: Path, target: str, user: str | None, secrets: frozenset[str]
) -> tuple[tuple[Resource, ...], tuple[BundleFinding, ...]]:
    """Return the resources to deploy, and the findings about their fields.

    Args:
        tree: the resolved tree of the target.
        root: the bundle's root.
        target: name of the target.
        user: name of the current user; None if no user is signed in.
        secrets: digests of the secret texts in the tree and the variables.

    Raises:
        UserError: a fault in mode, presets, permissions or paths.
    """
    mode = None if (node := tree.get("mode")) is None else str(node.value)
    presets = presets_of(tree, mode, user)
    permissions, run_as = tree.get("permissions"), check_run_as(tree)
    file_path_node = tree.get("workspace", "file_path")
    file_path = "" if file_path_node is None else file_path_node.text("workspace.file_path")
    found, findings, known = [], [], {*secrets}
    for kind, name, written in resources_of(tree):
        key = f"{kind}.{name}"
        if kind in UNDEPLOYED_KINDS:
            findings.append(error("BUNDLE_KIND_NOT_DEPLOYED", written.location, key=key, kind=kind))
        if kind not in KINDS:
            continue
        settings, faults = _check_fields(kind, key, written)
        if settings.get("name") is None:
            settings = settings.with_entry("name", name)
        settings = apply_presets(kind, key, settings, presets, mode=mode, target=target)
        settings, warnings = with_access(kind, key, settings, permissions=permissions, run_as=run_as)
        settings = in_workspace(kind, settings, root=root, file_path=file_path)
        findings += [*faults, *warnings]
        known |= secrets_in(settings)
        found.append(_resource(kind, key, settings, written))
    all_secrets = frozenset(known)
    return tuple(replace(each, secrets=all_secrets) for each in found), tuple(findings)


def _resource(kind: str, key: str, settings: Node, written: Node) -> Resource:
    spec = FrozenSpec.of(settings.plain())
    protected = settings.get("lifecycle", "prevent_destroy")
    # A name of another type is already reported.
    name = str(settings.value["name"].plain())
    return Resource(
        key=key,
        kind=kind,
        name=name,
        spec=spec,
        location=written.location,
        depends_on=tuple(sorted({each.key for each in references_in(spec.as_dict()) if _is_deployed(each.key)})),
        # A reference to a field of a resource has no value yet: it protects.
        prevent_destroy=protected is not None and protected.value is not False,
    )


def _is_deployed(key: str) -> bool:
    """Return whether Sluice deploys a resource; a resource of another kind is reported at its declaration."""
    return key.partition(".")[0] not in UNDEPLOYED_KINDS


def _check_fields(kind: str, key: str, settings: Node) -> tuple[Node, tuple[BundleFinding, ...]]:
    """Return a resource's settings with scalars converted and unknown fields dropped, and the findings.

    An unknown field is not deployed, as in the Databricks CLI. It is a warning, and an error in an ingestion pipeline,
    where a missing setting loses data or a snapshot.
    """
    found: list[BundleFinding] = []
    ingests = kind == "pipelines" and settings.is_map and any(settings.get(each) for each in _INGESTION)
    unknown_field = error if ingests else warning

    def report(condition: str, location: SourceLocation, **fields: object) -> None:
        severity = error if condition == "BUNDLE_FIELD_TYPE" else warning
        found.append(severity(condition, location, **fields))

    def unknown(path: str, name: str, value: Node, known: frozenset[str]) -> None:
        hint = nearest_hint(name, known)
        found.append(
            unknown_field("BUNDLE_FIELD_UNKNOWN", value.location, field=f"{path}.{name}", where=path, hint=hint)
        )

    hints, required = resource_types(kind)
    # The name is optional: it defaults to the resource's key.
    checks = FieldChecks(report, unknown)
    converted = checks.struct(settings, hints, required - {"name"}, key)
    found += _managed(key, converted)
    found += _principals(key, converted)
    return converted if converted.is_map else Node(value={}, location=settings.location), tuple(found)


def _managed(key: str, settings: Node) -> list[BundleFinding]:
    """Find fields of `deployment` that the tool sets."""
    below = ((name, settings.get("deployment", name)) for name in _MANAGED)
    return [
        error("BUNDLE_FIELD_MANAGED", node.location, field=f"{key}.deployment.{name}")
        for name, node in below
        if node is not None
    ]


def _principals(key: str, settings: Node) -> list[BundleFinding]:
    """Find grants without a principal."""
    grants = settings.get("grants")
    entries = grants.value if grants is not None and isinstance(grants.value, tuple) else ()
    principals = [(entry, entry.get("principal")) for entry in entries]
    return [
        error("BUNDLE_GRANT_WITHOUT_PRINCIPAL", entry.location, field=f"{key}.grants[{number}]")
        for number, (entry, principal) in enumerate(principals)
        if principal is None or principal.value == ""
    ]
