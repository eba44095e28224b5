"""Comparison of a stored table's columns, as JSON schemas, with its record and the code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from framework.foundation.computed_columns import DEFAULT, DEFAULTS_FEATURE, definition
from framework.schema.change import schema_change


def has_columns(stored: str, recorded: str) -> bool:
    """Whether a table has all recorded columns, or wider ones; RESTORE can remove columns and undo wider types."""
    change = schema_change(json.loads(stored), json.loads(recorded))
    return not (change.added or change.widened or change.conflicts(widens=True))


def with_definitions(schema: str, logged: str | None) -> str:
    """Return a schema as Spark reads it, plus the definitions of generated columns, which only Delta's log has.

    Args:
        schema: JSON of the schema.
        logged: JSON of the schema in Delta's log; None if it is unknown.
    """
    found = json.loads(schema)
    stored = {} if logged is None else {field["name"]: field["metadata"] for field in json.loads(logged)["fields"]}
    for field in found["fields"]:
        field["metadata"] |= definition(stored.get(field["name"], {}))
    return json.dumps(found)


def property_of_defaults(schema: str | None) -> dict[str, str]:
    """Return the property that a table needs for its column defaults; empty if no column has one."""
    return {DEFAULTS_FEATURE: "supported"} if f'"{DEFAULT}"' in (schema or "") else {}


def spelled_as_in(schema: str | None, columns: Iterable[str]) -> tuple[str, ...]:
    """Return layout columns, including struct fields by path, as the JSON of a schema spells them.

    Delta compares these names case-sensitively, Spark case-insensitively.
    """
    spelled = {name.lower(): name for name in _paths(json.loads(schema)["fields"])} if schema else {}
    return tuple(spelled.get(column.replace("`", "").lower(), column) for column in columns)


def are_equal(columns: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two lists of columns are equal, ignoring case."""
    return [column.lower() for column in columns] == [column.lower() for column in others]


def _paths(fields: Iterable[Mapping[str, Any]], prefix: str = "") -> Iterable[str]:
    for field in fields:
        path = f"{prefix}{field['name']}"
        yield path
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _paths(field["type"]["fields"], f"{path}.")
