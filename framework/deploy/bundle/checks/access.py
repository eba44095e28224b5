"""The bundle's `permissions` and `run_as`, applied to its jobs and pipelines."""

from __future__ import annotations

from collections.abc import Mapping

from framework.deploy.bundle.documents.findings import BundleFinding, warning
from framework.deploy.bundle.documents.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

_PRINCIPALS = ("user_name", "group_name", "service_principal_name")
# Kind of resource -> the bundle's permission level -> the level of such a resource; schemas and volumes have grants.
_LEVELS: Mapping[str, Mapping[str, str]] = {
    "jobs": {"CAN_VIEW": "CAN_VIEW", "CAN_RUN": "CAN_MANAGE_RUN", "CAN_MANAGE": "CAN_MANAGE"},
    "pipelines": {"CAN_VIEW": "CAN_VIEW", "CAN_RUN": "CAN_RUN", "CAN_MANAGE": "CAN_MANAGE"},
}

_RANKS = ("CAN_VIEW", "CAN_RUN", "CAN_MANAGE_RUN", "CAN_MANAGE", "IS_OWNER")


def with_access(
    kind: str, key: str, settings: Node, *, permissions: Node | None, run_as: Node | None
) -> tuple[Node, tuple[BundleFinding, ...]]:
    """Add the bundle's permissions to a job or pipeline, and the bundle's identity if it has none.

    A principal in the resource's own list keeps its level there; a duplicate in the bundle's list gives a warning.

    Raises:
        UserError: BUNDLE_PERMISSION_INVALID; BUNDLE_RUN_AS_INVALID.
    """
    if kind not in _LEVELS:
        return settings, ()
    if run_as is not None and settings.get("run_as") is None:
        settings = settings.with_entry("run_as", run_as)
    own = settings.get("permissions")
    if permissions is None and own is None:
        return settings, ()
    named = _highest(own.items(f"{key}.permissions") if own is not None else ())
    entries, findings = [*named.values()], []
    for entry in permissions.items("permissions") if permissions is not None else ():
        principal = _principal(entry)
        if principal in named:
            location, other = named[principal].location, entry.location
            findings.append(warning("BUNDLE_PERMISSION_TWICE", location, key=key, principal=principal[1], other=other))
        else:
            entries.append(entry.with_entry("level", _level(kind, entry)))
    return settings.with_entry("permissions", tuple(entries)), tuple(findings)


def check_run_as(tree: Node) -> Node | None:
    """Return the bundle's `run_as`, after a check that it names exactly one identity.

    Raises:
        UserError: BUNDLE_RUN_AS_INVALID.
    """
    run_as = tree.get("run_as")
    if run_as is None:
        return None
    names = [name for name, node in run_as.entries("run_as").items() if node.value]
    if len(names) != 1 or len(run_as.value) != 1:
        raise UserError("BUNDLE_RUN_AS_INVALID", location=run_as.location, count=len(names))
    run_as.value[names[0]].text(f"run_as.{names[0]}")
    return run_as


def _highest(entries: tuple[Node, ...]) -> dict[tuple[str, str], Node]:
    """Return the entry with the highest level of each principal."""
    found: dict[tuple[str, str], Node] = {}
    for entry in entries:
        principal = _principal(entry)
        previous = found.get(principal)
        if previous is None or _rank(entry) > _rank(previous):
            found[principal] = entry
    return found


def _rank(entry: Node) -> int:
    """Return the rank of an entry's level; an unknown level has the lowest rank."""
    level = entry.get("level")
    return _RANKS.index(level.value) if level is not None and level.value in _RANKS else -1


def _principal(entry: Node) -> tuple[str, str]:
    found = [(name, entry.value[name]) for name in _PRINCIPALS if name in entry.entries("permissions")]
    if len(found) != 1:
        cause = f"it names {len(found)} principals instead of one"
        expected = f"one of {', '.join(_PRINCIPALS)}"
        raise UserError("BUNDLE_PERMISSION_INVALID", location=entry.location, cause=cause, expected=expected)
    return found[0][0], found[0][1].text(found[0][0])


def _level(kind: str, entry: Node) -> str:
    node = entry.get("level")
    level = "" if node is None else str(node.value)
    if level not in _LEVELS[kind]:
        hint = nearest_hint(level, _LEVELS[kind])
        cause = f"its level is {level or 'missing'}{hint and ':'}{hint}"
        expected = f"one of {', '.join(_LEVELS[kind])}"
        raise UserError("BUNDLE_PERMISSION_INVALID", location=entry.location, cause=cause, expected=expected)
    return _LEVELS[kind][level]
