"""pytest fixture of the stand-in workspace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from framework.testing.workspace.server import StandInWorkspace, serve_workspace


@pytest.fixture
def workspace() -> Iterator[StandInWorkspace]:
    """Serve an empty workspace for one test, on a manual clock."""
    with serve_workspace() as served:
        yield served
