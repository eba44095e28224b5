"""How a flow ends when Spark ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.steps import RefreshView
from framework.record.events import Origin
from framework.record.log import EventLog
from framework.run.flows.stop_signal import StopSignal
from framework.run.update.flow_attempts import FlowAttempts
from framework.run.update.journal import Journal
from framework.run.update.results import FlowState
from framework.run.update.retries import RetryPolicy
from framework.testing.manual_clock import ManualClock

NAME = QualifiedName(catalog="main", schema="s", table="v")
STEP = RefreshView(dataset=NAME, flow=NAME, after=(), reason="")


class WithoutSpark:
    """Refreshes views of a session whose JVM has ended."""

    def refresh(self, _: RefreshView) -> None:
        """Fail as a call to Java does then."""
        msg = "Answer from Java side is empty"
        raise Py4JNetworkError(msg)


def attempts(stop: StopSignal, log: EventLog) -> FlowAttempts:
    """The attempts of a pipeline with one view, whose JVM has ended."""
    view = GraphDataset(
        spec=DatasetSpec(name=NAME, kind=DatasetKind.MATERIALIZED_VIEW), kind=DatasetKind.MATERIALIZED_VIEW
    )
    flow = GraphFlow(spec=FlowSpec(name=NAME, target=NAME), streaming=False, reads=())
    graph = DataflowGraph(pipeline="p", datasets=(view,), flows=(flow,))
    unused: Any = None
    refresher: Any = WithoutSpark()
    return FlowAttempts(
        graph=graph, runner=unused, refresher=refresher, state=unused, journal=Journal(log), retries=RetryPolicy(),
        clock=ManualClock(), stop=stop,
    )  # fmt: skip


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_flow_whose_spark_was_ended_by_a_second_signal_is_stopped(tmp_path: Path, is_asked: bool) -> None:  # noqa: FBT001 - a parameter
    """It has not failed. A JVM that ends by itself fails the flow, and every other one that runs."""
    stop = StopSignal()
    if is_asked:
        stop.set()
    origin = Origin(pipeline_id="p", pipeline_name="p", update_id="u", host="h")
    with EventLog(LocalStorage(str(tmp_path)), origin) as log:
        results = [attempts(stop, log).run(STEP) for _ in range(2)]
    expected = (FlowState.STOPPED, "the update is stopping") if is_asked else (FlowState.FAILED, "SPARK_LOST")
    assert [(each.state, each.reason) for each in results] == [expected, expected]
    assert stop.is_set
