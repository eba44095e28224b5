"""The starts of reset flows: each start is matched with a source of the flow, and checked against the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.declare.specs import DatasetKind
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import plain_name
from framework.graph.graph import DataflowGraph, GraphFlow, Read
from framework.sources.cloud_files.files.positions import check_options
from framework.sources.delta.source import KIND, table_source
from framework.sources.port import SourceReference, is_same_location
from framework.sources.starts import SourceStart, reader_start, started


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSource:
    """A streaming source of a flow.

    Args:
        name: the full name of a dataset, or the text of another read.
        kind: the kind of the source.
        reference: the reference of an external source; None for a dataset of the pipeline.
    """

    name: str
    kind: str
    reference: SourceReference | None = None

    def is_named(self, text: str) -> bool:
        """Whether a user's text is the name or its last parts, such as `schema.table`."""
        wanted = plain_name(text)
        return self.name.lower() == wanted or self.name.lower().endswith((f".{wanted}", f"/{wanted}"))


def flow_sources(graph: DataflowGraph, flow: GraphFlow) -> tuple[FlowSource, ...]:
    """Return the streaming sources of a flow, tables first; sources behind views replace the views."""
    tables = [_table(read) for read in flow.reads if read.streaming and not _is_view(graph, read)]
    others = [
        FlowSource(name=source.location or source.kind, kind=source.kind, reference=source) for source in flow.sources
    ]
    return tuple(dict.fromkeys((*tables, *others)))


def resolve_starts(graph: DataflowGraph, flow: GraphFlow, starts: Sequence[SourceStart]) -> Mapping[str, SourceStart]:
    """Return the start of each source of a flow by the source's name; {} if none was given.

    Raises:
        UserError: START_OF_FLOW_NOT_STREAMING, START_SOURCE_UNKNOWN, START_REPEATED, START_SOURCE_MISSING,
            START_NOT_SUPPORTED, START_INVALID, CLOUD_FILES_OPTION_CONFLICT.
    """
    if not starts:
        return {}
    name, location = flow.spec.name, flow.spec.location
    sources = flow_sources(graph, flow) if flow.streaming else ()
    if not sources:
        raise UserError("START_OF_FLOW_NOT_STREAMING", location=location, flow=name)
    found: dict[str, SourceStart] = {}
    for start in starts:
        source = _of(flow, sources, start)
        if source.name in found:
            raise UserError("START_REPEATED", location=location, flow=name, source=source.name)
        reader_start(source.kind, start, source=source.name)
        if source.reference is not None:
            _check(source.reference, start, location)
        found[source.name] = start
    missing = [source.name for source in sources if source.name not in found]
    if missing:
        raise UserError("START_SOURCE_MISSING", location=location, flow=name, sources=", ".join(missing))
    return found


def as_started(source: SourceReference, start: SourceStart) -> SourceReference:
    """Return a source that reads from its start on; unchanged if its options contradict the start (the flow fails)."""
    try:
        found = started(source, start)
        check_options(found)
    except UserError:
        return source
    return found


def _check(source: SourceReference, start: SourceStart, location: SourceLocation | None) -> None:
    try:
        check_options(started(source, start))
    except UserError as error:
        raise error.at(location) from error


def _of(flow: GraphFlow, sources: Sequence[FlowSource], start: SourceStart) -> FlowSource:
    """Return the source of a flow that a start names."""
    fields = {"flow": flow.spec.name, "sources": ", ".join(source.name for source in sources)}
    if start.source is None:
        if len(sources) > 1:
            raise UserError("START_SOURCE_MISSING", location=flow.spec.location, **fields)
        return sources[0]
    same = [source for source in sources if is_same_location(source.name, start.source)]
    named = [source for source in sources if source.is_named(start.source)]
    exact = [source for source in named if source.name.lower() == start.source.lower()]
    found = same or exact or named
    if len(found) != 1:
        raise UserError("START_SOURCE_UNKNOWN", location=flow.spec.location, source=start.source, **fields)
    return found[0]


def _table(read: Read) -> FlowSource:
    name = str(read.dataset) if read.dataset is not None else read.text
    reference = table_source(read.path) if read.path else None
    return FlowSource(name=name, kind=KIND, reference=reference)


def _is_view(graph: DataflowGraph, read: Read) -> bool:
    dataset = graph.dataset(read.dataset) if read.dataset is not None else None
    return dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW
