"""The property that turns on quarantine: rows that a flow drops are kept in a table."""

from __future__ import annotations

from framework.declare.specs import DatasetSpec

QUARANTINE = "sluice.quarantine"
"""The name of a table property or configuration entry. Databricks stores the property and ignores it."""

VALUES = {"true": True, "false": False}


def quarantine_property(spec: DatasetSpec) -> str | None:
    """Return the quarantine property of a table, in lower case; None if it is not set."""
    value = dict(spec.table_properties).get(QUARANTINE)
    return None if value is None else value.strip().lower()
