"""The resolved configuration of a target: the output of `sluice bundle validate -o json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.deploy.bundle.documents.bundle import FrozenSpec, Resource
from framework.deploy.bundle.documents.nodes import Node
from framework.foundation.secrets.secrecy import hide_secrets

_MOVED = ("mode", "cluster_id", "compute_id", "targets")


def configuration_of(tree: Node, variables: Mapping[str, Node], resources: Sequence[Resource]) -> FrozenSpec:
    """Return the sections of a target in the format of the Databricks CLI.

    Args:
        tree: the resolved tree of the target.
        variables: the declarations of the variables, with their values.
        resources: the resources to deploy; kinds that Sluice does not deploy stay as written.
    """
    plain: dict[str, Any] = tree.plain()
    moved = {key: plain.pop(key) for key in _MOVED if key in plain}
    bundle = plain["bundle"]
    bundle["git"] = _git(bundle["git"])
    if moved.get("mode"):
        bundle["mode"] = moved["mode"]
    for resource in resources:
        kind, _, name = resource.key.partition(".")
        plain["resources"][kind][name] = resource.spec.as_dict()
    plain["variables"] = {name: node.plain() for name, node in sorted(variables.items())}
    return FrozenSpec.of(plain)


def hidden_configuration(configuration: FrozenSpec, secrets: frozenset[str]) -> dict[str, Any]:
    """Return a configuration with secret values hidden, to print it.

    The names of variables, artifacts and resources are the user's own. Only the name of a variable marks its value as a
    secret.

    Args:
        configuration: the configuration.
        secrets: digests of the texts that are secret under any name.
    """
    return {section: _hidden_section(section, value, secrets) for section, value in configuration.as_dict().items()}


def _hidden_section(section: str, value: Any, secrets: frozenset[str]) -> Any:
    if not isinstance(value, Mapping):
        return hide_secrets(value, secrets)
    if section == "variables":
        return {name: _hidden_variable(name, each, secrets) for name, each in value.items()}
    if section == "resources":
        return {
            kind: {name: hide_secrets(each, secrets) for name, each in named.items()} for kind, named in value.items()
        }
    return {key: hide_secrets(each, secrets) for key, each in value.items()}


def _hidden_variable(name: str, declaration: Any, secrets: frozenset[str]) -> Any:
    """Return a declaration; for the name of a secret, with a hidden `default` and `value`."""
    if not isinstance(declaration, Mapping):
        return hide_secrets(declaration, secrets)
    hidden = hide_secrets({**declaration, "name": name}, secrets)
    return {key: each for key, each in hidden.items() if key in declaration}


def _git(git: Mapping[str, Any]) -> dict[str, Any]:
    """Return the repository's state; `branch` is the one in the settings, else the one that is checked out."""
    found = {"branch": git.get("wanted_branch") or git.get("branch")}
    found |= {key: git.get(key) for key in ("commit", "origin_url")}
    return {key: value for key, value in found.items() if value}
