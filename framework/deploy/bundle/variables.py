"""The value of each variable of a bundle, by who may say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.deploy.api.lookups import LOOKUP_KINDS
from framework.deploy.bundle.nodes import Node, as_node, kind_of
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint

_PREFIX = "BUNDLE_VAR_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """The variables of a target.

    Args:
        declared: the names of all.
        values: those that have one.
        lookups: those whose value the workspace knows; it is asked only for one that something refers to.
    """

    declared: frozenset[str]
    values: Mapping[str, Node]
    lookups: Mapping[str, Node]


def set_variables(
    tree: Node, *, root: Path, target: str, given: Mapping[str, str], environment: Mapping[str, str]
) -> Variables:
    """The values of all variables.

    The first of these counts: `value` in the declaration, the call, `BUNDLE_VAR_name`, the lookup, the target's
    `variable-overrides.json`, the default.

    Raises:
        UserError: a variable without a value, or a value for one that is not declared or of the wrong kind; a file
            that can't be read; an invalid lookup.
    """
    node = tree.get("variables")
    declared = node.entries("variables") if node is not None else {}
    overrides = _overrides(root, target)
    for name in [*given, *overrides]:
        if name not in declared:
            hint = nearest_hint(name, declared)
            raise UserError("BUNDLE_VARIABLE_UNKNOWN", location=tree.place, name=name, hint=hint)
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
            raise UserError("BUNDLE_VARIABLE_WITHOUT_VALUE", location=declaration.place, name=name)
        values[name] = value
    return Variables(declared=frozenset(declared), values=values, lookups=lookups)


def _fixed(name: str, declaration: Node, given: Mapping[str, str]) -> Node | None:
    """The `value` of a declaration, which nothing may override."""
    value = declaration.get("value")
    if value is not None and name in given:
        raise UserError("BUNDLE_VARIABLE_FIXED", location=value.place, name=name)
    return value


def _text(name: str, declaration: Node, texts: Mapping[str, str | None]) -> Node | None:
    """The value given as a text with the call or in the environment."""
    for origin, text in texts.items():
        if text is not None:
            if _is_complex(declaration):
                raise UserError("BUNDLE_VARIABLE_NOT_SIMPLE", location=declaration.place, name=name, origin=origin)
            return as_node(text, declaration.place)
    return None


def _written(name: str, declaration: Node, overrides: Mapping[str, Any]) -> Node | None:
    """The value of the target's file, which is of the declared kind, or the default, which may be of any."""
    written = overrides.get(name)
    if written is None:
        return declaration.get("default")
    value = as_node(written, declaration.place)
    is_complex = isinstance(value.value, dict | tuple)
    if is_complex != _is_complex(declaration):
        raise UserError("BUNDLE_VARIABLE_TYPE", location=value.place, name=name, actual=kind_of(value.value))
    return value


def _is_complex(declaration: Node) -> bool:
    kind = declaration.get("type")
    return kind is not None and kind.value == "complex"


def _lookup(name: str, declaration: Node) -> Node | None:
    """What a variable looks up: one thing of a known kind, and no default beside it."""
    lookup = declaration.get("lookup")
    if lookup is None:
        return None
    entries = lookup.entries(f"variables.{name}.lookup")
    if len(entries) != 1:
        raise UserError("BUNDLE_LOOKUP_INVALID", location=lookup.place, name=name, count=len(entries))
    if declaration.get("default") is not None:
        raise UserError("BUNDLE_LOOKUP_WITH_DEFAULT", location=lookup.place, name=name)
    ((kind, wanted),) = entries.items()
    if kind not in LOOKUP_KINDS:
        hint = nearest_hint(kind, LOOKUP_KINDS)
        where = f"the lookup of variable {name}"
        raise UserError("BUNDLE_UNKNOWN_KEY", location=wanted.place, key=kind, where=where, hint=hint)
    wanted.text(f"variables.{name}.lookup.{kind}")
    return lookup


def _overrides(root: Path, target: str) -> Mapping[str, Any]:
    """The values in the target's own file, which git does not keep."""
    name = f".databricks/bundle/{target}/variable-overrides.json"
    if not (root / name).is_file():
        return {}
    line, column = 1, 1
    found: Any = None
    try:
        found = json.loads((root / name).read_text(encoding="utf-8"))
        cause = "" if isinstance(found, dict) else "it is no object"
    except json.JSONDecodeError as error:
        cause, line, column = error.msg, error.lineno, error.colno
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        cause = type(error).__name__
    if cause:
        place = SourceLocation(file=name, line=line, column=column)
        raise UserError("BUNDLE_VARIABLE_OVERRIDES_INVALID", location=place, path=name, cause=cause)
    values: Mapping[str, Any] = found
    return values
