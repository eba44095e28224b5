"""Checks and conversions of the fields of one resource by the types of `resource_types`."""

from __future__ import annotations

from framework.deploy.bundle.field_checks import FieldChecks
from framework.deploy.bundle.findings import Finding, error, warning
from framework.deploy.bundle.nodes import Node
from framework.deploy.bundle.resource_types import resource_types
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

_INGESTION = ("gateway_definition", "ingestion_definition")
_MANAGED = ("deployment_id", "version_id")


def check_fields(kind: str, key: str, settings: Node) -> tuple[Node, tuple[Finding, ...]]:
    """Return a resource's settings with scalars converted and unknown fields dropped, and the findings.

    An unknown field is not deployed, as in the Databricks CLI. It is a warning, and an error in an ingestion pipeline,
    where a missing setting loses data or a snapshot.
    """
    found: list[Finding] = []
    ingests = kind == "pipelines" and settings.is_map and any(settings.get(each) for each in _INGESTION)
    unknown_field = error if ingests else warning

    def report(condition: str, location: SourceLocation, **fields: object) -> None:
        severity = error if condition == "BUNDLE_FIELD_TYPE" else warning
        found.append(severity(condition, location, **fields))

    def unknown(path: str, name: str, value: Node, known: frozenset[str]) -> None:
        hint = nearest_hint(name, known)
        found.append(
            unknown_field("BUNDLE_FIELD_UNKNOWN", value.location, field=f"{path}.{name}", where=path, hint=hint)
        )

    hints, required = resource_types(kind)
    # The name is optional: it defaults to the resource's key.
    checks = FieldChecks(report, unknown)
    converted = checks.struct(settings, hints, required - {"name"}, key)
    found += _managed(key, converted)
    found += _principals(key, converted)
    return converted if converted.is_map else Node(value={}, location=settings.location), tuple(found)


def _managed(key: str, settings: Node) -> list[Finding]:
    """Find fields of `deployment` that the tool sets."""
    below = ((name, settings.get("deployment", name)) for name in _MANAGED)
    return [
        error("BUNDLE_FIELD_MANAGED", node.location, field=f"{key}.deployment.{name}")
        for name, node in below
        if node is not None
    ]


def _principals(key: str, settings: Node) -> list[Finding]:
    """Find grants without a principal."""
    grants = settings.get("grants")
    entries = grants.value if grants is not None and isinstance(grants.value, tuple) else ()
    principals = [(entry, entry.get("principal")) for entry in entries]
    return [
        error("BUNDLE_GRANT_WITHOUT_PRINCIPAL", entry.location, field=f"{key}.grants[{number}]")
        for number, (entry, principal) in enumerate(principals)
        if principal is None or principal.value == ""
    ]
