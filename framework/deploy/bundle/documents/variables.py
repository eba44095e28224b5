"""Values of a bundle's variables, by the precedence of their sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.deploy.api.lookups import LOOKUP_KINDS
from framework.deploy.bundle.documents.nodes import Node, as_node, kind_of
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

_PREFIX = "BUNDLE_VAR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables of a target.

    Args:
        declared: names of all variables.
        values: values of the variables that have one.
        lookups: lookups of the other variables in the workspace; performed only if a setting refers to the variable.
    """

    declared: frozenset[str]
    values: Mapping[str, Node]
    lookups: Mapping[str, Node]


def set_variables(
    tree: Node, *, root: Path, target: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> Variables:
    """Return the values of all variables.

    In order of precedence: `value` in the declaration, `--var`, `BUNDLE_VAR_name`, the lookup, the target's
    `variable-overrides.json`, the default.

    Raises:
        UserError: a variable without a value; a value of an undeclared variable or of the wrong kind; a file that
            can't be read; an invalid lookup.
    """
    node = tree.get("variables")
    declared = node.entries("variables") if node is not None else {}
    overrides = _overrides(root, target)
    for name in [*given, *overrides]:
        if name not in declared:
            hint = nearest_hint(name, declared)
            raise UserError("BUNDLE_VARIABLE_UNKNOWN", location=tree.location, name=name, hint=hint)
    values, lookups = {}, {}
    for name, declaration in declared.items():
        texts = {"--var": given.get(name), _PREFIX + name: environment.get(_PREFIX + name)}
        lookup = _lookup(name, declaration)
        value = _fixed(name, declaration, given) or _text(name, declaration, texts)
        if value is None and lookup is not None:
            lookups[name] = lookup
            continue
        value = value or _written(name, declaration, overrides)
        if value is None:
            raise UserError("BUNDLE_VARIABLE_WITHOUT_VALUE", location=declaration.location, name=name)
        values[name] = value
    return Variables(declared=frozenset(declared), values=values, lookups=lookups)


def _fixed(name: str, declaration: Node, given: Mapping[str, str]) -> Node | None:
    """Return the `value` of a declaration, which can't be overridden."""
    value = declaration.get("value")
    if value is not None and name in given:
        raise UserError("BUNDLE_VARIABLE_FIXED", location=value.location, name=name)
    return value


def _text(name: str, declaration: Node, texts: Mapping[str, str | None]) -> Node | None:
    """Return the value from the call or the environment, which is a text."""
    for origin, text in texts.items():
        if text is not None:
            if _is_complex(declaration):
                raise UserError("BUNDLE_VARIABLE_NOT_SIMPLE", location=declaration.location, name=name, origin=origin)
            return as_node(text, declaration.location)
    return None


def _written(name: str, declaration: Node, overrides: Mapping[str, Any]) -> Node | None:
    """Return the value in the target's file, which must be of the declared kind, or the default, of any kind."""
    written = overrides.get(name)
    if written is None:
        return declaration.get("default")
    value = as_node(written, declaration.location)
    is_complex = isinstance(value.value, dict | tuple)
    if is_complex != _is_complex(declaration):
        raise UserError("BUNDLE_VARIABLE_TYPE", location=value.location, name=name, actual=kind_of(value.value))
    return value


def _is_complex(declaration: Node) -> bool:
    kind = declaration.get("type")
    return kind is not None and kind.value == "complex"


def _lookup(name: str, declaration: Node) -> Node | None:
    """Return a variable's lookup, after a check: one name of a known kind, and no default."""
    lookup = declaration.get("lookup")
    if lookup is None:
        return None
    entries = lookup.entries(f"variables.{name}.lookup")
    if len(entries) != 1:
        raise UserError("BUNDLE_LOOKUP_INVALID", location=lookup.location, name=name, count=len(entries))
    if declaration.get("default") is not None:
        raise UserError("BUNDLE_LOOKUP_WITH_DEFAULT", location=lookup.location, name=name)
    ((kind, wanted),) = entries.items()
    if kind not in LOOKUP_KINDS:
        hint = nearest_hint(kind, LOOKUP_KINDS)
        where = f"the lookup of variable {name}"
        raise UserError("BUNDLE_UNKNOWN_KEY", location=wanted.location, key=kind, where=where, hint=hint)
    wanted.text(f"variables.{name}.lookup.{kind}")
    return lookup


def _overrides(root: Path, target: str) -> Mapping[str, Any]:
    """Return the values in the target's `variable-overrides.json`, which is not committed to Git."""
    name = f".databricks/bundle/{target}/variable-overrides.json"
    if not (root / name).is_file():
        return {}
    line, column = 1, 1
    found: Any = None
    try:
        found = json.loads((root / name).read_text(encoding="utf-8"))
        cause = "" if isinstance(found, dict) else "it is not a JSON object"
    except json.JSONDecodeError as error:
        cause, line, column = error.msg, error.lineno, error.colno
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        cause = type(error).__name__
    if cause:
        location = SourceLocation(file=name, line=line, column=column)
        raise UserError("BUNDLE_VARIABLE_OVERRIDES_INVALID", location=location, path=name, cause=cause)
    values: Mapping[str, Any] = found
    return values
