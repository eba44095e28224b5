"""A dataflow graph as a table and as JSON, and the sources and labels of its flows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName, ShortNames
from framework.foundation.wording import counted
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.sources.port import SourceShape
from framework.views.table import Cell, Column, Table, Tone

_COLUMNS = (
    Column(name="dataset", wraps=False),
    Column(name="kind", wraps=False),
    Column(name="flows"),
    Column(name="reads"),
    Column(name="columns", right=True),
    Column(name="expectations"),
    Column(name="declared at"),
    Column(name="comment"),
)
MAIN_COLUMNS = ("dataset", "kind", "flows", "reads", "columns")
"""The columns of a table of datasets that fits on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The label of a flow: its name if it differs from the target's, and its properties, such as `once`."""

    name: str = ""
    marks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Name and properties on one line; empty if there are none."""
        return " · ".join(part for part in (self.name, *self.marks) if part)


NO_LABEL = Label()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of a flow; `dataset` is set for a dataset of the pipeline, `note` for a source other than a table."""

    key: str
    streaming: bool
    full_name: str
    dataset: QualifiedName | None = None
    note: str = ""

    def title(self, short: ShortNames) -> str:
        """Return a dataset's short name, a table's name as written in the module, or the last parts of a path."""
        if self.dataset is not None:
            return short(self.dataset)
        if self.note == "files":
            return "/".join(PurePosixPath(self.full_name).parts[-2:])
        return self.full_name.replace("`", "")


def graph_summary(graph: DataflowGraph) -> str:
    """Return the numbers of datasets, flows and external tables, and the common prefix of the names."""
    prefix = ShortNames.of(dataset.name for dataset in graph.datasets).prefix
    words = [counted(len(graph.datasets), "dataset"), counted(len(graph.flows), "flow")]
    if graph.external:
        words.append(counted(len(graph.external), "external table"))
    return " · ".join([*words, *([f"names in {prefix}"] if prefix else [])])


def unresolved_text(graph: DataflowGraph) -> str:
    """Return the datasets that an update can't run now, and the number of those that it runs."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    failed = [short(each.name) for each in graph.datasets if each.fault is not None]
    waiting = [short(each.name) for each in graph.datasets if each.waits_for]
    sound = len(graph.datasets) - len(failed) - len(waiting)
    waits = f" {', '.join(waiting)} can't be analysed without them." if waiting else ""
    return (
        f"{counted(len(failed), 'dataset')} can't be resolved now: {', '.join(failed)}.{waits} "
        f"An update runs the other {sound:,}, and skips those of them that read these."
    )


def datasets_table(graph: DataflowGraph) -> Table:
    """Return one row for each dataset, in topological order."""
    short = ShortNames.of(dataset.name for dataset in graph.datasets)
    datasets = [graph.dataset(name) for name in graph.order()]
    return Table.of(_COLUMNS, [_row(graph, dataset, short) for dataset in datasets if dataset is not None])


def graph_json(graph: DataflowGraph) -> dict[str, Any]:
    """Return the graph as JSON values, with full names."""
    return {
        "pipeline": graph.pipeline,
        "datasets": [_dataset_json(dataset) for dataset in graph.datasets],
        "flows": [_flow_json(flow) for flow in graph.flows],
        "external": list(graph.external),
    }


def flow_label(flow: GraphFlow, short: ShortNames) -> Label:
    """Return the label of a flow; the flow of a dataset's own query has a label without a name."""
    marks = []
    if flow.spec.cdc is not None:
        marks.append("AUTO CDC" if flow.spec.cdc.scd_type == 1 else f"AUTO CDC, SCD {flow.spec.cdc.scd_type}")
        if flow.spec.cdc.soft_deletes is not None:
            marks.append("soft deletes")
    if flow.spec.once:
        marks.append("once")
    name = "" if flow.spec.name == flow.spec.target else short(flow.spec.name)
    return Label(name=name, marks=tuple(marks))


def column_count(dataset: GraphDataset) -> int | None:
    """Return the number of columns of a dataset; None if it has no schema, as for sinks."""
    if dataset.schema is None:
        return None
    return len(json.loads(dataset.schema).get("fields", ()))


def sources_of(graph: DataflowGraph, flow: GraphFlow) -> tuple[Source, ...]:
    """Return the distinct sources of a flow, without the sources of the views that it reads."""
    found = _merged(_all_sources(flow))
    views = [source.dataset for source in found if source.dataset is not None and _is_view(graph, source.dataset)]
    below = (source for view in views for inner in graph.flows_into(view) for source in _all_sources(inner))
    hidden = {source.key for source in below}
    streams = (source for view in views for inner in graph.flows_into(view) for source in inner.sources)
    if any(source.shape is SourceShape.STREAM for source in streams):
        hidden.add(_stream(flow).key)
    return tuple(source for source in found if source.key not in hidden)


def _all_sources(flow: GraphFlow) -> Iterator[Source]:
    """Yield all sources of the flow in the graph, including those read through views."""
    for read in flow.reads:
        if read.dataset is not None:
            name = str(read.dataset)
            yield Source(key=f"dataset {name}", streaming=read.streaming, full_name=name, dataset=read.dataset)
        else:
            yield Source(key=f"external {read.text}", streaming=read.streaming, full_name=read.text)
    for source in flow.sources:
        if source.shape is SourceShape.FOLDER:
            folder = str(source.location)
            yield Source(key=f"folder {folder}", streaming=True, full_name=folder, note="files")
    if any(source.shape is SourceShape.STREAM for source in flow.sources):
        yield _stream(flow)


def _stream(flow: GraphFlow) -> Source:
    return Source(key=f"source of {flow.spec.name}", streaming=True, full_name="stream", note="not a table")


def _merged(sources: Iterator[Source]) -> tuple[Source, ...]:
    """Return each source once; a source that is read as a batch and as a stream counts as a stream."""
    merged: dict[str, Source] = {}
    for source in sources:
        if source.key not in merged or source.streaming:
            merged[source.key] = source
    return tuple(merged.values())


def _is_view(graph: DataflowGraph, name: QualifiedName) -> bool:
    dataset = graph.dataset(name)
    return dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW


def _row(graph: DataflowGraph, dataset: GraphDataset, short: ShortNames) -> tuple[Cell | str, ...]:
    flows = graph.flows_into(dataset.name)
    labels = [label for flow in flows if (label := flow_label(flow, short).text)]
    reads = [source.title(short) for flow in flows for source in sources_of(graph, flow)]
    expectations = [f"{entry.name} ({entry.action.value})" for entry in dataset.spec.expectations]
    count = column_count(dataset)
    return (
        short(dataset.name),
        dataset.kind.value.replace("_", " "),
        ", ".join(labels),
        ", ".join(dict.fromkeys(reads)),
        "" if count is None else str(count),
        ", ".join(expectations),
        Cell(text=str(dataset.spec.location or ""), tone=Tone.QUIET),
        "; ".join([*filter(None, [dataset.spec.comment]), *dataset.spec.keys]),
    )


def _dataset_json(dataset: GraphDataset) -> dict[str, Any]:
    return {
        "name": str(dataset.name),
        "kind": dataset.kind.value,
        "private": dataset.spec.private,
        "comment": dataset.spec.comment,
        "keys": list(dataset.spec.keys),
        "schema": None if dataset.schema is None else json.loads(dataset.schema),
        "expectations": [
            {"name": each.name, "condition": each.condition, "action": each.action.value}
            for each in dataset.spec.expectations
        ],
        "declared_at": _text(dataset.spec.location),
        **({"error": dataset.fault.render()} if dataset.fault is not None else {}),
        **({"waits_for": [str(name) for name in dataset.waits_for]} if dataset.waits_for else {}),
    }


def _flow_json(flow: GraphFlow) -> dict[str, Any]:
    return {
        "name": str(flow.spec.name),
        "target": str(flow.spec.target),
        "once": flow.spec.once,
        "streaming": flow.streaming,
        "auto_cdc": flow.spec.cdc is not None,
        "reads": [{"name": _text(read.dataset) or read.text, "streaming": read.streaming} for read in flow.reads],
        "declared_at": _text(flow.spec.location),
    }


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
