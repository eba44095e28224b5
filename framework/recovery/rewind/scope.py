"""The datasets of a rewind: the requested ones, and those that their rows have reached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter

from framework.declare.specs import DatasetKind
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.graph.rules import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The datasets of a rewind.

    Args:
        tables: the datasets whose tables are rewound.
        computed: materialized views that the next update recomputes.
    """

    tables: tuple[QualifiedName, ...]
    computed: tuple[QualifiedName, ...] = ()


def chosen_tables(graph: DataflowGraph, names: Collection[QualifiedName]) -> tuple[QualifiedName, ...]:
    """Return the requested streaming tables, or all of them if no names are given.

    Raises:
        UserError: DATASET_NOT_FOUND with the nearest name; REWIND_NOT_A_STREAMING_TABLE.
    """
    if not names:
        return tuple(each.name for each in graph.datasets if each.kind is DatasetKind.STREAMING_TABLE)
    for name in names:
        dataset = graph.dataset(name)
        if dataset is None:
            known = [each.name for each in graph.datasets]
            raise UserError("DATASET_NOT_FOUND", dataset=name, hint=did_you_mean(name, known))
        if dataset.kind is not DatasetKind.STREAMING_TABLE:
            raise UserError(
                "REWIND_NOT_A_STREAMING_TABLE",
                location=dataset.spec.location,
                dataset=name,
                kind=str(dataset.kind.value).lower().replace("_", " "),
            )
    return tuple(dict.fromkeys(names))


def scope_of(
    graph: DataflowGraph,
    chosen: Iterable[QualifiedName],
    changed: Iterable[QualifiedName],
    paths: Mapping[str, QualifiedName],
) -> Scope:
    """Return the datasets of a rewind.

    Args:
        graph: the pipeline's graph.
        chosen: the requested tables.
        changed: the requested tables whose rows change; all their direct and indirect readers are rewound too.
        paths: the pipeline's tables by folder, because a query may read a table by its path.

    Raises:
        UserError: REWIND_REACHES_SINK.
    """
    reached = set(changed)
    inputs = {dataset.name: _inputs(graph, dataset.name, paths) for dataset in graph.datasets}
    for name in TopologicalSorter(inputs).static_order():
        if reached & inputs[name]:
            reached.add(name)
    for dataset in graph.datasets:
        if dataset.name in reached and dataset.is_sink:
            read = ", ".join(sorted(str(each) for each in inputs[dataset.name] & reached))
            raise UserError("REWIND_REACHES_SINK", location=dataset.spec.location, sink=dataset.name, tables=read)
    every = reached | set(chosen)
    views = {each.name for each in graph.datasets if each.kind is DatasetKind.MATERIALIZED_VIEW}
    # Views are recomputed, except those whose commits are read as a stream: they must not keep undone commits.
    streamed = {name for flow in graph.flows if flow.spec.target in every for name in _streamed(flow, paths)}
    tables = [
        dataset.name
        for dataset in graph.datasets
        if dataset.name in every and dataset.is_table and (dataset.name not in views or dataset.name in streamed)
    ]
    return Scope(tables=tuple(tables), computed=tuple(sorted(reached & views)))


def with_readers(
    graph: DataflowGraph, names: Collection[QualifiedName], paths: Mapping[str, QualifiedName]
) -> frozenset[QualifiedName]:
    """Return datasets together with all streaming tables that read them as streams, directly or indirectly.

    Args:
        graph: the pipeline's graph.
        names: the datasets; some may no longer be declared.
        paths: the pipeline's tables by folder.
    """
    found = set(names)
    streamed = {
        each.name: {name for flow in graph.flows_into(each.name) for name in _streamed(flow, paths)}
        for each in graph.datasets
        if each.kind in {DatasetKind.STREAMING_TABLE, DatasetKind.TEMPORARY_VIEW}
    }
    while reached := {name for name, inputs in streamed.items() if inputs & found} - found:
        found |= reached
    return frozenset(found)


def _inputs(graph: DataflowGraph, name: QualifiedName, paths: Mapping[str, QualifiedName]) -> set[QualifiedName]:
    """Return the datasets that the flows of a dataset read, by name or by path, without the dataset itself."""
    flows = graph.flows_into(name)
    found = {read.dataset or paths.get(read.path or "") for flow in flows for read in flow.reads}
    found |= {each for flow in flows for each in _streamed(flow, paths)}
    found |= {paths.get(path) for flow in flows for path in flow.batch_paths}
    return {each for each in found if each is not None and each != name and graph.dataset(each) is not None}


def _streamed(flow: GraphFlow, paths: Mapping[str, QualifiedName]) -> Iterator[QualifiedName]:
    """Yield the datasets that a flow reads as streams."""
    named = (read.dataset or paths.get(read.path or "") for read in flow.reads if read.streaming)
    by_path = (paths.get(source.location or "") for source in flow.sources)
    yield from (name for name in (*named, *by_path) if name is not None)
