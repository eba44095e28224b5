"""The value of each variable of a bundle, by who may say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.deploy.nodes import Node, as_node, kind_of
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

_PREFIX = "BUNDLE_VAR_"


def set_variables(
    tree: Node, *, root: Path, target: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, Node]:
    """The values of all variables that have one; the first of these says it.

    What was given with the call, `BUNDLE_VAR_name`, the lookup, the target's `variable-overrides.json`, the default.

    Raises:
        UserError: a value for a variable that is not declared, or of the wrong kind; a file that can't be read;
            BUNDLE_LOOKUP_OFFLINE, when a lookup would have to be asked.
    """
    node = tree.get("variables")
    declared = node.entries("variables") if node is not None else {}
    overrides = _overrides(root / ".databricks" / "bundle" / target / "variable-overrides.json")
    for name in [*given, *overrides]:
        if name not in declared:
            hint = nearest_hint(name, declared)
            raise UserError("BUNDLE_VARIABLE_UNKNOWN", location=tree.place, name=name, hint=hint)
    found = {}
    for name, declaration in declared.items():
        texts = {"--var": given.get(name), _PREFIX + name: environment.get(_PREFIX + name)}
        value = _value(name, declaration, texts, overrides)
        if value is not None:
            found[name] = value
    return found


def _value(name: str, declaration: Node, texts: Mapping[str, str | None], overrides: Mapping[str, Any]) -> Node | None:
    kind = declaration.get("type")
    is_complex = kind is not None and kind.value == "complex"
    for origin, text in texts.items():
        if text is not None:
            if is_complex:
                raise UserError("BUNDLE_VARIABLE_NOT_SIMPLE", location=declaration.place, name=name, origin=origin)
            return as_node(text, declaration.place)
    lookup = declaration.get("lookup")
    if lookup is not None:
        raise _lookup_fault(name, lookup)
    value = as_node(overrides[name], declaration.place) if name in overrides else declaration.get("default")
    if value is not None and not is_complex and isinstance(value.value, dict | tuple):
        actual = kind_of(value.value)
        raise UserError("BUNDLE_VARIABLE_TYPE", location=value.place, name=name, actual=actual)
    return value


def _lookup_fault(name: str, lookup: Node) -> UserError:
    entries = lookup.entries(f"variables.{name}.lookup")
    if len(entries) != 1:
        return UserError("BUNDLE_LOOKUP_INVALID", location=lookup.place, name=name, count=len(entries))
    ((kind, wanted),) = entries.items()
    return UserError("BUNDLE_LOOKUP_OFFLINE", location=lookup.place, name=name, kind=kind, wanted=wanted.value)


def _overrides(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        place = SourceLocation(file=str(path), line=1)
        raise UserError("BUNDLE_VARIABLE_OVERRIDES_INVALID", location=place, path=path, cause=error) from error
    if not isinstance(found, dict):
        place = SourceLocation(file=str(path), line=1)
        raise UserError("BUNDLE_VARIABLE_OVERRIDES_INVALID", location=place, path=path, cause="it is no object")
    return found
