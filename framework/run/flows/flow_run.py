"""The inputs of one flow run, the same for every kind of flow."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.model.target_plan import TargetPlan
from framework.cdc.writer import AutoCdcWriter
from framework.checkpoints.generations import GenerationStore
from framework.checkpoints.offsets import read_progress
from framework.declare.quarantine import QUARANTINE
from framework.declare.registry import Registry
from framework.foundation.clock import Clock
from framework.foundation.files.storage import Storage
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.plan.steps import RunFlow
from framework.run.flows.metrics import CommittedRows, FlowOutcome
from framework.run.flows.reads import FlowQuery, TableQueries
from framework.run.flows.state.application import application_id
from framework.run.flows.state.state_reader import StateReader
from framework.run.flows.stop_signal import StopSignal
from framework.run.flows.streaming_query import Progress, session_for
from framework.run.flows.written_tables import WrittenTables
from framework.run.quarantine.setting import has_quarantine, quarantine_by_default
from framework.run.tables.table_store import TableStore
from framework.sources.delta.first_read import FirstRead
from framework.sources.delta.log import latest_version
from framework.sources.starts import SourceStart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A process that is killed while it writes the first offsets leaves a temporary file beside them. Spark's check for it,
# new in 4.1, makes every later start fail. Each generation has its own checkpoint folder, so the check is not needed.
_CHECKPOINT_SETTINGS = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false"}

OnOutcome = Callable[[FlowOutcome, Progress | None], None]


class FlowSessions:
    """One Spark session for each flow of an update, with the flow's settings.

    A flow of a continuous update runs many times. A new session for each run would never be freed, because Spark's
    listener bus keeps every session that has started a query.

    Args:
        spark: the pipeline's session, before any flow runs. It is cloned at once, because query functions run in it
            with the settings of their own flows, which other flows must not get.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.pipeline = session_for(spark, _CHECKPOINT_SETTINGS)
        self._sessions: dict[QualifiedName, SparkSession] = {}

    def of(self, flow: QualifiedName, settings: Mapping[str, str]) -> SparkSession:
        """Return the session of a flow.

        Args:
            flow: the flow; only one run of it uses the session at a time.
            settings: the flow's settings, the same in every call.

        Raises:
            UserError: SPARK_SETTING_INVALID.
        """
        session = self._sessions.get(flow)
        if session is None:
            session = self._sessions[flow] = session_for(self.pipeline, settings)
        return session


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowContext:
    """The context shared by all flows of an update.

    Args:
        pipeline: the pipeline's name, part of its transaction identifiers.
        sessions: the sessions of the flows.
        state: reads the current state of sources.
        stop: stops running queries.
        clock: the source of snapshot versions.
        holds: the flows that an operator has paused, whose queries end.
        update_id: the update's id, which quarantined rows record.
        tables: the ids of the tables that the flows write to.
    """

    pipeline: str
    graph: DataflowGraph
    registry: Registry
    spark: SparkSession
    store: TableStore
    queries: TableQueries
    sessions: FlowSessions
    state: StateReader
    stop: StopSignal
    clock: Clock
    update_id: str
    holds: Container[QualifiedName] = frozenset()
    tables: WrittenTables = field(default_factory=WrittenTables)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowRun:
    """One run of one flow.

    Args:
        context: the context of the update's flows.
        step: the planned step.
        flow: the flow.
        dataset: its target.
        settings: Spark settings of target and flow.
        on_outcome: called for each committed batch.
        starts: where this generation's sources start, by source name, instead of the start in the code.
        awaited: the folders of the Delta tables whose start version is not committed yet.
    """

    context: FlowContext
    step: RunFlow
    flow: GraphFlow
    dataset: GraphDataset
    settings: Mapping[str, str]
    on_outcome: OnOutcome
    starts: Mapping[str, SourceStart] = field(default_factory=dict)
    awaited: tuple[str, ...] = ()

    @property
    def storage(self) -> Storage:
        """The pipeline's storage."""
        return self.context.store.storage

    def started(self, query: str) -> None:
        """Record the id of the stream, which is now in the checkpoint, and its sources."""
        store = GenerationStore(self.storage)
        owner = self.context.pipeline if self.dataset.is_sink else ""
        store.started(
            self.dataset.name,
            self.flow.spec.name,
            self.step.generation,
            query,
            sources=self.flow.source_names,
            owner=owner,
        )

    def confirm_sources(self, batch: int) -> bool:
        """Record the sources if this batch is committed, and return whether it is."""
        committed = read_progress(self.storage, self.checkpoint).last_commit_batch
        if committed is None or committed < batch:
            return False
        store, names = GenerationStore(self.storage), self.flow.source_names
        store.confirm_sources(self.dataset.name, self.flow.spec.name, self.step.generation, names)
        return True

    @property
    def application_id(self) -> str:
        """The `txnAppId` of Delta transactions, unique for each generation of the flow."""
        return application_id(self.context.pipeline, self.step.flow, self.step.generation)

    @property
    def path(self) -> str:
        """The folder of the table that the flow writes to."""
        return str(self.context.store.address(self.dataset.spec, self.step.rebuild).path)

    @property
    def table(self) -> TableAddress:
        """The table that the flow writes to, with the id that it had when the update first wrote to it."""
        table_id = self.context.tables.id_of(self.storage, self.path) if self.dataset.is_table else None
        return TableAddress(path=self.path, table_id=table_id)

    @property
    def checkpoint(self) -> str:
        """The path of the generation's checkpoint."""
        return GenerationStore(self.storage).path(self.dataset.name, self.flow.spec.name, self.step.generation)

    @property
    def is_stateful(self) -> bool:
        """Whether the query may have stateful operators."""
        return self.flow.operators != ()

    @property
    def quarantines(self) -> bool:
        """Whether rows that can't be written go to the quarantine.

        Raises:
            UserError: INVALID_CONFIGURATION.
        """
        text = self.context.sessions.pipeline.conf.get(QUARANTINE, None)
        by_default = quarantine_by_default({} if text is None else {QUARANTINE: text})
        return has_quarantine(self.flow, self.dataset, self.context.registry, by_default=by_default)

    def query(self) -> FlowQuery:
        """Return the flow's query over the current tables."""
        first = FirstRead(storage=self.storage, checkpoint=self.checkpoint)
        return self.context.queries.flow_query(
            self.flow.spec, self.settings, self.starts, first=first, quarantines=self.quarantines
        )

    def session(self) -> SparkSession:
        """Return a session with the flow's settings."""
        return self.context.sessions.of(self.flow.spec.name, self.settings)

    def apply_batch(self, batch: DataFrame, number: int) -> None:
        """Call the sink's function with a batch; names that it reads resolve to the stored tables."""
        with self.context.queries.stored(batch.sparkSession):
            self.context.registry.batch_functions[self.dataset.name](batch, number)

    def committed_rows(self) -> CommittedRows | None:
        """Return a counter of the rows appended to the target from now on; None for a target without row counts."""
        if not self.dataset.is_table or self.dataset.cdc is not None:
            return None
        return CommittedRows(self.storage, self.path, after=latest_version(self.storage, self.path))

    def writer_of(self, target: TargetPlan) -> AutoCdcWriter:
        """Return the flow's AUTO CDC writer for the target."""
        assert self.flow.spec.cdc is not None
        store = self.context.store
        return AutoCdcWriter(
            target=CdcTarget.of(target),
            flow=self.flow.spec.name,
            spec=self.flow.spec.cdc,
            table=self.table,
            auxiliary=store.auxiliary(self.dataset.spec, self.step.rebuild),
            application_id=self.application_id,
        )
