"""Waits for what a continuous update does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException

from framework.run.update.continuous.units import FlowHealth
from framework.run.update.results import UpdateState
from framework.running_update import RunningUpdate
from tests.support.engine_world import EngineWorld

_DEADLINE_SECONDS = 240


class Watched:
    """The rows of a world's tables; a table is read again only after a commit, because a query costs more than a batch.

    Args:
        world: has the tables.
    """

    def __init__(self, world: EngineWorld) -> None:
        self.world = world
        self._read: dict[str, tuple[int, list[tuple[Any, ...]]]] = {}

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table, sorted; none before its first commit."""
        versions = self.world.versions(table)
        if versions == 0:
            return []
        known = self._read.get(table)
        if known is None or known[0] != versions:
            known = self._read[table] = versions, self.world.rows(table)
        return known[1]


def until(holds: Callable[[], bool], running: RunningUpdate, *, may_fail: bool = False) -> None:
    """Wait until a condition holds; fail when a flow fails, or with the flows' states after four minutes.

    A condition that takes long, such as a query, is checked less often, so that it does not slow the update down.
    """
    deadline = time.monotonic() + _DEADLINE_SECONDS
    begin = time.monotonic()
    while not _holds(holds):
        assert time.monotonic() < deadline, (running.state, running.flows)
        assert running.state is not UpdateState.FAILED, running.wait(0)
        failed = [flow for flow in running.flows if flow.health is FlowHealth.FAILED]
        assert may_fail or not failed, [(flow.flow.table, flow.reason) for flow in failed]
        time.sleep(max(0.05, 2 * (time.monotonic() - begin)))
        begin = time.monotonic()


def _holds(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except AnalysisException as error:
        # The test's own query was analysed before a column or a type changed, and runs after it.
        if error.getCondition() != "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS":
            raise
        return False
