"""Settings whose value changes at each deploy: the repository's state, or a time or commit passed as a variable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from framework.deploy.bundle.interpolation import REFERENCE
from framework.deploy.bundle.nodes import Node

_GIT = "bundle.git."
_NESTED = re.compile(r"\$\{[^{}]*\$\{")
# A date, a timestamp, a timestamp in digits, seconds or milliseconds since 1970; a full commit hash.
_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T _-]\d\d[:_-]?\d\d.*)?|20\d{12}|\d{8}[T_-]\d{4,6}Z?|1\d{9}|1\d{12}|[0-9a-f]{40}"
)


class VolatileValues:
    """Follows references from settings to the sources of their values.

    Args:
        tree: the target's settings before references are resolved.
        values: values of the variables.
    """

    def __init__(self, tree: Node, values: Mapping[str, Node]) -> None:
        self._tree = tree
        self._values = values

    def source(self, node: Node) -> str | None:
        """Return the source that changes a value at each deploy, as a text for people; None without such a source."""
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
        """Return the text of a variable inside a reference, as in `${var.tag_${var.kind}}`."""
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
        """Describe a variable whose value is not its default, and is a time or a commit; else None."""
        written = self._tree.get("variables", name, "default")
        if written is not None and written.value == value.value:
            return None
        if not isinstance(value.value, str) or _MOMENT.fullmatch(value.value) is None:
            return None
        return f"${{var.{name}}}, which is {value.value} in this deployment"


def texts_in(node: Node) -> Iterator[str]:
    """Return all texts in settings."""
    if isinstance(node.value, dict):
        for each in node.value.values():
            yield from texts_in(each)
    elif isinstance(node.value, tuple):
        for each in node.value:
            yield from texts_in(each)
    elif isinstance(node.value, str):
        yield node.value


def leaves_in(node: Node, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Return all scalars in settings with their paths; items of lists have their index."""
    if isinstance(node.value, dict):
        for key, each in node.value.items():
            yield from leaves_in(each, (*path, key))
    elif isinstance(node.value, tuple):
        for number, each in enumerate(node.value):
            yield from leaves_in(each, (*path, str(number)))
    else:
        yield path, node
