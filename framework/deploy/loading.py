"""Loads a bundle's target: files, target, variables, references, mode and presets, in that order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from framework.deploy.bundle import Bundle, FrozenSpec, Resource
from framework.deploy.interpolation import Interpolation
from framework.deploy.lint import lint
from framework.deploy.modes import apply_presets, presets_of
from framework.deploy.nodes import Node, as_node
from framework.deploy.paths import in_workspace
from framework.deploy.reading import read_files, resources_of
from framework.deploy.synced_files import synced_files
from framework.deploy.targets import choose_target, merge_target, others_with, target_names
from framework.deploy.variables import set_variables
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

_EDGE = re.compile(r"\$\{resources\.(\w+\.[\w-]+)\.\w+\}")


def load_bundle(
    root: Path,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Bundle:
    """One target of the bundle in a folder, everything resolved but the ids that the workspace gives.

    Args:
        root: the folder of `databricks.yml`.
        target: the target's name; None for the default one.
        variables: values given with the call.
        user: the user name of who deploys; None when nobody is signed in.
        environment: `BUNDLE_VAR_name` is read from it.

    Raises:
        UserError: the first fault, with file, line and column.
    """
    whole = read_files(root)
    name = choose_target(whole, target)
    tree = _with_defaults(merge_target(whole, name), name, user)
    values = set_variables(tree, root=root, target=name, given=variables or {}, environment=environment or {})
    declared = tree.get("variables")
    known = frozenset(declared.entries("variables")) if declared is not None else frozenset()
    resolved = Interpolation(tree, values, known).resolve(Node(value=_deployed(tree), place=tree.place))
    bundle = _text(resolved, "bundle", "name")
    mode = resolved.get("mode")
    resources = _resources(resolved, None if mode is None else str(mode.value), name, user)
    _check_edges(whole, name, resources)
    return Bundle(
        name=bundle,
        target=name,
        mode=None if mode is None else str(mode.value),
        root_path=_text(resolved, "workspace", "root_path"),
        state_path=_text(resolved, "workspace", "state_path"),
        file_path=_text(resolved, "workspace", "file_path"),
        root=root,
        resources=resources,
        sync=synced_files(root, resolved.get("sync")),
        permissions=_frozen(resolved.get("permissions")),
        run_as=_frozen(resolved.get("run_as")),
        findings=lint(tree, values, resources, name),
    )


def list_targets(root: Path) -> tuple[str, ...]:
    """The names of the bundle's targets, as they are written.

    Raises:
        UserError: a file can't be read, or holds what the format does not know.
    """
    return target_names(read_files(root))


def short_name(user: str) -> str:
    """What of a user name goes into the names of resources.

    Examples:
        >>> short_name("ada.lovelace@example.com")
        'ada_lovelace'
    """
    return re.sub(r"\W", "_", user.partition("@")[0])


def _with_defaults(tree: Node, target: str, user: str | None) -> Node:
    """The tree with `bundle.target` and the workspace's paths, which everything may refer to."""
    bundle = tree.get("bundle") or as_node({}, tree.place)
    workspace = tree.get("workspace") or as_node({}, tree.place)
    own = dict(workspace.entries("workspace"))
    if user is not None:
        own["current_user"] = as_node({"userName": user, "short_name": short_name(user)}, workspace.place)
    home = "/Workspace/Users/${workspace.current_user.userName}/.bundle/${bundle.name}/${bundle.target}"
    for key, default in (
        ("root_path", home),
        ("state_path", "${workspace.root_path}/state"),
        ("file_path", "${workspace.root_path}/files"),
        ("artifact_path", "${workspace.root_path}/artifacts"),
        ("resource_path", "${workspace.root_path}/resources"),
    ):
        own.setdefault(key, as_node(default, workspace.place))
    return tree.with_entry("bundle", bundle.with_entry("target", target)).with_entry("workspace", own)


def _deployed(tree: Node) -> dict[str, Node]:
    """The parts of the tree that a deploy looks at; variables and artifacts only matter where they are referred to."""
    return {
        key: node for key, node in tree.value.items() if key not in {"variables", "artifacts", "include", "scripts"}
    }


def _resources(tree: Node, mode: str | None, target: str, user: str | None) -> tuple[Resource, ...]:
    presets = presets_of(tree, mode, None if user is None else short_name(user))
    file_path = _text(tree, "workspace", "file_path")
    found = []
    for kind, name, written in resources_of(tree):
        key = f"{kind}.{name}"
        settings = apply_presets(kind, key, written, presets, mode=mode, target=target)
        settings = in_workspace(kind, settings, file_path)
        if settings.get("name") is None:
            settings = settings.with_entry("name", name)
        spec = FrozenSpec.of(settings.plain())
        protected = settings.get("lifecycle", "prevent_destroy")
        found.append(
            Resource(
                key=key,
                kind=kind,
                name=str(settings.value["name"].value),
                spec=spec,
                location=written.place,
                depends_on=tuple(sorted({match for match in _EDGE.findall(spec.text) if match != key})),
                prevent_destroy=protected is not None and protected.value is True,
            )
        )
    return tuple(found)


def _check_edges(whole: Node, target: str, resources: tuple[Resource, ...]) -> None:
    """Refuse references to resources that this target does not have."""
    known = {resource.key for resource in resources}
    for resource in resources:
        for edge in resource.depends_on:
            if edge in known:
                continue
            place, reference = resource.location, f"${{resources.{edge}}}"
            others = ", ".join(others_with(whole, target, edge))
            if others:
                raise UserError(
                    "BUNDLE_RESOURCE_ELSEWHERE", location=place, key=resource.key, reference=reference, target=target,
                    others=others,
                )  # fmt: skip
            hint = nearest_hint(edge, known)
            raise UserError("BUNDLE_RESOURCE_UNKNOWN", location=place, key=resource.key, reference=reference, hint=hint)


def _text(tree: Node, *keys: str) -> str:
    node = tree.get(*keys)
    if node is None:
        raise UserError("BUNDLE_FIELD_MISSING", location=tree.place, field=".".join(keys))
    return node.text(".".join(keys))


def _frozen(node: Node | None) -> FrozenSpec | None:
    if node is None:
        return None
    value = node.plain()
    return FrozenSpec.of(value if isinstance(value, dict) else {"entries": value})
