"""The reasons of steps, as clauses."""

from __future__ import annotations

from framework.declare.specs import DatasetKind, FlowSpec
from framework.foundation.names import QualifiedName
from framework.foundation.wording import bytes_text, counted
from framework.graph.graph import GraphDataset, GraphFlow
from framework.plan.state import FlowState, TableKind, TableState


def declared_kind(dataset: GraphDataset) -> TableKind:
    """Return how the declared flows write the table of a dataset: replace, append or merge."""
    if dataset.kind is DatasetKind.MATERIALIZED_VIEW:
        return TableKind.MATERIALIZED_VIEW
    return TableKind.STREAMING_TABLE if dataset.cdc is None else TableKind.AUTO_CDC_TARGET


def compared(dataset: GraphDataset, table: TableState) -> str:
    """Return the cost of a table's unique expectations in each batch, as a clause; empty if it has none."""
    unique = [f"UNIQUE ({', '.join(each.unique)})" for each in dataset.spec.expectations if each.unique is not None]
    if not unique or not table.exists:
        return ""
    size = (
        f" in {counted(table.files, 'file')} ({bytes_text(table.size_bytes)})"
        if table.files and table.size_bytes
        else ""
    )
    return f"; each batch is compared with the rows of the table{size}: {', '.join(unique)}"


def beside_former(dataset: GraphDataset, state: FlowState) -> str:
    """Return a warning of rows that the target gets twice, or that a moved sink lacks; empty if there are none."""
    others = []
    if state.former:
        writes = "writes" if len(state.former) == 1 else "write"
        others.append(f"{listed(state.former)}, which no longer {writes} to it")
    if state.unknown_rows:
        others.append("a flow whose checkpoint is not here")
    moved = f"; {dataset.name.table} has another place now, which gets no earlier rows" if state.moved_sink else ""
    texts = (f"; {dataset.name.table} has rows of {each}: what both read is there twice" for each in others)
    return "".join(texts) + moved


def changed_kind(dataset: GraphDataset, flow: GraphFlow) -> str:
    """Return the reason for a new generation of a flow that changed from a batch to a stream, or back."""
    was, now = ("ran once over a batch", "is a stream") if flow.streaming else ("was a stream", "reads a batch")
    twice = "" if dataset.cdc is not None else f"; the rows that it wrote are in {dataset.name.table} twice"
    return f"it {was} and {now} now{twice}"


def anew(reason: str, state: FlowState) -> str:
    """Return the reason for a new generation, with the deleted source data that it can't read again."""
    return f"{reason}; {state.removed}: their rows can't be read again" if state.removed else reason


def reason_to_read(flow: FlowSpec) -> str:
    """Return the reason to run a flow whose sources may have unread data."""
    if not flow.from_snapshots:
        return "its sources may have new rows"
    if flow.source is None:
        return "its function may return a newer snapshot"
    return "its source may have changed since the last snapshot"


def joined(texts: list[str]) -> str:
    """Return texts joined with `and`."""
    return " and ".join(texts)


def listed(names: tuple[QualifiedName, ...]) -> str:
    """Return the table names, separated by commas."""
    return ", ".join(name.table for name in names)
