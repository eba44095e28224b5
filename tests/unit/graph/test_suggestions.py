"""The name that an error suggests for an unknown one."""

from __future__ import annotations

import pytest

from framework.foundation.names import QualifiedName
from framework.graph.rules import did_you_mean


def name(text: str) -> QualifiedName:
    """Return a name in `main.shop` by default."""
    return QualifiedName.parse(text, catalog="main", schema="shop")


@pytest.mark.parametrize(
    ("wanted", "suggestion"),
    [
        ("ordres", " Did you mean main.shop.orders?"),
        ("lab.orders", " Did you mean main.shop.orders?"),
        ("nowhere", ""),
        ("customer", " Did you mean main.shop.customers?"),
    ],
)
def test_the_nearest_table_name_is_suggested(wanted: str, suggestion: str) -> None:
    """A prefix that all names share does not make an unrelated name similar."""
    assert suggestion == did_you_mean(name(wanted), [name("orders"), name("customers")])
