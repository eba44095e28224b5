"""Which settings hold something that is another thing at each deploy: the repository's state, a time from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from framework.deploy.bundle.interpolation import REFERENCE
from framework.deploy.bundle.nodes import Node

_GIT = "bundle.git."
_NESTED = re.compile(r"\$\{[^{}]*\$\{")
# A day, a moment, a moment in digits, seconds or milliseconds since 1970; a whole commit.
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T _-]\d\d[:_-]?\d\d.*)?|20\d{12}|\d{8}[T_-]\d{4,6}Z?|1\d{9}|1\d{12}|[0-9a-f]{40}"
)


class VolatileValues:
    """Follows references from settings to where their values come from.

    Args:
        tree: the target's settings, as they are written.
        values: of the variables.
    """

    def __init__(self, tree: Node, values: Mapping[str, Node]) -> None:
        self._tree = tree
        self._values = values

    def source(self, node: Node) -> str | None:
        """What makes a value another one at each deploy, as a text for people; None where nothing does."""
        return self._of(node, frozenset())

    def _of(self, node: Node, seen: frozenset[str]) -> str | None:
        return next((found for text in texts_in(node) for found in self._of_text(text, seen)), None)

    def _of_text(self, text: str, seen: frozenset[str]) -> Iterator[str]:
        for match in REFERENCE.finditer(text):
            path = match[1]
            if path.startswith(_GIT):
                yield f"${{{path}}}"
            elif path not in seen and not path.startswith("resources."):
                found = self._followed(path, seen | {path})
                if found is not None:
                    yield found
        if _NESTED.search(text) and (outer := REFERENCE.sub(self._literal, text)) != text:
            yield from self._of_text(outer, seen)

    def _literal(self, match: re.Match[str]) -> str:
        """The text of a variable inside a reference, as in `${var.tag_${var.kind}}`."""
        value = self._values.get(match[1].removeprefix("var."))
        return match[0] if value is None or "${" in str(value.value) else str(value.value)

    def _followed(self, path: str, seen: frozenset[str]) -> str | None:
        head, *rest = re.split(r"[.\[]", path)
        if head not in {"var", "variables"} or not rest:
            below = self._tree.get(*path.split("."))
            return None if below is None else self._of(below, seen)
        value = self._values.get(rest[0])
        if value is None:
            return None
        return self._of(value, seen) or self._from_outside(rest[0], value)

    def _from_outside(self, name: str, value: Node) -> str | None:
        """A variable that was given with the call, and holds a moment or a commit."""
        written = self._tree.get("variables", name, "default")
        if written is not None and written.value == value.value:
            return None
        if not isinstance(value.value, str) or _MOMENT.fullmatch(value.value) is None:
            return None
        return f"${{var.{name}}}, which is {value.value} this time"


def texts_in(node: Node) -> Iterator[str]:
    """All texts of settings."""
    if isinstance(node.value, dict):
        for each in node.value.values():
            yield from texts_in(each)
    elif isinstance(node.value, tuple):
        for each in node.value:
            yield from texts_in(each)
    elif isinstance(node.value, str):
        yield node.value


def leaves_in(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """All scalars of settings by their path; items of lists go by their number."""
    if isinstance(node.value, dict):
        for key, each in node.value.items():
            yield from leaves_in(each, (*path, key))
    elif isinstance(node.value, tuple):
        for number, each in enumerate(node.value):
            yield from leaves_in(each, (*path, str(number)))
    else:
        yield path, node
