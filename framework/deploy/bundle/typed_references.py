"""References between resources, resolved into the types of the fields that they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.deploy.bundle.bundle import FrozenSpec
from framework.deploy.bundle.field_checks import FieldChecks
from framework.deploy.bundle.nodes import as_node
from framework.deploy.bundle.references import resolve
from framework.deploy.bundle.resource_types import resource_types
from framework.foundation.locations import SourceLocation

_NO_LOCATION = SourceLocation(file="", line=1)


def resolve_settings(
    kind: str, spec: dict[str, Any], ids: Mapping[str, str], specs: Mapping[str, FrozenSpec]
) -> dict[str, Any]:
    """Return settings with each reference replaced that has a value, and that value in the type of its field.

    Args:
        kind: of the resource.
        spec: its settings.
        ids: of the resources that have one.
        specs: of all resources; no two refer to each other in a circle.

    Examples:
        >>> specs = {"jobs.a": FrozenSpec.of({"max_concurrent_runs": 3})}
        >>> resolve_settings("jobs", {"tags": {"runs": "${resources.jobs.a.max_concurrent_runs}"}}, {}, specs)
        {'tags': {'runs': '3'}}
    """
    resolved: dict[str, Any] = resolve(spec, ids, specs)
    if resolved == spec:
        return resolved
    hints, _ = resource_types(kind)
    converted = FieldChecks(_ignore).struct(as_node(resolved, _NO_LOCATION), hints, frozenset(), kind)
    plain: dict[str, Any] = converted.plain()
    return plain


def _ignore(_: str, __: SourceLocation, **___: object) -> None:
    """A value that does not fit stays as it is, and the service refuses it."""
