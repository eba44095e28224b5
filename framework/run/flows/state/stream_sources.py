"""The streaming sources of a flow, as its current generation reads them; from the graph and its manifest alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from framework.checkpoints.generations import GenerationStore
from framework.declare.specs import DatasetKind
from framework.foundation.files.storage_port import Storage
from framework.graph.graph import DataflowGraph, GraphFlow, Read
from framework.plan.starts import as_started
from framework.sources.delta.source import begin_of, table_source
from framework.sources.port import SourceReference
from framework.sources.starts import SourceStart, parse_starts, start_of


def current_starts(storage: Storage, flow: GraphFlow) -> Mapping[str, SourceStart]:
    """Return the starts of a flow's current generation that override those in the code."""
    current = GenerationStore(storage).current(flow.spec.target, flow.spec.name)
    return parse_starts(None if current is None else current.start)


def stream_sources(
    graph: DataflowGraph, flow: GraphFlow, starts: Mapping[str, SourceStart], path_of: Callable[[Read], str | None]
) -> tuple[SourceReference, ...] | None:
    """Return all streaming sources of a flow, tables of the pipeline included; None if a path is unknown.

    Args:
        graph: the pipeline's graph.
        flow: the flow.
        starts: those of its current generation.
        path_of: returns the folder of a table that is read.
    """
    tables = []
    for read in flow.reads:
        dataset = graph.dataset(read.dataset) if read.dataset else None
        if not read.streaming or (dataset is not None and dataset.kind is DatasetKind.TEMPORARY_VIEW):
            continue
        path = path_of(read)
        if path is None:
            return None
        # An option such as `startingVersion=latest` counts from the first run; a read by path has unknown options.
        from_start = read.dataset is not None and not read.options
        begins = begin_of_read(read)
        start = start_of(starts, str(read.dataset or read.text), begins)
        pinned = "" if start is None else start.text
        tables.append(table_source(path, read.only, from_start=from_start, begins=begins, pinned=pinned))
    return (*tables, *_started_sources(flow, starts))


def begin_of_read(read: Read) -> str:
    """Return the start that the code sets for a table read, as `option=value`; empty for the whole table."""
    return read.begins or begin_of(dict(read.options))


def _started_sources(flow: GraphFlow, starts: Mapping[str, SourceStart]) -> Iterator[SourceReference]:
    """Yield the sources of a flow as its current generation reads them, which may override their starts."""
    for source in flow.sources:
        start = start_of(starts, source.location or source.kind)
        yield source if start is None else as_started(source, start)
