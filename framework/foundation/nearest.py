"""The known name that is most similar to an unknown one, for error texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name; None if no name is similar.

    Examples:
        >>> nearest_name("resorces", ["bundle", "resources"]), nearest_name("x", ["bundle"])
        ('resources', None)
    """
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)


def nearest_qualified(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name with dots, compared as a whole and by its last part.

    Examples:
        >>> nearest_qualified("ordres", ["main.shop.orders", "main.shop.customers"])
        'main.shop.orders'
    """
    full_names = {full: full for full in known}
    by_last_part = {full.rpartition(".")[2]: full for full in full_names}
    return (by_last_part | full_names).get(nearest_name(name, [*full_names, *by_last_part]) or "")


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return a suggestion to append to an error text, with a leading space; empty if no known name is similar.

    Examples:
        >>> nearest_hint("resorces", ["bundle", "resources"]), nearest_hint("x", ["bundle"])
        (' Did you mean `resources`?', '')
    """
    near = nearest_name(name, known)
    return f" Did you mean `{near}`?" if near else ""
