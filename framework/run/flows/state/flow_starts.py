"""The starts of flows' sources, and the detection of starts that move from update to update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.graph.queries.settings import ZONE
from framework.graph.rules import did_you_mean
from framework.plan.starts import flow_sources, resolve_starts
from framework.run.flows.state.stream_sources import begin_of_read, current_starts
from framework.run.tables.table_store import TableStore
from framework.sources.delta.source import table_source
from framework.sources.port import SourceReference
from framework.sources.starts import (
    SourceStart,
    awaits_version,
    may_move,
    name_of_one,
    parse_start,
    parse_starts,
    pin_start,
    start_of,
    starts_text,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowStarts:
    """Reads manifests and Delta logs for the starts of a graph's flows."""

    graph: DataflowGraph
    store: TableStore

    def current(self, flow: GraphFlow) -> Mapping[str, SourceStart]:
        """Return the starts of a flow's current generation that override those in the code."""
        return current_starts(self.store.storage, flow)

    def can_start(self, flow: GraphFlow, awaited: Mapping[str, str]) -> bool:
        """Whether a source of a flow may have rows, because not all sources wait for an uncommitted start version."""
        return any(source.name not in awaited for source in flow_sources(self.graph, flow))

    def awaited(self, flow: GraphFlow, starts: Mapping[str, SourceStart]) -> Mapping[str, str]:
        """Return the folders, by table name, of the tables whose start version for a flow is not committed yet."""
        found = ((name, source, start_of(starts, name)) for name, source in self.named_sources(flow).items())
        storage = self.store.storage
        return {
            name: str(source.location)
            for name, source, start in found
            if start is not None and awaits_version(storage, source, start)
        }

    def of(self, flow: QualifiedName, starts: Sequence[str]) -> str:
        """Return the starts of a flow's sources in the form of a manifest.

        Args:
            flow: the flow's full name.
            starts: the starts as the user writes them.

        Raises:
            UserError: FLOW_NOT_FOUND; a start is invalid, or not available in its source.
        """
        found = self.graph.flow(flow)
        if found is None:
            known = [each.spec.name for each in self.graph.flows]
            raise UserError("FLOW_NOT_FOUND", flow=flow, hint=did_you_mean(flow, known))
        resolved = resolve_starts(self.graph, found, [parse_start(start) for start in starts])
        return self._pinned(flow, starts_text(resolved))

    def pinned(self, flow: QualifiedName, start: str | None) -> str | None:
        """Return the starts of a new generation, in which moving starts of the code are replaced by fixed ones.

        A stream that begins at a table's latest version and finds nothing has no position, and would begin at a later
        latest version in the next update.

        Args:
            flow: the flow's full name.
            start: the starts as the manifest stores them; None if only the code defines them.

        Raises:
            UserError: START_NOT_AVAILABLE if a table does not have the version.
        """
        found = self.graph.flow(flow)
        if start is not None or found is None or not found.streaming:
            return start if start is None else self._pinned(flow, start)
        sources, fixed = self.named_sources(found), {}
        for name, begin, key in _moving(found):
            if name in sources:
                fixed[key] = pin_start(self.store.storage, sources[name], parse_start(begin), self._zone(found))
        fixed = {key: start for key, start in fixed.items() if not may_move(start.text)}
        return starts_text(fixed) if fixed else None

    def named_sources(self, flow: GraphFlow) -> dict[str, SourceReference]:
        """Return the sources of a flow by name, except tables without a known path."""
        named = {}
        for source in flow_sources(self.graph, flow):
            if source.reference is not None:
                named[source.name] = source.reference
            else:
                read = next((read for read in flow.reads if str(read.dataset) == source.name), None)
                path = self.path_of(read.dataset, read.path) if read is not None else None
                if path is not None:
                    named[source.name] = table_source(path)
        return named

    def path_of(self, name: QualifiedName | None, path: str | None) -> str | None:
        """Return the folder of a table read by name, or else by path; None if it has none."""
        dataset = self.graph.dataset(name) if name is not None else None
        if dataset is None:
            return path
        return self.store.path(dataset.spec) if dataset.is_table else None

    def _pinned(self, flow: QualifiedName, starts: str) -> str:
        """Return the starts of a flow in the form of a manifest, with fixed points instead of moving ones."""
        found, present = parse_starts(starts), self.graph.flow(flow)
        if present is not None:
            for name, source in self.named_sources(present).items():
                if name in found:
                    found[name] = pin_start(self.store.storage, source, found[name], self._zone(present))
        return starts_text(found)

    def _zone(self, flow: GraphFlow) -> str:
        """Return the time zone that Delta assumes for a timestamp without one."""
        return self.graph.settings(flow).get(ZONE) or str(self.store.spark.conf.get(ZONE))


def _moving(flow: GraphFlow) -> Iterator[tuple[str, str, str]]:
    """Yield each read of only a table's new rows: the table, the start in the code, and the name of the start."""
    begins = {(str(read.dataset or read.text), begin_of_read(read)) for read in flow.reads if read.streaming}
    names = [name for name, _ in begins]
    for name, begin in sorted(begins):
        if may_move(begin):
            yield name, begin, name if names.count(name) == 1 else name_of_one(name, begin)
