"""The report of a pipeline: what its storage has, and, with Spark, its graph now, its lag and what its doctor finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from framework.foundation.clock import Clock
from framework.foundation.errors import SluiceError
from framework.graph.graph import DataflowGraph
from framework.graph.stored_graph import GraphStore
from framework.operations.pipeline_port import PipelinePort
from framework.views.reports.report import Report
from framework.views.reports.update_record import read_updates

_MOST_UPDATES = 60
_NOT_EXAMINED = (
    "The doctor has not examined the flows, and their lag was not measured: --stored reads only the storage."
)
_OLD_GRAPH = "The graph is that of the last validate or update."

_Found = TypeVar("_Found")


def make_report(pipeline: PipelinePort, cache: Path, clock: Clock, *, stored: bool = False) -> Report:
    """Return the report of a pipeline; it starts no flow, and writes nothing.

    A part that can't be read is left out, and the report says why.

    Args:
        pipeline: the pipeline.
        cache: the user's cache folder, with the index of the event log.
        clock: the present time.
        stored: whether to read only the storage, without Spark.

    Raises:
        SluiceError: the storage can't be read.
    """
    updates = read_updates(pipeline.storage, pipeline.name, cache, most=_MOST_UPDATES)
    now, name = clock.now(), pipeline.name
    if stored:
        graph = _stored(pipeline)
        return Report(pipeline=name, made_at=now, graph=graph, updates=updates, faults=(_NOT_EXAMINED,))
    faults: list[str] = []
    resolved = _found(lambda: pipeline.graph, faults)
    if resolved is None:
        graph = _stored(pipeline)
        faults += [_OLD_GRAPH] if graph is not None else []
        return Report(pipeline=name, made_at=now, graph=graph, updates=updates, faults=tuple(faults))
    lag = _found(pipeline.lag, faults)
    examination = _found(pipeline.doctor.examine, faults)
    return Report(
        pipeline=name, made_at=now, graph=resolved, updates=updates, lag=lag, examination=examination,
        faults=tuple(dict.fromkeys(faults)),
    )  # fmt: skip


def _stored(pipeline: PipelinePort) -> DataflowGraph | None:
    found = GraphStore(pipeline.storage, pipeline.name).read()
    return None if found is None else found.graph


def _found(read: Callable[[], _Found], faults: list[str]) -> _Found | None:
    """Return what can be read, or None with the reason added to the faults."""
    try:
        return read()
    except SluiceError as error:
        faults.append(error.render())
        return None
