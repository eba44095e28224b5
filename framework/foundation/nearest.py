"""The name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """A sentence to append to an error, with a space before it; empty when no name is near.

    Examples:
        >>> nearest_hint("resorces", ["bundle", "resources"]), nearest_hint("x", ["bundle"])
        (' Did you mean `resources`?', '')
    """
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean `{near[0]}`?" if near else ""
