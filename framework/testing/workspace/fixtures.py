"""The stand-in workspace as a fixture of pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.testing.workspace.server import StandInWorkspace, serve_workspace


@pytest.fixture
def workspace() -> Iterator[StandInWorkspace]:
    """A workspace of the test's own, empty, on a clock that stands still."""
    with serve_workspace() as served:
        yield served
