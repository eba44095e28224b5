"""The definitions of a pipeline's modules: loaded once, and analysed against the existing tables for each request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pyspark.errors import AnalysisException

from framework.declare.inputs import GivenInputs
from framework.declare.interface.ingestion import ingest_database
from framework.declare.modules.loader import load_modules
from framework.declare.registry import Registry
from framework.declare.specs import DatasetKind, DatasetSpec, IngestedGateway
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow
from framework.graph.queries.calls import first_words
from framework.graph.reading.interception import reading
from framework.graph.resolving.resolution import Resolution
from framework.graph.rules import did_you_mean
from framework.ingest.tables.expansion import expand_ingestions
from framework.ingest.tables.known_tables import is_copied
from framework.plan.request import RequestOptions, UpdateRequest
from framework.plan.selection import check_names
from framework.run.configuration import trigger_interval
from framework.run.flows.reads import TableQueries
from framework.run.tables.analysis_store import AnalysisStore
from framework.run.tables.known_tables import StoredTables
from framework.run.tables.local_tables import LoadReads
from framework.run.tables.storage_identity import StorageIdentity
from framework.session.query_log import quiet_query_log
from framework.sources.databases.options import remember_passwords
from framework.sources.starts import parse_start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.declare.modules.loader import Module
    from framework.declare.pipeline_spec import PipelineSpec
    from framework.run.tables.table_store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definitions:
    """A filled registry, with the hash of its source code (None if unknown).

    Args:
        failure: why the modules could not be loaded; the registry then has the declarations of all code that did run.
    """

    spec: PipelineSpec
    registry: Registry
    code_version: str | None
    spark: SparkSession
    failure: UserError | None = None

    @classmethod
    def load(
        cls, spec: PipelineSpec, modules: Sequence[Module], spark: SparkSession, inputs: GivenInputs | None = None
    ) -> Definitions:
        """Run the pipeline's modules. If some raise, their errors become `failure`, which `check` raises.

        Configuration keys that modules set replace those of `spec` in the spec of the definitions. In a sandbox,
        `inputs` gives the rows of what the code reads.
        """
        remember_passwords(spec.root)  # before the user's code runs, whose errors may contain a password
        registry = Registry(
            catalog=spec.catalog, schema=spec.schema, gathers_faults=True, local_tables=spec.workspace.tables,
            inputs=inputs,
        )  # fmt: skip
        reads = LoadReads(registry=registry, storage=spec.storage, spark=spark)
        try:
            with reading(reads, runs_commands=True) if registry.local_tables or inputs else nullcontext():
                version = load_modules(spec, modules, registry, spark)
        except UserError as error:
            faults: list[SluiceError] = list(error.errors) if isinstance(error, GraphErrors) else [error]
            known = replace(registry, faults=faults, is_incomplete=True)
            return cls(spec=spec, registry=known, code_version=None, spark=spark, failure=error)
        spec = spec.with_parameters(registry.configuration)
        return cls(spec=spec, registry=registry, code_version=version, spark=spark)

    def configured(self, request: UpdateRequest) -> UpdateRequest:
        """Return the request with the trigger interval of the configuration, whose keys modules may have set."""
        return replace(request, trigger_interval_seconds=trigger_interval(dict(self.spec.configuration)) or 0.0)

    def check(self, store: TableStore) -> Definitions:
        """Check that all modules were loaded, and return the definitions.

        Raises:
            GraphErrors: the error of every module that raised, with its file and line, and the errors of the other
                modules' declarations and queries.
            UserError: a file is missing, or there is no file.
        """
        if self.failure is None:
            return self
        if isinstance(self.failure, GraphErrors):
            with suppress(OperationError):  # if the storage can't be read, the errors of the modules are still reported
                self.resolve(store, UpdateRequest())
        raise self.failure

    def sql(self, query: str, store: TableStore, more: Mapping[str, Callable[[], DataFrame]]) -> DataFrame:
        """Return the rows of a query over stored tables and declared views; only the views that it needs are analysed.

        Raises:
            UserError: TABLE_OR_VIEW_NOT_FOUND, UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND, QUERY_INVALID, or the failure of
                a module that may declare an unknown name.
        """
        try:
            return self._queries(store).sql(query, more)
        except AnalysisException as error:
            raise UserError("QUERY_INVALID", cause=first_words(error)) from error
        except UserError as error:
            if self.failure is not None and error.condition == "TABLE_OR_VIEW_NOT_FOUND":
                raise self.failure from error
            raise

    def _queries(self, store: TableStore) -> TableQueries:
        graph = DataflowGraph(
            pipeline=self.spec.name,
            datasets=tuple(GraphDataset(spec=spec, kind=spec.kind) for spec in self.registry.datasets),
            flows=tuple(GraphFlow(spec=spec) for spec in self.registry.flows),
        )
        tables = StoredTables(store=store, registry=self.registry)
        return TableQueries(graph=graph, registry=self.registry, spark=self.spark, store=store, tables=tables)

    def expanded(self, store: TableStore, request: UpdateRequest) -> Definitions:
        """Return the definitions with the present tables of the ingested databases, for an update.

        Raises:
            OperationError: the state of an ingestion can't be read, or a schema is missing that no update has ever had.
                If the modules have errors, these are raised instead.
        """
        known = self.registry
        if any(fault.fields.get("function") == ingest_database.__name__ for fault in known.faults):
            known = replace(known, is_incomplete=True)  # its tables are missing
        if not known.ingestions:
            return replace(self, registry=known)
        registry = replace(
            known,
            datasets=[*known.datasets],
            flows=[*known.flows],
            queries={**known.queries},
            faults=[*known.faults],
            gateways=[],
            unlisted=[],
            generated={},
            rebuilt=set(),
            replaced=set(),
            refreshed={},
            lacking={},
        )
        try:
            root = Path(self.spec.root or ".")
            expand_ingestions(
                registry,
                self.spark,
                store.storage,
                root,
                is_refreshed=request.refreshes,
                other_reader=lambda mark: StorageIdentity.of(store.storage).other_reader(mark, self.spark),
            )
        except SluiceError as error:
            if isinstance(error, OperationError) and not known.faults:
                raise
            # Errors in readers of the missing tables would only be consequences.
            registry = replace(registry, faults=[*known.faults, error], is_incomplete=True)
        return replace(self, registry=registry)

    def table(self, name: QualifiedName, store: TableStore, graph: Callable[[], DataflowGraph]) -> DatasetSpec:
        """Return the declaration of a table.

        No query is analysed and no database is read for a table that a module declares or an ingestion has copied. If
        the definitions have errors, the storage is enough to find the table.

        Args:
            name: the table's full name.
            store: the stored tables.
            graph: the resolved graph, which also has the tables of ingestions.

        Raises:
            UserError: DATASET_NOT_FOUND.
            GraphErrors: the errors of the definitions, if no module declares the table or several do.
        """
        declared = [spec for spec in self.registry.datasets if spec.name == name and spec.kind.is_table]
        if len(declared) == 1:
            return declared[0]
        record = store.record(name)
        stored = None if record is None else DatasetSpec(name=name, kind=DatasetKind.STREAMING_TABLE, path=record.path)
        if stored is not None and is_copied(store.storage, name) and self.registry.ingestions:
            return stored
        try:
            dataset = graph().dataset(name)
        except SluiceError:
            if stored is None:
                raise
            return stored
        if dataset is None or not dataset.is_table:
            tables = [each.name for each in graph().datasets if each.is_table]
            raise UserError("DATASET_NOT_FOUND", dataset=name, hint=did_you_mean(name, tables))
        return dataset.spec

    def gateways(self) -> tuple[IngestedGateway, ...]:
        """Return the ingestions with their tables in the source databases.

        Raises:
            SourceError: a database can't be read.
            GraphErrors: a database lacks something that is declared.
        """
        if len(self.registry.gateways) < len(self.registry.ingestions):
            unlisted = [each.error for each in self.registry.unlisted if each.is_whole]
            raise unlisted[0] if unlisted else GraphErrors(self.registry.faults)
        return tuple(self.registry.gateways)

    def resolve(
        self, store: TableStore, request: UpdateRequest, only: Collection[QualifiedName] | None = None
    ) -> DataflowGraph:
        """Return the graph, analysed against a store's tables except the tables that the request rebuilds.

        Args:
            store: the stored tables.
            request: the update.
            only: the datasets to resolve with all that they read; None for all.

        Raises:
            UserError: a name in the request is not declared; raised before the analysis.
            GraphErrors: all errors of the definitions.
        """
        datasets = [dataset.name for dataset in self.registry.datasets]
        check_names(request, [*datasets, *self.registry.spoilt], [flow.name for flow in self.registry.flows])
        with quiet_query_log():
            return Resolution(
                pipeline=self.spec.name,
                registry=self.registry,
                spark=self.spark,
                tables=StoredTables(store=store, registry=self.registry),
                code_version=self.code_version,
                kept=AnalysisStore(store.storage, self.spec.name).read() if self.registry.generated else {},
                ignore_stored=lambda name: request.refreshes(name) or name in self.registry.rebuilt,
            ).resolve(only)


def request_of(spec: PipelineSpec, **options: Unpack[RequestOptions]) -> UpdateRequest:
    """Return the request for a user's options, with names completed by the pipeline's catalog and schema.

    Raises:
        UserError: INVALID_NAME, START_INVALID.
    """

    def complete(texts: Sequence[str]) -> tuple[QualifiedName, ...]:
        return tuple(
            dict.fromkeys(QualifiedName.parse(text, catalog=spec.catalog, schema=spec.schema) for text in texts)
        )

    resets = options.get("reset_checkpoints", ())
    return UpdateRequest(
        refresh=complete(options.get("refresh", ())),
        full_refresh=complete(options.get("full_refresh", ())),
        full_refresh_all=options.get("full_refresh_all", False),
        reset_checkpoints=complete(tuple(resets)),
        starts=tuple(
            (complete([flow])[0], parse_start(start))
            for flow, starts in (resets.items() if isinstance(resets, Mapping) else ())
            for start in ([starts] if isinstance(starts, str) else starts)
        ),
        keep_history=options.get("keep_history", False),
        history_keys=tuple(options.get("history_keys", ())),
        continuous=options.get("continuous", spec.continuous),
        trigger_interval_seconds=trigger_interval(dict(spec.configuration)) or 0.0,
    )
