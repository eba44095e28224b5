"""A target's mode and presets, applied to its resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from framework.deploy.bundle.documents.context import short_name
from framework.deploy.bundle.documents.nodes import Node, as_node
from framework.foundation.errors import UserError

_PREFIXED = frozenset({"pipelines", "jobs"})
_TAGGED = frozenset({"pipelines", "jobs"})
_TRIGGERS = ("schedule", "trigger", "continuous")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presets:
    """Defaults for all resources of a target.

    Args:
        name_prefix: prefix of the names of pipelines, jobs and schemas.
        tags: values of tags that are missing or empty.
        trigger_pause_status: PAUSED or UNPAUSED, for triggers of jobs without a pause status; PAUSED also disables
            `continuous` of pipelines.
        pipelines_development: whether pipelines without `development` are in development.
        jobs_max_concurrent_runs: maximum for jobs without one.
    """

    name_prefix: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    trigger_pause_status: str | None = None
    pipelines_development: bool = False
    jobs_max_concurrent_runs: int | None = None


def presets_of(tree: Node, mode: str | None, user: str | None) -> Presets:
    """Read the presets of a target; presets in the settings override presets of its mode.

    Raises:
        UserError: BUNDLE_PREFIX_SHARED; BUNDLE_PAUSE_STATUS_UNKNOWN.
    """
    is_development = mode == "development"
    name = None if user is None else short_name(user)
    tags = {"dev": name or ""} if is_development else {}
    written = tree.get("presets")
    found: Mapping[str, Node] = written.entries("presets") if written is not None else {}
    tags |= {key: str(node.value) for key, node in _entries(found, "tags").items()}
    _check(found)
    values = {key: node.value for key, node in found.items() if key != "tags" and node.value is not None}
    if is_development:
        _check_prefix(found.get("name_prefix"), user)
        # An empty prefix would give development the names of production, so the default replaces it.
        values["name_prefix"] = values.get("name_prefix") or f"[dev {name}] "
    return Presets(
        name_prefix=values.get("name_prefix", ""),
        tags=tuple(tags.items()),
        trigger_pause_status=values.get("trigger_pause_status", "PAUSED" if is_development else None),
        pipelines_development=values.get("pipelines_development", is_development),
        jobs_max_concurrent_runs=values.get("jobs_max_concurrent_runs", 4 if is_development else None),
    )


def _check_prefix(prefix: Node | None, user: str | None) -> None:
    """Refuse a prefix in development without the user's name: users would overwrite each other's resources."""
    if prefix is None or not prefix.value or user is None:
        return
    if user not in prefix.value and short_name(user) not in prefix.value:
        raise UserError("BUNDLE_PREFIX_SHARED", location=prefix.location, prefix=prefix.value)


def apply_presets(kind: str, key: str, settings: Node, presets: Presets, *, mode: str | None, target: str) -> Node:
    """Apply the target's mode and presets to a resource's settings.

    Raises:
        UserError: BUNDLE_DEVELOPMENT_IN_PRODUCTION; BUNDLE_GATEWAY_IN_DEVELOPMENT.
    """
    if kind == "pipelines":
        settings = _pipeline(key, settings, presets, mode=mode, target=target)
    if kind == "jobs":
        settings = _job(settings, presets)
    if kind in _TAGGED and presets.tags:
        settings = _tagged(settings, presets)
    return _named(kind, settings, presets)


def _pipeline(key: str, settings: Node, presets: Presets, *, mode: str | None, target: str) -> Node:
    development = settings.get("development")
    if mode == "production" and development is not None and development.value is True:
        location = development.location
        raise UserError("BUNDLE_DEVELOPMENT_IN_PRODUCTION", location=location, key=key, target=target)
    paused = presets.trigger_pause_status == "PAUSED"
    if settings.get("gateway_definition") is not None and (mode == "development" or paused):
        raise UserError("BUNDLE_GATEWAY_IN_DEVELOPMENT", location=settings.location, key=key, target=target)
    if presets.pipelines_development and development is None:
        settings = settings.with_entry("development", value=True)
    if paused and settings.get("continuous") is not None:
        settings = settings.with_entry("continuous", value=False)
    return settings


def _job(settings: Node, presets: Presets) -> Node:
    for trigger in _TRIGGERS:
        node = settings.get(trigger)
        if presets.trigger_pause_status and node is not None and node.is_map and node.get("pause_status") is None:
            settings = settings.with_entry(trigger, node.with_entry("pause_status", presets.trigger_pause_status))
    if presets.jobs_max_concurrent_runs is not None and settings.get("max_concurrent_runs") is None:
        settings = settings.with_entry("max_concurrent_runs", presets.jobs_max_concurrent_runs)
    return settings


def _tagged(settings: Node, presets: Presets) -> Node:
    """Set each preset tag that is missing or empty."""
    tags = settings.get("tags")
    own = {} if tags is None else dict(tags.entries("tags"))
    for key, value in presets.tags:
        if key not in own or own[key].value in (None, ""):
            own[key] = as_node(value, settings.location)
    return settings.with_entry("tags", own)


def _named(kind: str, settings: Node, presets: Presets) -> Node:
    name = settings.get("name")
    if name is None or not presets.name_prefix:
        return settings
    if kind in _PREFIXED:
        return settings.with_entry("name", name.with_value(f"{presets.name_prefix}{name.value}"))
    if kind == "schemas":
        return settings.with_entry("name", name.with_value(f"{_schema_prefix(presets.name_prefix)}{name.value}"))
    return settings


def _schema_prefix(prefix: str) -> str:
    """Return a prefix of letters, digits and underscores: `[dev ada] ` becomes `dev_ada_`, and `nightly-` `nightly`."""
    text = prefix.replace("[", "").strip(" ")
    words = re.sub(r"[\W_]+", "_", text.lower()).strip("_")
    return f"{words}_" if text.endswith("]") else words


def _check(found: Mapping[str, Node]) -> None:
    status = found.get("trigger_pause_status")
    if status is not None and status.value not in (None, "PAUSED", "UNPAUSED"):
        raise UserError("BUNDLE_PAUSE_STATUS_UNKNOWN", location=status.location, status=status.value)


def _entries(found: Mapping[str, Node], key: str) -> Mapping[str, Node]:
    return found[key].entries(f"presets.{key}") if key in found else {}
