"""A bundle's target: its selection, and its merge into the tree."""

from __future__ import annotations

from collections.abc import Mapping

from framework.deploy.bundle.checks.field_checks import as_scalar
from framework.deploy.bundle.documents.merging import merge
from framework.deploy.bundle.documents.nodes import Node, as_node
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

MODES = frozenset({"development", "production"})
_OVERWRITTEN = ("run_as", "variables")
_DECLARES = frozenset({"default", "description", "lookup", "type"})
_GIVES = frozenset({"default", "lookup"})


def choose_target(tree: Node, wanted: str | None) -> str:
    """Return the target's name: the wanted one, else the default one, else the only one.

    Raises:
        UserError: BUNDLE_TARGET_UNKNOWN; BUNDLE_TARGET_AMBIGUOUS if none is named and no single one is the default.
    """
    targets = _targets(tree)
    known = ", ".join(sorted(targets)) or "none"
    if wanted is not None:
        if wanted not in targets:
            hint = nearest_hint(wanted, targets)
            raise UserError("BUNDLE_TARGET_UNKNOWN", location=tree.location, target=wanted, hint=hint, known=known)
        return wanted
    flags = {name: node.get("default") for name, node in targets.items()}
    defaults = [name for name, flag in flags.items() if flag is not None and as_scalar(flag.value, bool) is True]
    if len(defaults) == 1:
        return defaults[0]
    if not defaults and len(targets) == 1:
        return next(iter(targets))
    reason = f"{len(defaults)} targets set `default: true`" if defaults else "no target sets `default: true`"
    raise UserError("BUNDLE_TARGET_AMBIGUOUS", location=tree.location, reason=reason, known=known)


def merge_target(tree: Node, name: str) -> Node:
    """Merge the target's settings into the tree; `run_as` and the default or lookup of a variable are replaced.

    Raises:
        UserError: BUNDLE_MODE_UNKNOWN; BUNDLE_VARIABLE_UNKNOWN; BUNDLE_MERGE_KINDS.
    """
    over = _targets(tree)[name]
    settings = dict(over.value or {})
    base = {key: node for key, node in tree.value.items() if key != "targets"}
    settings.pop("default", None)
    git = settings.pop("git", None)
    if git is not None and git.value is not None:
        under = settings.get("bundle") or Node(value={}, location=git.location)
        settings["bundle"] = merge(under, Node(value={"git": git}, location=git.location))
    mode = settings.get("mode")
    if mode is not None and mode.value is not None and mode.value not in MODES:
        raise UserError("BUNDLE_MODE_UNKNOWN", location=mode.location, mode=mode.value)
    for key in _OVERWRITTEN:
        if key in settings and settings[key].value is not None:
            base[key] = _overwritten(key, base.get(key), settings.pop(key))
    return merge(Node(value=base, location=tree.location), Node(value=settings, location=over.location))


def other_targets_with(tree: Node, name: str, key: str) -> tuple[str, ...]:
    """Return the other targets that declare the resource."""
    kind, _, resource = key.partition(".")
    return tuple(
        other for other, node in _targets(tree).items() if other != name and node.get("resources", kind, resource)
    )


def target_names(tree: Node) -> tuple[str, ...]:
    """Return the names of all targets; a bundle without targets has one, `default`."""
    return tuple(_targets(tree))


def _targets(tree: Node) -> Mapping[str, Node]:
    targets = tree.get("targets")
    if targets is None:
        return {"default": as_node({}, tree.location)}
    return targets.entries("targets")


def _overwritten(key: str, base: Node | None, over: Node) -> Node:
    """Return the target's `run_as`, or the declarations of `variables` with the target's values."""
    if key != "variables":
        return over
    known = {} if base is None else dict(base.entries(key))
    for name, value in over.entries(key).items():
        if name not in known:
            hint = nearest_hint(name, known)
            raise UserError("BUNDLE_VARIABLE_UNKNOWN", location=value.location, name=name, hint=hint)
        if value.value is not None:
            known[name] = _redeclared(known[name], value)
    return Node(value=known, location=over.location if base is None else base.location)


def _redeclared(declared: Node, value: Node) -> Node:
    """Return a variable's declaration with a target's changes: a plain value, or fields of a declaration."""
    is_declaration = value.is_map and set(value.value) <= _DECLARES and bool(set(value.value) & _GIVES)
    new = dict(value.value) if is_declaration else {"default": value}
    kept = {} if not declared.is_map else declared.value
    dropped = _GIVES if set(new) & _GIVES else set()
    return Node(value={**{k: v for k, v in kept.items() if k not in dropped}, **new}, location=value.location)
