"""The definitions of a pipeline's modules: loaded once, and analysed against the existing tables for each request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Unpack

from framework.declare.loader import load_modules
from framework.declare.registry import Registry
from framework.foundation.errors import GraphErrors, OperationError
from framework.foundation.names import QualifiedName
from framework.graph.resolution import Resolution
from framework.plan.request import RequestOptions, UpdateRequest
from framework.plan.selection import check_names
from framework.run.configuration import trigger_interval
from framework.run.tables.known_tables import StoredTables
from framework.session.query_log import quiet_query_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.declare.loader import Module
    from framework.declare.pipeline_spec import PipelineSpec
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
                ignore_stored=lambda name: request.full_refresh_all or name in request.full_refresh,
            ).resolve()


def request_of(spec: PipelineSpec, **options: Unpack[RequestOptions]) -> UpdateRequest:
    """Return the request for a user's options, with names completed by the pipeline's catalog and schema.

    Raises:
        UserError: INVALID_NAME.
    """

    def complete(texts: Sequence[str]) -> tuple[QualifiedName, ...]:
        return tuple(
            dict.fromkeys(QualifiedName.parse(text, catalog=spec.catalog, schema=spec.schema) for text in texts)
        )

    return UpdateRequest(
        refresh=complete(options.get("refresh", ())),
        full_refresh=complete(options.get("full_refresh", ())),
        full_refresh_all=options.get("full_refresh_all", False),
        reset_checkpoints=complete(options.get("reset_checkpoints", ())),
        continuous=options.get("continuous", spec.continuous),
        trigger_interval_seconds=trigger_interval(dict(spec.configuration)) or 0.0,
    )
