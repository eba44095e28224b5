"""The tables that a bundle's ingestion pipelines take, as far as their settings name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from framework.deploy.bundle.bundle import Bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedTables:
    """The last parts of the names of tables, in lower case.

    Args:
        names: all tables that are ingested; None when the bundle does not name each, as with a whole schema.
        keyed: those that have `primary_keys` wherever the bundle names them.
    """

    names: frozenset[str] | None
    keyed: frozenset[str]


def ingested_tables(bundle: Bundle) -> IngestedTables:
    """Return the tables that the ingestion pipelines of a bundle take."""
    found: dict[str, bool] = {}
    is_complete = True
    for resource in bundle.resources:
        definition = resource.spec.as_dict().get("ingestion_definition") if resource.kind == "pipelines" else None
        if not isinstance(definition, Mapping):
            continue
        objects = definition.get("objects") or []
        is_complete = is_complete and all("table" in entry for entry in objects)
        for name, has_keys in _tables(definition):
            found[name] = has_keys and found.get(name, True)
    return IngestedTables(
        names=frozenset(found) if is_complete and found else None,
        keyed=frozenset(name for name, has_keys in found.items() if has_keys),
    )


def _tables(definition: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for entry in definition.get("objects") or []:
        table = entry.get("table") or {}
        keys = (table.get("table_configuration") or {}).get("primary_keys")
        for name in {table.get("source_table"), table.get("destination_table")} - {None}:
            yield str(name).lower(), bool(keys)
