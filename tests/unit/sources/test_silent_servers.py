"""A server of which nothing arrives any more: a connection that is lost without a word ends."""

from __future__ import annotations

import pytest

from framework.foundation.errors import SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.reading import Goal
from framework.testing.manual_clock import ManualClock


def test_a_read_ends_when_not_even_keepalives_arrive() -> None:
    """After two minutes, counted from the last message; the fault is one that another attempt may heal."""
    clock = ManualClock()
    goal = Goal(1, None, clock, Connection(name="bank", uri="postgresql://host/bank"))
    for _ in range(3):
        clock.sleep(119)
        goal.needs_nudge([])
        goal.renew_silence()
    clock.sleep(121)
    with pytest.raises(SourceError) as caught:
        goal.needs_nudge([])
    assert caught.value.condition == "DATABASE_UNREACHABLE"
