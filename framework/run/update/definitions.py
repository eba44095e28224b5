"""The definitions of a pipeline's modules: loaded once, and analysed against the existing tables for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from framework.declare.ingestion import ingest_database
from framework.declare.loader import load_modules
from framework.declare.registry import Registry
from framework.declare.specs import IngestedGateway
from framework.foundation.errors import GraphErrors, OperationError, SluiceError, UserError
from framework.foundation.names import QualifiedName
from framework.graph.resolution import Resolution
from framework.graph.rules import did_you_mean
from framework.ingest.expansion import expand_ingestions
from framework.plan.request import RequestOptions, UpdateRequest
from framework.plan.selection import check_names
from framework.run.configuration import trigger_interval
from framework.run.tables.analysis_store import AnalysisStore
from framework.run.tables.known_tables import StoredTables
from framework.run.tables.storage_identity import StorageIdentity
from framework.session.query_log import quiet_query_log
from framework.sources.starts import parse_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.loader import Module
    from framework.declare.pipeline_spec import PipelineSpec
    from framework.declare.specs import DatasetSpec
    from framework.graph.graph import DataflowGraph
    from framework.run.tables.table_store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definitions:
    """A filled registry, with the hash of its source code (None if unknown)."""

    spec: PipelineSpec
    registry: Registry
    code_version: str | None
    spark: SparkSession

    @classmethod
    def load(cls, spec: PipelineSpec, modules: Sequence[Module], store: TableStore) -> Definitions:
        """Run the pipeline's modules.

        Raises:
            GraphErrors: the error of every module that raised, with its file and line, and the errors of the other
                modules' declarations and queries.
        """
        registry = Registry(catalog=spec.catalog, schema=spec.schema, gathers_faults=True)
        try:
            version = load_modules(spec, modules, registry, store.spark)
        except GraphErrors as error:
            known = replace(registry, faults=list(error.errors), is_incomplete=True)
            with suppress(OperationError):  # if the storage can't be read, the errors of the modules are still reported
                cls(spec=spec, registry=known, code_version=None, spark=store.spark).resolve(store, UpdateRequest())
            raise
        return cls(spec=spec, registry=registry, code_version=version, spark=store.spark)

    def expanded(self, store: TableStore, request: UpdateRequest) -> Definitions:
        """Return the definitions with the tables of ingestions as the databases have them now, for an update.

        Raises:
            OperationError: a database can't be read; if the modules have errors, these are reported instead.
        """
        known = self.registry
        if any(fault.fields.get("function") == ingest_database.__name__ for fault in known.faults):
            known = replace(known, is_incomplete=True)  # its tables are missing
        if not known.ingestions:
            return replace(self, registry=known)
        registry = replace(
            known, datasets=[*known.datasets], flows=[*known.flows], queries={**known.queries}, faults=[*known.faults],
            gateways=[], generated={}, rebuilt=set(), replaced=set(),
        )  # fmt: skip
        try:
            root = Path(self.spec.root or ".")
            expand_ingestions(
                registry, self.spark, store.storage, root, is_refreshed=request.refreshes,
                other_reader=lambda mark: StorageIdentity.of(store.storage).other_reader(mark, self.spark),
            )  # fmt: skip
        except SluiceError as error:
            if isinstance(error, OperationError) and not known.faults:
                raise
            # Errors of readers of the missing tables would only be consequences.
            registry = replace(registry, faults=[*known.faults, error], is_incomplete=True)
        return replace(self, registry=registry)

    def table(self, name: QualifiedName, graph: Callable[[], DataflowGraph]) -> DatasetSpec:
        """Return the declaration of a table. No query is analysed for a table that a module declares.

        Args:
            name: the table's full name.
            graph: the resolved graph, which has the tables of ingestions too.

        Raises:
            UserError: DATASET_NOT_FOUND.
            GraphErrors: the errors of the definitions, if no module declares the table, or several times.
        """
        declared = [spec for spec in self.registry.datasets if spec.name == name and spec.kind.is_table]
        if len(declared) == 1:
            return declared[0]
        dataset = graph().dataset(name)
        if dataset is None or not dataset.is_table:
            tables = [each.name for each in graph().datasets if each.is_table]
            raise UserError("DATASET_NOT_FOUND", dataset=name, hint=did_you_mean(name, tables))
        return dataset.spec

    def gateways(self) -> tuple[IngestedGateway, ...]:
        """Return the ingestions with their tables at the source.

        Raises:
            GraphErrors: a database can't be read, or has not what is declared.
        """
        if len(self.registry.gateways) < len(self.registry.ingestions):
            raise GraphErrors(self.registry.faults)
        return tuple(self.registry.gateways)

    def resolve(self, store: TableStore, request: UpdateRequest) -> DataflowGraph:
        """Return the graph, analysed against the tables of a store, except those that the request rebuilds.

        Raises:
            UserError: a name of the request that was not declared; raised before the analysis.
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
            ).resolve()


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
