"""Interpolation of `${...}` in a bundle: references to variables and settings; keeps types and detects cycles."""

from __future__ import annotations

import re
from collections.abc import Mapping

from framework.deploy.api.lookups import LookUp
from framework.deploy.bundle.documents.findings import BundleFinding, warning
from framework.deploy.bundle.documents.nodes import Node, as_node, kind_of
from framework.deploy.bundle.documents.variables import Variables
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint
from framework.foundation.secrets.secrecy import is_secret_name

REFERENCE = re.compile(r"\$\{([^\W\d_][\w-]*(?:\.[^\W\d][\w-]*|\[\d+\])*)\}")
_PART = re.compile(r"\.?([\w-]+)|\[(\d+)\]")
_USER = "workspace.current_user."
_SECTIONS = frozenset(
    {
        "artifacts",
        "bundle",
        "environment",
        "presets",
        "resources",
        "run_as",
        "sync",
        "targets",
        "var",
        "variables",
        "workspace",
    }
)
_MAX_ROUNDS = 20
_MAX_OPEN = 100
_MAX_VALUES = 1_000_000
_MAX_TEXT_LENGTH = 1_000_000


class Interpolation:
    """Resolves the references of one tree.

    References to resources (`${resources.pipelines.x.id}`) stay: they are resolved once ids are known.

    Args:
        tree: tree of all references other than variables.
        variables: the variables.
        look_up: lookup in a workspace; None offline.
    """

    def __init__(self, tree: Node, variables: Variables, look_up: LookUp | None) -> None:
        self._tree = tree
        self._variables = variables
        self._look_up = look_up
        self._looked_up: dict[str, Node] = {}
        self._resolved: dict[str, Node] = {}
        self._open: list[str] = []
        self._weights: dict[int, int] = {}
        self._count = 0
        self.findings: list[BundleFinding] = []

    def resolve(self, node: Node) -> Node:
        """Return the node with each reference replaced by its value.

        Raises:
            UserError: BUNDLE_REFERENCE_UNKNOWN, BUNDLE_REFERENCE_CYCLE, BUNDLE_VARIABLE_WITHOUT_VALUE, ...
        """
        self._add(1, node)
        if isinstance(node.value, dict):
            return Node(value={key: self.resolve(each) for key, each in node.value.items()}, location=node.location)
        if isinstance(node.value, tuple):
            return Node(value=tuple(self.resolve(each) for each in node.value), location=node.location)
        if not isinstance(node.value, str):
            return node
        return self._resolve_text(node)

    def resolve_variables(self) -> Mapping[str, Node]:
        """Return the resolved declarations of the variables, each with its `value`; an unused lookup has no value.

        Raises:
            UserError: as for `resolve`.
        """
        declared = self._tree.get("variables")
        found = {}
        for name, declaration in declared.entries("variables").items() if declared is not None else ():
            fields = declaration.value if declaration.is_map else {}
            entry = {key: self.resolve(each) for key, each in fields.items() if each.value is not None}
            if name in self._variables.values:
                entry["value"] = self._refer(f"var.{name}", declaration)
            elif name in self._looked_up:
                entry["value"] = self._looked_up[name]
            found[name] = Node(value=entry, location=declaration.location)
        return found

    def _resolve_text(self, node: Node) -> Node:
        """Resolve the references of a text, the innermost first, as in `${var.name_${bundle.target}}`."""
        text: str = node.value
        is_secret = node.is_secret

        def replacement(match: re.Match[str]) -> str:
            nonlocal is_secret
            found = self._refer(match[1], node)
            is_secret = is_secret or found.is_secret
            return _as_text(match[1], found)

        for _ in range(_MAX_ROUNDS):
            whole = REFERENCE.fullmatch(text)
            if whole is not None:
                found = self._refer(whole[1], node)
                return found.as_secret() if is_secret else found
            replaced = REFERENCE.sub(replacement, text)
            if len(replaced) > _MAX_TEXT_LENGTH:
                self._add(_MAX_VALUES, node)
            if replaced == text:
                return Node(value=text, location=node.location, is_secret=is_secret)
            text = replaced
        raise UserError("BUNDLE_REFERENCE_TOO_DEEP", location=node.location, cause=f"more than {_MAX_ROUNDS} passes")

    def _add(self, count: int, at: Node) -> None:
        self._count += count
        if self._count > _MAX_VALUES:
            raise UserError("BUNDLE_REFERENCE_TOO_LARGE", location=at.location, limit=_MAX_VALUES)

    def _weight(self, value: object) -> int:
        """Return the number of values in a value, itself included; a shared value counts once for each reference."""
        if not isinstance(value, dict | tuple):
            return 1
        if id(value) not in self._weights:
            below = value.values() if isinstance(value, dict) else value
            self._weights[id(value)] = 1 + sum(self._weight(each.value) for each in below)
        return self._weights[id(value)]

    def _refer(self, path: str, at: Node) -> Node:
        if path.startswith("resources.") or self._is_foreign(path, at):
            return Node(value=f"${{{path}}}", location=at.location)
        if path in self._open:
            cycle = " -> ".join([*self._open[self._open.index(path) :], path])
            raise UserError("BUNDLE_REFERENCE_CYCLE", location=at.location, path=cycle)
        if path not in self._resolved:
            if len(self._open) == _MAX_OPEN:
                raise UserError(
                    "BUNDLE_REFERENCE_TOO_DEEP", location=at.location, cause=f"more than {_MAX_OPEN} levels"
                )
            self._open.append(path)
            try:
                found = self.resolve(self._find(path, at))
                self._resolved[path] = found.as_secret() if _is_secret(path) else found
            finally:
                self._open.pop()
        found = self._resolved[path]
        self._add(self._weight(found.value), at)
        return Node(value=found.value, location=at.location, is_secret=found.is_secret)

    def _is_foreign(self, path: str, at: Node) -> bool:
        """Return whether a reference is not the bundle's but text for a shell or another tool, such as `${HOME}`.

        Such text stays, with a warning. If its first part resembles a section, it counts as a mistyped reference.
        """
        section = re.split(r"[.\[]", path)[0]
        if section in _SECTIONS or section in self._tree.value or nearest_hint(section, _SECTIONS):
            return False
        self.findings.append(warning("BUNDLE_REFERENCE_FOREIGN", at.location, reference=f"${{{path}}}"))
        return True

    def _find(self, path: str, at: Node) -> Node:
        parts = [name or int(index) for name, index in _PART.findall(path)]
        if parts[0] in {"var", "variables"} and len(parts) > 1:
            found: Node | None = self._variable(str(parts[1]), at)
            rest = parts[2:]
            if parts[0] == "variables":
                rest = rest[1:] if rest[:1] == ["value"] else rest
        else:
            found, rest = self._tree, parts
        for part in rest:
            found = self._below(found, part)
        if found is None:
            if path.startswith(_USER):
                raise UserError("BUNDLE_USER_UNKNOWN", location=at.location, reference=f"${{{path}}}")
            top = self._tree.value if len(parts) == 1 else (self._tree.get(str(parts[0])) or self._tree).value
            names = [f"{parts[0]}.{key}" for key in top] if isinstance(top, dict) else []
            hint = nearest_hint(path, names)
            raise UserError("BUNDLE_REFERENCE_UNKNOWN", location=at.location, reference=f"${{{path}}}", hint=hint)
        return found

    def _below(self, node: Node | None, part: str | int) -> Node | None:
        if node is not None and isinstance(node.value, str) and REFERENCE.search(node.value):
            node = self.resolve(node)
        if node is None:
            return None
        if isinstance(part, int):
            return node.value[part] if isinstance(node.value, tuple) and part < len(node.value) else None
        return node.get(part)

    def _variable(self, name: str, at: Node) -> Node:
        known = self._variables
        if name not in known.declared:
            hint = nearest_hint(name, known.declared)
            raise UserError("BUNDLE_VARIABLE_UNKNOWN", location=at.location, name=name, hint=hint)
        if name in known.lookups:
            if name not in self._looked_up:
                self._looked_up[name] = self._from_workspace(name, known.lookups[name])
            return self._looked_up[name]
        if name not in known.values:
            raise UserError("BUNDLE_VARIABLE_WITHOUT_VALUE", location=at.location, name=name)
        return known.values[name]

    def _from_workspace(self, name: str, lookup: Node) -> Node:
        ((kind, node),) = self.resolve(lookup).value.items()
        wanted = node.text(f"variables.{name}.lookup.{kind}")
        if self._look_up is None:
            raise UserError("BUNDLE_LOOKUP_OFFLINE", location=node.location, name=name, kind=kind, wanted=wanted)
        ids = self._look_up(kind, wanted)
        if not ids:
            raise UserError("BUNDLE_LOOKUP_NOTHING", location=node.location, name=name, kind=kind, wanted=wanted)
        if len(ids) > 1:
            raise UserError(
                "BUNDLE_LOOKUP_AMBIGUOUS",
                location=node.location,
                name=name,
                kind=kind,
                wanted=wanted,
                count=len(ids),
                ids=", ".join(ids),
            )
        return as_node(ids[0], node.location)


def _as_text(path: str, node: Node) -> str:
    """Return the value of a reference as a part of a text."""
    value = node.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | tuple):
        raise UserError(
            "BUNDLE_REFERENCE_NOT_TEXT", location=node.location, reference=f"${{{path}}}", actual=kind_of(value)
        )
    return "" if value is None else str(value)


def _is_secret(path: str) -> bool:
    """Return whether a reference is to a value with the name of a secret, such as `var.db_password`."""
    return any(is_secret_name(part) for part, _ in _PART.findall(path))
