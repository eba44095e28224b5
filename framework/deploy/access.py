"""The bundle's own `permissions` and `run_as`, as they become settings of its jobs and pipelines."""

from __future__ import annotations

from collections.abc import Mapping

from framework.deploy.nodes import Node
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

_PRINCIPALS = ("user_name", "group_name", "service_principal_name")
# A bundle's level -> that of a resource of the kind; schemas and volumes have grants of their own.
_LEVELS: Mapping[str, Mapping[str, str]] = {
    "jobs": {"CAN_VIEW": "CAN_VIEW", "CAN_RUN": "CAN_MANAGE_RUN", "CAN_MANAGE": "CAN_MANAGE"},
    "pipelines": {"CAN_VIEW": "CAN_VIEW", "CAN_RUN": "CAN_RUN", "CAN_MANAGE": "CAN_MANAGE"},
}


def with_access(kind: str, key: str, settings: Node, *, permissions: Node | None, run_as: Node | None) -> Node:
    """A job's or pipeline's settings with the bundle's permissions beside its own, and an identity where it has none.

    Raises:
        UserError: BUNDLE_PERMISSION_INVALID; BUNDLE_PERMISSION_TWICE for a principal whom both lists name.
    """
    if kind not in _LEVELS:
        return settings
    if run_as is not None and settings.get("run_as") is None:
        settings = settings.with_entry("run_as", _identity(run_as))
    if permissions is None:
        return settings
    own = settings.get("permissions")
    entries = own.items(f"{key}.permissions") if own is not None else ()
    named = {_principal(entry): entry for entry in entries}
    added = []
    for entry in permissions.items("permissions"):
        principal = _principal(entry)
        if principal in named:
            place = named[principal].place
            raise UserError(
                "BUNDLE_PERMISSION_TWICE", location=place, key=key, principal=principal[1], other=entry.place
            )
        added.append(entry.with_entry("level", _level(kind, entry)))
    return settings.with_entry("permissions", (*entries, *added))


def _principal(entry: Node) -> tuple[str, str]:
    found = [(name, entry.value[name]) for name in _PRINCIPALS if name in entry.entries("an entry of permissions")]
    if len(found) != 1:
        cause = f"it names {len(found)} principals"
        expected = f"one of {', '.join(_PRINCIPALS)}"
        raise UserError("BUNDLE_PERMISSION_INVALID", location=entry.place, cause=cause, expected=expected)
    return found[0][0], found[0][1].text(found[0][0])


def _level(kind: str, entry: Node) -> str:
    node = entry.get("level")
    level = "" if node is None else str(node.value)
    if level not in _LEVELS[kind]:
        hint = nearest_hint(level, _LEVELS[kind])
        cause = f"its level is {level or 'missing'}{hint and ':'}{hint}"
        expected = f"one of {', '.join(_LEVELS[kind])}"
        raise UserError("BUNDLE_PERMISSION_INVALID", location=entry.place, cause=cause, expected=expected)
    return _LEVELS[kind][level]


def _identity(run_as: Node) -> Node:
    if len(run_as.entries("run_as")) != 1:
        raise UserError("BUNDLE_RUN_AS_INVALID", location=run_as.place, count=len(run_as.value))
    for name, node in run_as.value.items():
        node.text(f"run_as.{name}")
    return run_as
