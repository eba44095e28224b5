"""The tables that a bundle's ingestion pipelines take, as far as their settings name keys for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from framework.deploy.bundle import Bundle


def keyed_tables(bundle: Bundle) -> frozenset[str]:
    """The last parts of the names, in lower case, of tables that have `primary_keys` wherever the bundle names them."""
    found: dict[str, bool] = {}
    for resource in bundle.resources:
        definition = resource.spec.as_dict().get("ingestion_definition") if resource.kind == "pipelines" else None
        for name, has_keys in _tables(definition or {}):
            found[name] = has_keys and found.get(name, True)
    return frozenset(name for name, has_keys in found.items() if has_keys)


def _tables(definition: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for entry in definition.get("objects") or []:
        table = entry.get("table") or {}
        keys = (table.get("table_configuration") or {}).get("primary_keys")
        for name in {table.get("source_table"), table.get("destination_table")} - {None}:
            yield str(name).lower(), bool(keys)
