"""The sources of a flow in pictures and tables: datasets, external tables, folders, streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from framework.declare.specs import DatasetKind
from framework.foundation.names import QualifiedName, ShortNames
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.sources.port import SourceShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of a flow; `dataset` is set for a dataset of the pipeline, `note` for a source that is no table."""

    key: str
    streaming: bool
    full_name: str
    dataset: QualifiedName | None = None
    note: str = ""

    def title(self, short: ShortNames) -> str:
        """The title: a dataset's short name, a table's name as written in the module, the last parts of a path."""
        if self.dataset is not None:
            return short(self.dataset)
        if self.note == "files":
            return "/".join(PurePosixPath(self.full_name).parts[-2:])
        return self.full_name.replace("`", "")


def sources_of(graph: DataflowGraph, flow: GraphFlow) -> tuple[Source, ...]:
    """The sources of a flow, each once, without the sources of the views that it reads."""
    found = _merged(_all_sources(flow))
    views = [source.dataset for source in found if source.dataset is not None and _is_view(graph, source.dataset)]
    below = (source for view in views for inner in graph.flows_into(view) for source in _all_sources(inner))
    hidden = {source.key for source in below}
    streams = (source for view in views for inner in graph.flows_into(view) for source in inner.sources)
    if any(source.shape is SourceShape.STREAM for source in streams):
        hidden.add(_stream(flow).key)
    return tuple(source for source in found if source.key not in hidden)


def _all_sources(flow: GraphFlow) -> Iterator[Source]:
    """All sources of the flow in the graph, including those read through views."""
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
    """Each source once; a source that is read as a batch and as a stream counts as a stream."""
    merged: dict[str, Source] = {}
    for source in sources:
        if source.key not in merged or source.streaming:
            merged[source.key] = source
    return tuple(merged.values())


def _is_view(graph: DataflowGraph, name: QualifiedName) -> bool:
    dataset = graph.dataset(name)
    return dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW
