"""The resources of a target, from its resolved tree: with mode, presets, access and paths applied."""

from __future__ import annotations

from pathlib import Path

from framework.deploy.bundle.access import check_run_as, with_access
from framework.deploy.bundle.bundle import FrozenSpec, Resource
from framework.deploy.bundle.findings import Finding, error
from framework.deploy.bundle.format import KINDS, UNDEPLOYED_KINDS
from framework.deploy.bundle.modes import apply_presets, presets_of
from framework.deploy.bundle.nodes import Node
from framework.deploy.bundle.paths import in_workspace
from framework.deploy.bundle.reading import resources_of
from framework.deploy.bundle.references import references_in
from framework.deploy.bundle.resource_fields import check_fields


def resources_in(
    tree: Node, *, root: Path, target: str, user: str | None
) -> tuple[tuple[Resource, ...], tuple[Finding, ...]]:
    """Return the resources to deploy, and the findings about their fields.

    Raises:
        UserError: a fault in mode, presets, permissions or paths.
    """
    mode = None if (node := tree.get("mode")) is None else str(node.value)
    presets = presets_of(tree, mode, user)
    permissions, run_as = tree.get("permissions"), check_run_as(tree)
    file_path_node = tree.get("workspace", "file_path")
    file_path = "" if file_path_node is None else file_path_node.text("workspace.file_path")
    found, findings = [], []
    for kind, name, written in resources_of(tree):
        key = f"{kind}.{name}"
        if kind in UNDEPLOYED_KINDS:
            findings.append(error("BUNDLE_KIND_NOT_DEPLOYED", written.location, key=key, kind=kind))
        if kind not in KINDS:
            continue
        settings, faults = check_fields(kind, key, written)
        if settings.get("name") is None:
            settings = settings.with_entry("name", name)
        settings = apply_presets(kind, key, settings, presets, mode=mode, target=target)
        settings, warnings = with_access(kind, key, settings, permissions=permissions, run_as=run_as)
        settings = in_workspace(kind, settings, root=root, file_path=file_path)
        findings += [*faults, *warnings]
        found.append(_resource(kind, key, settings, written))
    return tuple(found), tuple(findings)


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
