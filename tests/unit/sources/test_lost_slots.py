"""The fault of a slot that the server has invalidated says why, and what to do before a new slot."""

from __future__ import annotations

from typing import Any

import pytest

from framework.sources.databases.postgres.log.position_check import StoredPosition, _slot_gap
from framework.sources.databases.postgres.tables.catalog import SourceIdentity


class _Cursor:
    """Answers a query with a row of pg_replication_slots."""

    def __init__(self, row: tuple[object, ...]) -> None:
        self._row = row

    def execute(self, _query: str, _arguments: list[Any]) -> None:
        """Take the query."""

    def fetchone(self) -> tuple[object, ...]:
        """Return the row."""
        return self._row


@pytest.mark.parametrize(
    ("reason", "cause", "setting"),
    [
        ("wal_removed", "has removed the log", "max_slot_wal_keep_size"),
        ("idle_timeout", "nothing read it", "idle_replication_slot_timeout"),
        ("a_later_reason", "(a_later_reason)", "Correct the cause"),
    ],
)
def test_a_lost_slot_has_its_cause(reason: str, cause: str, setting: str) -> None:
    """PostgreSQL 18 invalidates a slot that nobody reads; another size of the log would not help then."""
    stored = StoredPosition(
        slot="s", publication="p", lsn=42, identity=SourceIdentity(system="1", timeline=1, database="d")
    )
    gap = _slot_gap(_Cursor(("pgoutput", "d", "lost", "0/2A", reason, False)), stored)
    assert gap is not None
    error = gap.error()
    assert error.condition == "DATABASE_POSITION_LOST.SLOT_INVALID"
    assert (cause in error.what, setting in error.remedy) == (True, True)
