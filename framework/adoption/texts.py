"""Texts of Python expressions, as far as they are constants."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

ValueOf = Callable[[ast.Call, "Texts"], "Text | None"]


@dataclass(frozen=True, slots=True)
class Text:
    """A text, or its beginning.

    Args:
        start: the part that is known.
        is_whole: whether this is all of it.
    """

    start: str
    is_whole: bool = True

    def __add__(self, other: Text) -> Text:
        """Concatenate two texts."""
        return Text(self.start + other.start, other.is_whole) if self.is_whole else self


UNKNOWN = Text("", is_whole=False)

PLACEHOLDER = "sluice_parameter"
"""What stands in SQL for a parameter without a value: a name that no code has."""


class Texts:
    """The texts of a module's expressions.

    Args:
        tree: the module.
        value_of: returns the text of a call, such as one that reads a parameter; None for an unknown call. It
            is given the texts, too, for the arguments of the call.
    """

    def __init__(self, tree: ast.Module, value_of: ValueOf) -> None:
        self._value_of = value_of
        self._names: dict[str, Text] = {}
        for name, values in _assigned(tree).items():
            self._names[name] = self.of(values[0]) if len(values) == 1 else UNKNOWN

    def of(self, node: ast.expr | None) -> Text:
        """Return the text of an expression; UNKNOWN if nothing of it is known."""
        if isinstance(node, ast.Constant):
            return Text(str(node.value)) if isinstance(node.value, str | int) else UNKNOWN
        if isinstance(node, ast.Name):
            return self._names.get(node.id, UNKNOWN)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values)
        if isinstance(node, ast.FormattedValue):
            return self.of(node.value) if node.format_spec is None and node.conversion == -1 else UNKNOWN
        if isinstance(node, ast.BinOp):
            return self._combined(node)
        return self._called(node) if isinstance(node, ast.Call) else UNKNOWN

    def whole(self, node: ast.expr | None) -> str | None:
        """Return the text of an expression; None unless the whole text is known."""
        found = self.of(node)
        return found.start if found.is_whole else None

    def _joined(self, parts: list[ast.expr]) -> Text:
        found = Text("")
        for part in parts:
            found += self.of(part)
        return found

    def _combined(self, node: ast.BinOp) -> Text:
        left = self.of(node.left)
        if isinstance(node.op, ast.Add):
            return left + self.of(node.right)
        if isinstance(node.op, ast.Div):  # of pathlib
            return left + Text("/") + self.of(node.right)
        return Text(left.start.partition("%")[0], is_whole=False) if isinstance(node.op, ast.Mod) else UNKNOWN

    def _called(self, node: ast.Call) -> Text:
        found = self._value_of(node, self)
        if found is not None:
            return found
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "format" and isinstance(node.func, ast.Attribute):
            start, brace, _ = self.of(node.func.value).start.partition("{")
            return Text(start, is_whole=not brace)
        if name in {"str", "Path", "PurePosixPath"} and len(node.args) == 1:
            return self.of(node.args[0])
        if name == "join" and len(node.args) > 1:  # of os.path
            return self._joined([part for each in node.args for part in (each, ast.Constant("/"))][:-1])
        return UNKNOWN


def _assigned(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """The names of a module and its functions, each with all that is assigned to it."""
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        for target, value in _targets(node):
            if isinstance(target, ast.Name):
                values.setdefault(target.id, []).append(value)
    return values


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AugAssign):
        yield node.target, ast.Constant(None)


def dotted(node: ast.expr) -> str:
    """Return the name of an attribute of a name, such as `dbutils.fs.ls`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        start = dotted(node.value)
        return f"{start}.{node.attr}" if start else ""
    return ""


def argument(call: ast.Call, place: int, *names: str) -> ast.expr | None:
    """Return an argument of a call, by its place or one of its names; None if the call does not have it."""
    found: Mapping[str | None, ast.expr] = {each.arg: each.value for each in call.keywords}
    named = next((found[name] for name in names if name in found), None)
    return call.args[place] if place < len(call.args) else named
