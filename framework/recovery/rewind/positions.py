"""The position of each flow at a version of its table, from the batches in the table's transactions.

Batches with rows need no clock. Times decide which generation of the checkpoint was current (the last one to write or
to become current), and which batches without rows had run, because those have no transaction in an AUTO CDC target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.manifest import BY_LOSS, Generation, GenerationState, Manifest
from framework.checkpoints.offsets import read_offsets, read_progress
from framework.foundation.clock import milliseconds
from framework.foundation.errors import UserError
from framework.foundation.files.storage_port import Storage
from framework.foundation.names import QualifiedName
from framework.graph.graph import GraphDataset, GraphFlow
from framework.run.flows.state.application import application_id
from framework.sources.delta.history import CommitHistory
from framework.sources.delta.source import NextVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPosition:
    """The position of a flow at a version of its table.

    Args:
        generation: the generation that was current; None if the flow had none.
        batch: its last batch in the table; None if it had none.
        commit: the version of the table that added that batch; None if the batch is in an earlier table.
        checkpoint: the path of its checkpoint; empty without a generation.
        offsets: the offsets of its sources after the batch; () if there is no batch, or if the offsets were deleted.
        is_done: whether a once flow over a batch had written its rows.
    """

    generation: Generation | None = None
    batch: int | None = None
    commit: int | None = None
    checkpoint: str = ""
    offsets: tuple[str, ...] = ()
    is_done: bool = False

    @property
    def places(self) -> tuple[NextVersion, ...]:
        """The next versions of Delta tables that the flow would have read."""
        found = (NextVersion.of(offset) for offset in self.offsets)
        return tuple(place for place in found if place is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """A version of a table, and the time up to which generations of its flows are considered."""

    version: int
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Positions:
    """Reads the positions of the flows of a pipeline.

    Args:
        pipeline: its name.
        storage: its storage.
    """

    pipeline: str
    storage: Storage
    _applications: dict[tuple[QualifiedName, int], str] = field(default_factory=dict)

    def manifest(self, dataset: QualifiedName, flow: QualifiedName) -> Manifest:
        """Return the manifest of a flow."""
        return GenerationStore(self.storage).manifest(dataset, flow)

    def at(self, flow: GraphFlow, dataset: GraphDataset, history: CommitHistory, moment: TableVersion) -> FlowPosition:
        """Return the position of a flow at a version of its table.

        Raises:
            UserError: REWIND_POSITION_UNKNOWN.
        """
        manifest = self.manifest(dataset.name, flow.spec.name)
        # Generations of a deleted table never had a row in this one.
        generations = [
            each
            for each in manifest.generations
            if each.state is not GenerationState.BUILDING and each.undone_by != BY_LOSS
        ]
        applications = {self.application(flow, dataset, each): each for each in generations}
        events = [(milliseconds(each.current_since or each.begun_at), each) for each in generations]
        events = [(time, each) for time, each in events if time <= moment.time_ms]
        taken = history.last_taken(applications, moment.version)
        if taken is not None:
            # By the clock that the manifest uses too: files may have been copied later, without their times.
            events.append((history.begun_ms(taken[0]), applications[taken[1]]))
        if not events:
            return FlowPosition()
        chosen = max(events, key=lambda event: (event[0], event[1].number))[1]
        return self._of(flow, dataset, chosen, history, moment)

    def _of(
        self,
        flow: GraphFlow,
        dataset: GraphDataset,
        generation: Generation,
        history: CommitHistory,
        moment: TableVersion,
    ) -> FlowPosition:
        path = GenerationStore(self.storage).path(dataset.name, flow.spec.name, generation.number)
        taken = history.last_taken([self.application(flow, dataset, generation)], moment.version)
        commit = None if taken is None else taken[0]
        application = self.application(flow, dataset, generation)
        if not is_stream(flow):
            # A full refresh is published without the transaction of its flows, and old commits leave the log.
            is_older = generation.completed and history.last_taken([application], history.versions[-1]) is None
            number, done = None if taken is None else taken[2], taken is not None or is_older
            return FlowPosition(generation=generation, batch=number, commit=commit, checkpoint=path, is_done=done)
        batch = generation.after_batch if taken is None else taken[2]
        later = batches_after(history, application, moment.version)
        batch = self._with_empty_batches(path, batch, later, moment.time_ms)
        if (
            batch is None
            and history.versions[0] > 0
            and read_progress(self.storage, path).last_commit_batch is not None
        ):
            raise UserError(
                "REWIND_POSITION_UNKNOWN",
                location=flow.spec.location,
                flow=flow.spec.name,
                dataset=dataset.name,
                first=history.versions[0],
            )
        offsets = () if batch is None else read_offsets(self.storage, path, batch)
        return FlowPosition(generation=generation, batch=batch, commit=commit, checkpoint=path, offsets=offsets)

    def _with_empty_batches(self, checkpoint: str, batch: int | None, later: set[int], time_ms: int) -> int | None:
        """Return the last batch that had ended by a time, if no batch after `batch` wrote to the table.

        The table is the same after each of these batches. If file times are wrong, batches without rows run again.
        """
        first_later = min(later, default=None)
        for file in sorted(self.storage.list_files(f"{checkpoint}/commits"), key=lambda file: file.modified_at):
            if not file.name.isdecimal() or file.modified_at * 1000 > time_ms:
                continue
            number = int(file.name)
            if (batch is None or number > batch) and (first_later is None or number < first_later):
                batch = number
        return batch

    def application(self, flow: GraphFlow, dataset: GraphDataset, generation: Generation) -> str:
        """Return the application id of a generation in its table's transactions; it may have no transaction."""
        key = (flow.spec.name, generation.number)
        if key not in self._applications:
            path = GenerationStore(self.storage).path(dataset.name, flow.spec.name, generation.number)
            own = application_id(self.pipeline, flow.spec.name, generation.number)
            is_spark_sink = dataset.cdc is None and is_stream(flow)
            self._applications[key] = str(read_progress(self.storage, path).query_id) if is_spark_sink else own
        return self._applications[key]

    def undeclared(self, dataset: QualifiedName, declared: Mapping[QualifiedName, object]) -> Iterator[Manifest]:
        """Yield the manifests of undeclared flows into a dataset."""
        for manifest in GenerationStore(self.storage).list_all():
            if manifest.dataset == dataset and manifest.flow not in declared:
                yield manifest

    def applications(self, manifest: Manifest) -> list[str]:
        """Return all application ids that a flow may have in its table's transactions."""
        found = []
        for each in manifest.generations:
            path = GenerationStore(self.storage).path(manifest.dataset, manifest.flow, each.number)
            found += [
                application_id(self.pipeline, manifest.flow, each.number),
                str(read_progress(self.storage, path).query_id),
            ]
        return found


def batches_after(history: CommitHistory, application: str, version: int) -> set[int]:
    """Return the batches of an application that a table got after a version."""
    later = (history.commit(number) for number in history.versions if number > version)
    return {commit.batches[application] for commit in later if application in commit.batches}


def is_stream(flow: GraphFlow) -> bool:
    """Whether a flow runs as a streaming query with a Spark checkpoint."""
    return flow.streaming and not flow.spec.from_snapshots
