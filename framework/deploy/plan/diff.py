"""Three-way comparison of settings: in the bundle, in the last deploy, and in the workspace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from framework.deploy.state.normalize import FieldPath, Leaves, flatten, normalise
from framework.foundation.secrets.secrecy import digests_in, hide_all, hide_secrets

_RECREATES: Mapping[str, frozenset[FieldPath]] = {
    "pipelines": frozenset(
        {
            ("storage",),
            ("gateway_definition", "connection_id"),
            ("gateway_definition", "connection_name"),
            ("gateway_definition", "gateway_storage_catalog"),
            ("gateway_definition", "gateway_storage_schema"),
            ("ingestion_definition", "connection_name"),
            ("ingestion_definition", "ingestion_gateway_id"),
            ("ingestion_definition", "ingest_from_uc_foreign_catalog"),
        }
    ),
    "jobs": frozenset(),
    "schemas": frozenset({("name",), ("catalog_name",), ("storage_root",)}),
    "volumes": frozenset({("name",), ("catalog_name",), ("schema_name",), ("volume_type",), ("storage_location",)}),
}
# Settings that only users write.
_USER_ONLY_FIELDS = frozenset(
    {
        "clusters",
        "configuration",
        "libraries",
        "notifications",
        "tags",
        "email_notifications",
        "webhook_notifications",
        "tasks",
        "parameters",
        "schedule",
        "continuous",
        "trigger",
    }
)


class ChangeClass(StrEnum):
    """Class of a difference, in ascending order of severity; a mixed change has its highest class."""

    NONE = "none"
    PHANTOM = "phantom"
    TAG_ONLY = "tag-only"
    METADATA = "metadata"
    DRIFT = "drift"
    CREATE = "create"
    SEMANTIC = "semantic"
    RECREATE = "recreate"
    DELETE = "delete"

    @property
    def rank(self) -> int:
        """Severity; 0 is the lowest."""
        return list(ChangeClass).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field that differs: its values in the workspace and the bundle, as JSON without secrets; None if absent."""

    path: FieldPath
    remote: str | None
    wanted: str | None
    change_class: ChangeClass


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceComparison:
    """All fields of a resource that differ, and those that differ but need no write.

    Args:
        changes: fields that differ.
        phantoms: fields of the bundle that need no write: other spellings of the same value, and `settled`.
        settled: fields with another value that the service set at the last deploy, or that was accepted.
        unnamed: accepted fields that the bundle does not name and that only users write; another tool removes them.
    """

    changes: tuple[FieldChange, ...] = ()
    phantoms: tuple[FieldPath, ...] = ()
    settled: tuple[FieldPath, ...] = ()
    unnamed: tuple[FieldPath, ...] = ()

    @property
    def change_class(self) -> ChangeClass:
        """Highest class of the fields."""
        classes = [change.change_class for change in self.changes]
        if classes:
            return max(classes, key=lambda each: each.rank)
        return ChangeClass.PHANTOM if self.phantoms else ChangeClass.NONE


def compare(
    kind: str,
    *,
    wanted: Mapping[str, Any],
    deployed: Mapping[str, Any] | None,
    remote: Mapping[str, Any],
    remote_at_deploy: Mapping[str, Any] | None,
    secrets: frozenset[str] = frozenset(),
) -> ResourceComparison:
    """Compare a bundle's settings with those in the workspace and classify each difference.

    Args:
        kind: kind of the resource.
        wanted: settings in the bundle.
        deployed: settings of the last deploy; None if unknown, as for an adopted resource.
        remote: current settings in the workspace.
        remote_at_deploy: settings in the workspace right after the last deploy; None if unknown.
        secrets: digests of the texts that are secret under any name.
    """
    now, bundle = _leaves(kind, remote, secrets), _leaves(kind, wanted, secrets)
    last = None if deployed is None else _leaves(kind, deployed, secrets)
    at_deploy = None if remote_at_deploy is None else _leaves(kind, remote_at_deploy, secrets)
    changes, settled, unnamed = [], [], []
    for path in sorted({*now, *bundle}):
        if now.get(path) == bundle.get(path):
            continue
        outside = _origin(path, bundle, last, now, at_deploy)
        if outside is None:
            settled += [path] if path in bundle else []
            unnamed += [path] if path not in bundle and _is_user_only(kind, path) else []
            continue
        changes.append(
            FieldChange(
                path=path,
                remote=_hidden_like(now.get(path), bundle.get(path), (last or {}).get(path)),
                wanted=bundle.get(path),
                change_class=_class(kind, path, outside=outside, is_named=path in bundle),
            )
        )
    raw, raw_now = flatten(wanted), flatten(remote)
    spelled = [path for path in raw if path in raw_now and raw[path] != raw_now[path]]
    changed = {change.path for change in changes}
    return ResourceComparison(
        changes=tuple(changes),
        phantoms=tuple(sorted({*settled, *(path for path in spelled if path not in changed)})),
        settled=tuple(settled),
        unnamed=tuple(unnamed),
    )


def _leaves(kind: str, spec: Mapping[str, Any], secrets: frozenset[str]) -> Leaves:
    # Normalised first, because a digest depends on the letter case.
    return flatten(hide_secrets(normalise(kind, spec), secrets))


def _hidden_like(value: str | None, *others: str | None) -> str | None:
    """Hide a field in the workspace whose value in the bundle is a secret: it may hold another, unknown secret."""
    is_secret = any(other is not None and digests_in(other) for other in others)
    if value is None or not is_secret or digests_in(value):
        return value
    return json.dumps(hide_all(json.loads(value)), ensure_ascii=False)


def _origin(path: FieldPath, bundle: Leaves, last: Leaves | None, now: Leaves, at_deploy: Leaves | None) -> bool | None:
    """Return the origin of a difference: False for the bundle, True for an outside change, None for the service."""
    is_unchanged = at_deploy is not None and at_deploy.get(path) == now.get(path)
    if last is None:
        # Without a last deploy, a field in the bundle is a change by the bundle, any other field an outside change.
        return path not in bundle
    if last.get(path) != bundle.get(path):
        return False
    return None if is_unchanged else True


def _is_user_only(kind: str, path: FieldPath) -> bool:
    """Return whether only users set a field; the service itself sets the id of a connection that is named."""
    is_fixed = path in _RECREATES.get(kind, frozenset()) and path != ("gateway_definition", "connection_id")
    return is_fixed or path[0] in _USER_ONLY_FIELDS


def _class(kind: str, path: FieldPath, *, outside: bool, is_named: bool) -> ChangeClass:
    if path[0] == "tags" or (path[0] == "clusters" and len(path) > 2 and path[2] == "custom_tags"):
        return ChangeClass.TAG_ONLY
    # A field that only the service sets, such as the id of a connection, does not require a new resource.
    if path in _RECREATES.get(kind, frozenset()) and (is_named or not outside):
        return ChangeClass.RECREATE
    if outside:
        return ChangeClass.DRIFT
    if path[0] in ("notifications", "email_notifications", "webhook_notifications"):
        return ChangeClass.METADATA
    return ChangeClass.SEMANTIC
