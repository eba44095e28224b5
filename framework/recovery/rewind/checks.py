"""Checks that a rewind has everything it needs: files of versions, checkpoints, and rows in the sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.rebuilds import RebuildStore
from framework.checkpoints.rewinds import RewoundFlow
from framework.checkpoints.truncation import missing_for
from framework.declare.specs import DatasetKind
from framework.foundation.errors import SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphFlow
from framework.recovery.rewind.plan import TableRewind
from framework.recovery.rewind.point_in_time import time_text
from framework.recovery.rewind.positions import FlowPosition, Positions, is_stream
from framework.recovery.rewind.tables import StoredTable
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.table_store import TableStore
from framework.sources.databases.source import SnapshotSource
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.log import read_tip
from framework.sources.delta.source import NextVersion
from framework.sources.kinds import KINDS
from framework.sources.port import RewindableSource, RewindPosition, SourceReference, StreamingSource
from framework.sources.starts import is_at_end, parse_starts

Found = tuple[GraphFlow, FlowPosition, RewoundFlow]
Restored = Mapping[str | None, QualifiedName]

_STARTS = frozenset({"startingversion", "startingtimestamp"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checks:
    """Checks the decisions of a rewind, and describes where flows continue."""

    graph: DataflowGraph
    store: TableStore
    positions: Positions

    def of_rebuilds(self, names: Iterable[QualifiedName]) -> list[SluiceError]:
        """Return the errors of unfinished full refreshes, including those of missing tables."""
        datasets = [dataset for name in names if (dataset := self.graph.dataset(name)) is not None]
        rebuilds = [(each, RebuildStore(self.store.storage).read(each.name)) for each in datasets]
        return [
            UserError("REWIND_DURING_FULL_REFRESH", location=each.spec.location, dataset=each.name)
            for each, rebuild in rebuilds
            if rebuild is not None and not rebuild.finished
        ]

    def of_tables(self, tables: Iterable[StoredTable]) -> list[SluiceError]:
        """Return the errors of tables that can't be restored to any version."""
        faults: list[SluiceError] = []
        for table in tables:
            name, location = table.dataset.name, table.dataset.spec.location
            tip = read_tip(self.store.storage, table.path)
            if tip is not None and tip.is_append_only:
                faults.append(UserError("REWIND_OF_APPEND_ONLY_TABLE", location=location, dataset=name))
        return faults

    def of_versions(self, tables: Iterable[TableRewind]) -> list[SluiceError]:
        """Return the errors of versions that can't be restored, and of undeclared flows that wrote later."""
        faults: list[SluiceError] = []
        for each in tables:
            name, time = each.table.dataset, time_text(each.time_ms)
            dataset = self.graph.dataset(name)
            assert dataset is not None  # it is in the scope
            place, version = dataset.spec.location, each.table.version
            if each.rows is None:
                faults.append(
                    UserError("REWIND_VERSION_GONE", location=place, dataset=name, version=version, time=time)
                )
            elif each.rows.missing:
                count, file = len(each.rows.missing), each.rows.missing[0]
                faults.append(
                    UserError(
                        "REWIND_FILES_GONE",
                        location=place,
                        dataset=name,
                        version=version,
                        time=time,
                        count=count,
                        file=file,
                    )
                )
            if each.is_restored and dataset.kind is DatasetKind.STREAMING_TABLE and self._has_rows_of_view(each):
                faults.append(UserError("REWIND_OF_FORMER_VIEW", location=place, dataset=name, time=time))
            faults += [
                UserError("REWIND_FLOW_NOT_DECLARED", location=place, dataset=name, time=time, flow=flow)
                for flow in self._undeclared(each)
            ]
        return faults

    def _has_rows_of_view(self, table: TableRewind) -> bool:
        """Whether a version has rows written by a materialized view, in which no flow has a position."""
        history, last = CommitHistory(self.store.storage, table.table.path), table.table.version or 0
        commits = (history.commit(version) for version in reversed(history.versions) if version <= last)
        return next(("computed_from" in each.mark for each in commits if each.changes_data), False)

    def _undeclared(self, table: TableRewind) -> Iterator[QualifiedName]:
        """Yield the undeclared flows that wrote after the version."""
        name = table.table.dataset
        declared = {flow.spec.name: flow for flow in self.graph.flows_into(name)}
        history = CommitHistory(self.store.storage, table.table.path)
        for manifest in self.positions.undeclared(name, declared):
            taken = history.last_taken(self.positions.applications(manifest), history.versions[-1])
            if taken is not None and taken[0] > (table.table.version or 0):
                yield manifest.flow

    def of_flows(self, flows: Sequence[Found], restored: Restored) -> list[SluiceError]:
        """Return the errors of flows that can't continue from their positions."""
        faults: list[SluiceError] = []
        for flow, position, rewound in flows:
            location = flow.spec.location
            if not is_stream(flow):
                continue
            if rewound.batch in {None, 0}:  # a stream that repeats its first batch starts at its declared start, too
                faults += self._of_start(flow, rewound, restored)
            if rewound.batch is None:
                faults += self._of_anew(flow, rewound)
                continue
            missing = missing_for(self.store.storage, position.checkpoint, rewound.batch)
            if missing is not None:
                faults.append(
                    UserError(
                        "REWIND_CHECKPOINT_GONE",
                        location=location,
                        flow=flow.spec.name,
                        missing=missing,
                        earliest=self._earliest(flow, position, rewound.batch),
                    )
                )
                continue
            faults += self._of_sources(flow, position, rewound, restored)
        return faults

    def _earliest(self, flow: GraphFlow, position: FlowPosition, batch: int) -> str:
        """Return the earliest time from which a flow's checkpoint could continue, as a sentence."""
        dataset = self.graph.dataset(flow.spec.target)
        assert dataset is not None  # it is in the scope
        assert position.generation is not None  # it has a batch
        application = self.positions.application(flow, dataset, position.generation)
        history = CommitHistory(self.store.storage, self.store.path(dataset.spec))
        for version in history.versions:
            number = history.commit(version).batches.get(application, -1)
            if number > batch and missing_for(self.store.storage, position.checkpoint, number) is None:
                return f"Its earliest time is {time_text(history.time_ms(version))}."
        return "It has no time to go back to."

    def _of_start(self, flow: GraphFlow, rewound: RewoundFlow, restored: Restored) -> Iterator[SluiceError]:
        """Yield the error of a flow that restarts at a version of a restored table: that version may be undone."""
        names = set(restored.values())
        for read in flow.reads:
            is_version = bool({key.lower() for key, _ in read.options} & _STARTS) or rewound.start is not None
            if read.streaming and read.dataset in names and is_version:
                yield UserError(
                    "REWIND_START_IN_RESTORED_TABLE",
                    location=flow.spec.location,
                    flow=flow.spec.name,
                    source=read.dataset,
                )

    def _of_anew(self, flow: GraphFlow, rewound: RewoundFlow) -> Iterator[SluiceError]:
        """Yield the errors of a flow that restarts: deleted files, and a start that is later now than it was."""
        lost = list(self._gone_files(rewound))
        sources = StateReader(graph=self.graph, store=self.store).stream_sources(flow) or flow.sources
        if rewound.start is None:
            begins = [(source.location or source.kind, source.begins) for source in sources]
        else:
            begins = [(name, start.text) for name, start in parse_starts(rewound.start).items()]
        lost += [f"`{begin}` begins later in {name} than it did" for name, begin in begins if is_at_end(begin)]
        for each in lost:
            yield UserError("REWIND_SOURCE_GONE", location=flow.spec.location, flow=flow.spec.name, lost=each)

    def _gone_files(self, rewound: RewoundFlow) -> Iterator[str]:
        """Yield descriptions of deleted files that the undone generations of a flow had read."""
        storage = self.store.storage
        for number in sorted({rewound.before, *(number for number, _ in rewound.undone)}):
            checkpoint = GenerationStore(storage).path(rewound.dataset, rewound.flow, number)
            offsets = read_progress(storage, checkpoint).sources
            for kind in dict.fromkeys(next(kind for kind in KINDS if kind.owns(offset)) for offset in offsets):
                position = RewindPosition(storage=storage, checkpoint=checkpoint, offsets=offsets, from_start=True)
                lost = kind.lost_since(position) if isinstance(kind, RewindableSource) else ""
                if lost:
                    yield lost

    def _of_sources(
        self, flow: GraphFlow, position: FlowPosition, rewound: RewoundFlow, restored: Restored
    ) -> Iterator[SluiceError]:
        yield from self._of_restores(flow, position, restored)
        for kind, sources in self._kinds(flow, position, restored):
            if kind.kind == SnapshotSource.kind:
                assert rewound.until_ms is not None  # set by a decision
                yield UserError(
                    "REWIND_PAST_SNAPSHOT",
                    location=flow.spec.location,
                    flow=flow.spec.name,
                    dataset=rewound.dataset,
                    time=time_text(rewound.until_ms),
                )
                continue
            if not isinstance(kind, RewindableSource):
                yield UserError(
                    "REWIND_SOURCE_NOT_REREADABLE", location=flow.spec.location, flow=flow.spec.name, kind=kind.kind
                )
                continue
            lost = kind.lost_since(self._position(position, sources))
            if lost:
                yield UserError("REWIND_SOURCE_GONE", location=flow.spec.location, flow=flow.spec.name, lost=lost)

    def _of_restores(self, flow: GraphFlow, position: FlowPosition, restored: Restored) -> Iterator[SluiceError]:
        """Yield the errors of tables restored later by an earlier rewind: the flow would read the undone commits."""
        for dataset in self.graph.datasets:
            path = self.store.path(dataset.spec) if dataset.is_table else ""
            tip = read_tip(self.store.storage, path) if dataset.is_table else None
            if tip is None or tip.table_id in restored:
                continue
            first = [place.version for place in position.places if place.table_id == tip.table_id]
            history = CommitHistory(self.store.storage, path)
            for version in history.versions:
                if any(version >= (each or 0) for each in first) and "rewind" in history.commit(version).mark:
                    yield UserError(
                        "REWIND_PAST_RESTORE",
                        location=flow.spec.location,
                        flow=flow.spec.name,
                        source=dataset.name,
                        version=version,
                    )
                    break

    def reads(self, flow: GraphFlow, position: FlowPosition, restored: Restored) -> tuple[str, ...]:
        """Return where a flow continues in each of its sources, in words."""
        if flow.spec.from_snapshots:
            return ("the next snapshot is compared with the table",)
        if position.is_done:
            return ("nothing: it has run",)
        if position.batch is None or not is_stream(flow):
            return ("from the start",)
        found = [
            f"{restored[place.table_id]} after its restore" for place in position.places if place.table_id in restored
        ]
        for kind, sources in self._kinds(flow, position, restored):
            if isinstance(kind, RewindableSource):
                found += kind.describe(self._position(position, sources, restored))
        return tuple(found)

    def _kinds(
        self, flow: GraphFlow, position: FlowPosition, restored: Restored
    ) -> Iterator[tuple[StreamingSource, tuple[SourceReference, ...]]]:
        """Yield the source kinds of a flow's offsets, each with its sources that are not restored."""
        states = StateReader(graph=self.graph, store=self.store)
        sources = states.stream_sources(flow) or flow.sources
        paths = {self.store.path(found.spec) for name in restored.values() if (found := self.graph.dataset(name))}
        kept = [source for source in sources if source.location not in paths]
        owners = [next(kind for kind in KINDS if kind.owns(offset)) for offset in _unmoved(position.offsets, restored)]
        for kind in dict.fromkeys(owners):
            yield kind, tuple(source for source in kept if source.kind == kind.kind)

    def _position(
        self, position: FlowPosition, sources: tuple[SourceReference, ...], restored: Restored | None = None
    ) -> RewindPosition:
        """Return a position; `restored` excludes the offsets in restored tables."""
        offsets = tuple("-" if restored and _is_moved(text, restored) else text for text in position.offsets)
        return RewindPosition(
            storage=self.store.storage, checkpoint=position.checkpoint, offsets=offsets, sources=sources
        )


def _is_moved(offset: str, restored: Restored) -> bool:
    place = NextVersion.of(offset)
    return place is not None and place.table_id in restored


def _unmoved(offsets: Sequence[str], restored: Restored) -> list[str]:
    return [offset for offset in offsets if offset != "-" and not _is_moved(offset, restored)]
