"""The end of an update: its graph page, its summary, and the kept history of the tables that it refreshed."""

from __future__ import annotations

from dataclasses import dataclass

from framework.checkpoints.backups import Backup
from framework.diagrams.page import graph_page
from framework.operations.pipeline_port import PipelinePort
from framework.recovery.backups import list_backups
from framework.run.update.results import FlowState, UpdateResult
from framework.views.summary import OutputPaths, UpdateSummary

GRAPH_FILE = "graph.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedUpdate:
    """An update that has ended.

    Args:
        summary: its result, and the paths of its output.
        histories: the newest backup of each refreshed table with kept history.
    """

    summary: UpdateSummary
    histories: tuple[Backup, ...] = ()


def finish_update(pipeline: PipelinePort, result: UpdateResult, *, keeps_history: bool = False) -> FinishedUpdate:
    """Write the page of the update's graph, and return the finished update.

    Args:
        pipeline: the pipeline.
        result: the result of an update whose end is in the event log.
        keeps_history: whether its full refreshes were run with `keep_history`.
    """
    storage = pipeline.storage
    paths = OutputPaths(graph=write_graph_page(pipeline), tables=storage.path("tables"), events=storage.path("events"))
    return FinishedUpdate(
        summary=UpdateSummary(pipeline=pipeline.name, result=result, paths=paths),
        histories=kept_histories(pipeline, result) if keeps_history else (),
    )


def kept_histories(pipeline: PipelinePort, result: UpdateResult) -> tuple[Backup, ...]:
    """Return the newest backup of each table that an update refreshed."""
    refreshed = {flow.dataset for flow in result.flows if flow.state is not FlowState.EXCLUDED}
    newest = {each.backup.dataset: each.backup for each in list_backups(pipeline.storage)}
    return tuple(backup for name, backup in newest.items() if name in refreshed)


def write_graph_page(pipeline: PipelinePort) -> str:
    """Write the page of the dataflow graph to the storage if it has changed, and return its path."""
    storage = pipeline.storage
    path, page = storage.path(GRAPH_FILE), graph_page(pipeline.graph)
    if storage.read_text(path) != page:
        storage.write_text(path, page)
    return path
