"""Columns of a stored table beside those of its record or of the code, as the JSON of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def names(struct: Mapping[str, Any], prefix: str = "") -> set[str]:
    """Return the names of columns and of the fields of structs in a schema's JSON, in lower case."""
    found = set()
    for field in struct["fields"]:
        name = f"{prefix}{field['name'].lower()}"
        found.add(name)
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            found |= names(field["type"], f"{name}.")
    return found


def has_columns(stored: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Whether a table has all recorded columns; RESTORE can take columns away, and the wider types of others."""
    return names(recorded) <= names(stored) and not differs(stored, recorded)


def differs(stored: Any, recorded: Any) -> bool:
    """Whether two types, as in the JSON of a schema, have parts of the same name with different types, at any depth."""
    if isinstance(stored, str) or isinstance(recorded, str):
        return bool(stored != recorded)
    if "fields" in stored and "fields" in recorded:
        types = {field["name"].lower(): field["type"] for field in stored["fields"]}
        both = [(types.get(field["name"].lower()), field["type"]) for field in recorded["fields"]]
        return any(differs(before, now) for before, now in both if before is not None)
    inner = ("elementType", "keyType", "valueType")
    return any(differs(stored[part], recorded[part]) for part in inner if part in stored and part in recorded)
