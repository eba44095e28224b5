"""The resources of a target, from its resolved tree: mode, presets, access and paths applied, edges found."""

from __future__ import annotations

from pathlib import Path

from framework.deploy.access import with_access
from framework.deploy.bundle import FrozenSpec, Resource
from framework.deploy.context import short_name
from framework.deploy.modes import apply_presets, presets_of
from framework.deploy.nodes import Node
from framework.deploy.paths import in_workspace
from framework.deploy.reading import resources_of
from framework.deploy.references import references_in


def resources_in(tree: Node, *, root: Path, target: str, user: str | None) -> tuple[Resource, ...]:
    """The resources as they are deployed.

    Raises:
        UserError: what mode, presets, permissions and paths don't allow.
    """
    mode = None if (node := tree.get("mode")) is None else str(node.value)
    presets = presets_of(tree, mode, None if user is None else short_name(user))
    permissions, run_as = tree.get("permissions"), tree.get("run_as")
    places = tree.get("workspace", "file_path")
    file_path = "" if places is None else places.text("workspace.file_path")
    found = []
    for kind, name, written in resources_of(tree):
        key = f"{kind}.{name}"
        written.entries(f"resources.{key}")
        settings = written if written.is_map else Node(value={}, place=written.place)
        if settings.get("name") is None:
            settings = settings.with_entry("name", name)
        settings = apply_presets(kind, key, settings, presets, mode=mode, target=target)
        settings = with_access(kind, key, settings, permissions=permissions, run_as=run_as)
        settings = in_workspace(kind, settings, root=root, file_path=file_path)
        found.append(_resource(kind, key, settings, written))
    return tuple(found)


def _resource(kind: str, key: str, settings: Node, written: Node) -> Resource:
    spec = FrozenSpec.of(settings.plain())
    protected = settings.get("lifecycle", "prevent_destroy")
    name = settings.value["name"].text(f"resources.{key}.name")
    return Resource(
        key=key,
        kind=kind,
        name=name,
        spec=spec,
        location=written.place,
        depends_on=tuple(sorted({reference.key for reference in references_in(spec.as_dict())})),
        prevent_destroy=protected is not None and protected.value is True,
    )
