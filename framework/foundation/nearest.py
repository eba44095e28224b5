"""Matches names in user texts against known names, and suggests the most similar name in error texts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def plain_name(text: str) -> str:
    """Return a name in the form of printed full names: lower case, without backticks.

    Examples:
        >>> plain_name("Shop.`Order Lines`")
        'shop.order lines'
    """
    return text.lower().replace("`", "")


def is_named(name: str, wanted: str) -> bool:
    """Whether a full name equals the wanted name or ends with its parts; both in the form of `plain_name`.

    Examples:
        >>> is_named("main.shop.orders", "shop.orders"), is_named("main.shop.orders", "ders")
        (True, False)
    """
    return name == wanted or name.endswith(f".{wanted}")


def meant_names(text: str, known: Iterable[str]) -> list[str]:
    """Return the known full names that a user's text can refer to: the equal one, or else all that end with its parts.

    Examples:
        >>> meant_names("Orders", ["main.shop.orders", "main.old.orders", "main.shop.customers"])
        ['main.shop.orders', 'main.old.orders']
        >>> meant_names("shop.orders", ["shop.orders", "main.shop.orders"])
        ['shop.orders']
    """
    wanted = plain_name(text)
    found = [name for name in known if is_named(name, wanted)]
    return [wanted] if wanted in found else found


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name; None if no name is similar.

    Examples:
        >>> nearest_name("resorces", ["bundle", "resources"]), nearest_name("x", ["bundle"])
        ('resources', None)
    """
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)


def nearest_qualified(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name with dots, comparing whole names and last parts.

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


def qualified_hint(text: str, known: Iterable[str]) -> str:
    """Return a suggestion like `nearest_hint` for a name with dots, comparing whole names and last parts.

    Examples:
        >>> qualified_hint("Ordres", ["main.shop.orders", "main.shop.customers"])
        ' Did you mean main.shop.orders?'
    """
    near = nearest_qualified(plain_name(text), known)
    return f" Did you mean {near}?" if near else ""
