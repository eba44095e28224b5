"""Conditions of operators without a database."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def accepted_conditions(swap: pytest.MonkeyPatch) -> None:
    """Accept every condition: only a database can refuse one (`tests/databases/test_partial_resyncs.py`)."""
    swap.setattr("framework.ingest.operations._check_by_database", lambda *_: None)
