"""Loading of a bundle's target: files, target, variables, references, mode and presets, in that order."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from framework.deploy.api.lookups import LookUp
from framework.deploy.bundle.checks.known_keys import check_defined, convert_sections
from framework.deploy.bundle.checks.lint import check_production, lint
from framework.deploy.bundle.configuration import configuration_of
from framework.deploy.bundle.documents.artifacts import read_artifacts
from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.documents.context import WorkspaceFields, check_settings, read_git_state, with_context
from framework.deploy.bundle.documents.interpolation import Interpolation
from framework.deploy.bundle.documents.merging import collapse_resources
from framework.deploy.bundle.documents.nodes import Node, secrets_in
from framework.deploy.bundle.documents.variables import set_variables
from framework.deploy.bundle.edges import check_edges
from framework.deploy.bundle.reading import read_files
from framework.deploy.bundle.resources import resources_in
from framework.deploy.bundle.synced_files import synced_files
from framework.deploy.bundle.targets import choose_target, merge_target, target_names
from framework.foundation.errors import UserError


@contextmanager
def _gc_disabled() -> Iterator[None]:
    """Disable cyclic garbage collection while the block runs.

    Trees of many small values have no cycles, and the search for cycles takes as long as the loading itself.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_gc_disabled()
def load_bundle(
    root: Path,
    *,
    target: str | None = None,
    variables: Mapping[str, str] | None = None,
    user: str | None = None,
    environment: Mapping[str, str] | None = None,
    look_up: LookUp | None = None,
    workspace: WorkspaceFields | None = None,
) -> Bundle:
    """Load one target of the bundle in a folder, with all values resolved except ids that the workspace assigns.

    Args:
        root: folder of `databricks.yml`.
        target: name of the target; None for the default target.
        variables: values of variables, as of `--var`.
        user: name of the current user; None if no user is signed in.
        environment: environment with `BUNDLE_VAR_name`.
        look_up: lookup of variables in a workspace; None offline.
        workspace: stands in for the workspace, without a login.

    Raises:
        UserError: the first fault, with file, line and column.
    """
    files = read_files(root)
    whole = files.tree
    name = choose_target(whole, target)
    tree = with_context(
        merge_target(whole, name), target=name, user=user, git=read_git_state(root), workspace=workspace
    )
    check_defined(tree)
    values = set_variables(tree, root=root, target=name, given=variables or {}, environment=environment or {})
    interpolation = Interpolation(tree, values, look_up)
    resolved, variables_resolved = _resolved(tree, interpolation)
    check_settings(resolved, target=name, user=user)
    secrets = secrets_in(resolved).union(*map(secrets_in, variables_resolved.values()))
    resources, findings = resources_in(resolved, root=root, target=name, user=user, secrets=secrets)
    check_edges(whole, resolved, name, resources)
    mode = resolved.get("mode")
    found = (
        *files.findings,
        *interpolation.findings,
        *findings,
        *check_production(whole, name, mode, resources, user),
        *lint(_as_written(tree), values.values, resources, name),
    )
    return Bundle(
        name=_text(resolved, "bundle", "name"),
        target=name,
        mode=None if mode is None else str(mode.value),
        root_path=_text(resolved, "workspace", "root_path"),
        state_path=_text(resolved, "workspace", "state_path"),
        file_path=_text(resolved, "workspace", "file_path"),
        artifact_path=_text(resolved, "workspace", "artifact_path"),
        root=root,
        resources=resources,
        sync=synced_files(root, resolved.get("sync")),
        artifacts=tuple(read_artifacts(root, resolved.get("artifacts"))),
        locks=_locks(resolved, is_development=mode is not None and mode.value == "development"),
        findings=tuple(dict.fromkeys(found)),
        configuration=configuration_of(resolved, variables_resolved, resources),
        secrets=secrets.union(*(each.secrets for each in resources[:1])),
    )


def list_targets(root: Path) -> tuple[str, ...]:
    """Return the names of the bundle's targets, in the order of their declaration.

    Raises:
        UserError: a file can't be read, or is invalid.
    """
    return target_names(read_files(root).tree)


def _resolved(tree: Node, interpolation: Interpolation) -> tuple[Node, Mapping[str, Node]]:
    """Return the sections of a target with references resolved and scalars converted, and its variables."""
    try:
        resolved = interpolation.resolve(Node(value=_deployed(tree), location=tree.location))
        return collapse_resources(convert_sections(resolved)), interpolation.resolve_variables()
    except RecursionError:
        raise UserError("BUNDLE_REFERENCE_TOO_DEEP", location=tree.location, cause="recursion limit reached") from None


def _as_written(tree: Node) -> Node:
    """Return the settings before references are resolved, with keyed lists collapsed if that is possible."""
    try:
        return collapse_resources(tree)
    except UserError:
        return tree


def _deployed(tree: Node) -> dict[str, Node]:
    """Return the sections of the tree that a deploy uses; variables are only resolved on reference."""
    return {key: node for key, node in tree.value.items() if key not in {"variables", "include", "scripts"}}


def _locks(tree: Node, *, is_development: bool) -> bool:
    """Return whether deploys take a lock: the setting, else True except in development."""
    written = tree.get("bundle", "deployment", "lock", "enabled")
    return not is_development if written is None else written.value is True


def _text(tree: Node, *keys: str) -> str:
    node = tree.get(*keys)
    if node is None:
        raise UserError("BUNDLE_FIELD_MISSING", location=tree.location, field=".".join(keys))
    return node.text(".".join(keys))
