"""Suggestions of similar names for error texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error text, with a leading space; empty if no known name is similar.

    Examples:
        >>> nearest_hint("resorces", ["bundle", "resources"]), nearest_hint("x", ["bundle"])
        (' Did you mean `resources`?', '')
    """
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""
