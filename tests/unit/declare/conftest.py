"""Fixtures for tests of declarations: an active registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.declare.registry import Registry, registering


@pytest.fixture
def registry() -> Iterator[Registry]:
    """The active registry of a pipeline whose defaults are `main.shop`."""
    with registering(Registry(catalog="main", schema="shop")) as filled:
        yield filled
