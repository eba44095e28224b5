"""The refresh of a materialized view: its rows are computed and replaced in one Delta commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType

from framework.cdc.delta.appended_difference import append_difference
from framework.cdc.model.columns import quote
from framework.checkpoints.rebuilds import RebuildStore
from framework.engine.delta.computed_replacement import replace_and_compute
from framework.engine.delta.fed_replacement import replace_table
from framework.engine.delta.table_replacement import TableDefinition, replace_rows
from framework.engine.plans.relations import moved
from framework.foundation.computed_columns import DEFAULT, as_read, is_generated, is_identity
from framework.foundation.errors import OperationError
from framework.foundation.failpoints import failpoint
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.graph.resolving.streamed_views import is_streamed
from framework.plan.steps import RefreshView
from framework.run.flows.expectations import counted
from framework.run.flows.flow_run import FlowSessions
from framework.run.flows.metrics import CommittedRows, FlowOutcome, Observed, observing
from framework.run.flows.reads import TableQueries
from framework.run.flows.state.state_reader import StateReader
from framework.run.tables.column_changes import check_replaced, feature_properties, features_of
from framework.run.tables.stored_columns import spelled_as_in
from framework.run.tables.table_store import TableStore
from framework.schema.change import SchemaChange
from framework.sources.delta.log import latest_version

USER_METADATA = "userMetadata"

_NULL_IN_COLUMN = "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: {}."
"""Delta's error text. `CREATE OR REPLACE TABLE … AS SELECT` makes columns nullable, so the query checks its rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ViewRefresher:
    """Executes RefreshView steps.

    Args:
        sessions: the sessions of the views.
        update_id: the id recorded in the view's commits.
    """

    graph: DataflowGraph
    sessions: FlowSessions
    store: TableStore
    queries: TableQueries
    state: StateReader
    update_id: str

    def refresh(self, step: RefreshView) -> FlowOutcome:
        """Replace the view's rows with the current result of its query.

        The commit records a fingerprint of the code and input versions. The versions are read before the rows, so the
        next update treats changes in between as new.
        """
        dataset = self._dataset(step)
        flow = self.graph.flows_into(dataset.name)[0]
        computed_from = self.state.computable_from(dataset)
        settings = self.graph.settings(flow)
        query = self.queries.flow_query(flow.spec, settings)
        session = self.sessions.of(flow.spec.name, settings)
        path = self.store.path(dataset.spec)
        commits = CommittedRows(self.store.storage, path, after=latest_version(self.store.storage, path))
        with observing(session) if any(query.expectations.values()) else _no_metrics() as observed:
            rows = moved(query.frame, session)
            if dataset.spec.schema is not None:  # Delta itself computes generated columns
                rows = _as_declared(rows, StructType.fromJson(json.loads(dataset.table_schema or "")))
            try:
                self._replace(dataset, rows, computed_from, step.change)
            except OperationError as error:
                if error.condition == "TABLE_CHANGED_SINCE_PLAN":
                    # The next update computes the view, although its inputs and its code may be as they were. A crash
                    # before this forgets a full refresh that was requested, as a crash before the step does.
                    self.store.record_unknown(dataset)
                raise
        failpoint("views.after_commit")
        # A crash here is safe: rows and fingerprint are one commit. Without its record the view is computed once more
        # and then recorded.
        self.store.write_record(dataset)
        return FlowOutcome(written=commits.take(), quality=counted(observed, query.expectations))

    def _replace(
        self, dataset: GraphDataset, frame: DataFrame, computed_from: str | None, planned: SchemaChange | None
    ) -> None:
        spec = dataset.spec
        address = self.store.address(spec)
        self.store.check_owner(dataset.spec, address)
        self._give_up_rebuild(dataset)
        mark = json.dumps({"sluice": {"computed_from": computed_from, "update": self.update_id}})
        columns = StructType.fromJson(json.loads(dataset.table_schema or ""))
        properties = self.store.properties(dataset)
        partitions = spelled_as_in(dataset.table_schema, spec.partition_columns)
        definition = TableDefinition(properties=properties, comment=spec.comment, partition_columns=partitions)
        if any(map(_is_written_by_delta, columns.fields)):
            if not self.store.exists(address):
                # A crash after this is safe: the table has no rows, and no fingerprint of a query that computed them.
                self.store.create(dataset)
                failpoint("views.after_create")
                planned = None
            written, wanted = _nullable(columns), _with_features(definition, columns)
            check = partial(check_replaced, dataset, planned, written=written.json())
            replace_and_compute(address, frame, written, wanted, check=check, user_metadata=mark)
            self.store.cluster(dataset, address)  # a crash before is as below
            return
        exists = self.store.exists(address)
        streamed = exists and is_streamed(self.graph, dataset.name)
        if streamed and append_difference(address, frame, definition, user_metadata=mark):
            return
        if exists and not spec.cluster_by and replace_rows(address, frame, definition, user_metadata=mark):
            return
        definition = _with_features(definition, frame.schema)
        check = partial(check_replaced, dataset, planned, written=frame.schema.json())
        if exists and replace_table(address, frame, definition, check=check, user_metadata=mark):
            self.store.cluster(dataset, address)  # a crash before is as below
            return
        if exists:  # a clustered table, or an untested version of Delta
            # Delta's command begins its transaction after this check. A column that somebody adds in between is dropped
            # with the rows, as it is by a refresh whose plan says so; changes after that are a conflict.
            check(self.store.schema(address) or "")
        writer = frame.writeTo(address.sql).using("delta").option(USER_METADATA, mark)
        for key, value in definition.properties.items():
            writer = writer.tableProperty(key, value)
        if spec.comment:
            writer = writer.tableProperty("comment", spec.comment)
        if partitions:
            writer = writer.partitionedBy(*(sql.col(column) for column in partitions))
        writer.createOrReplace()
        # This writer does not support `clusterBy`. A crash here is safe: the view is computed once more.
        self.store.cluster(dataset, address)

    def _give_up_rebuild(self, dataset: GraphDataset) -> None:
        """Abandon a full refresh of the streaming table that is now declared as a view.

        A crash in between is safe: the table already counts as a view, and a streaming table is refused.
        """
        number = RebuildStore(self.store.storage).give_up(dataset.name)
        if number is not None:
            self.store.storage.delete_tree(self.store.layout.rebuild(dataset.name, number))
            failpoint("views.after_give_up")

    def _dataset(self, step: RefreshView) -> GraphDataset:
        dataset = self.graph.dataset(step.dataset)
        assert dataset is not None
        return dataset


def _with_features(definition: TableDefinition, columns: StructType) -> TableDefinition:
    """Return a definition that also enables the table features for the types of new columns."""
    return replace(definition, properties={**definition.properties, **feature_properties(features_of(columns))})


@contextmanager
def _no_metrics() -> Iterator[Observed]:
    """Yield no metrics; replaces `observing` if there are no expectations, and needs no listener."""
    yield {}


def _as_declared(frame: DataFrame, declared: StructType) -> DataFrame:
    """Return the declared columns with their comments; columns missing in the query get their default or NULL.

    A NULL in a column that is declared NOT NULL fails the query.

    Args:
        frame: the rows of the view; its columns have the declared types, except for comments and nested nullability.
        declared: the declared schema.
    """
    columns = {field.name.lower(): field for field in frame.schema.fields}
    given = [each for each in declared.fields if each.name.lower() in columns or not _is_written_by_delta(each)]
    return frame.select(*(_column(field, columns.get(field.name.lower())) for field in given))


def _is_written_by_delta(field: StructField) -> bool:
    return is_generated(field) or is_identity(field)


def _nullable(columns: StructType) -> StructType:
    """Return the columns as a view stores them: the query checks NOT NULL and fills in defaults itself."""
    shown = as_read(columns)
    return StructType(
        [
            StructField(field.name, field.dataType, nullable=True, metadata=of_delta.metadata)
            if _is_written_by_delta(of_delta)
            else StructField(field.name, field.dataType, nullable=True, metadata=field.metadata)
            for field, of_delta in zip(shown.fields, columns.fields, strict=True)
        ]
    )


def _column(field: StructField, found: StructField | None) -> Column:
    default = field.metadata.get(DEFAULT)
    value = sql.lit(None) if default is None else sql.expr(f"({default})")
    value = value if found is None else sql.col(quote(found.name))
    if found is None or found.dataType != field.dataType:  # nested fields have the declared comments
        value = value.cast(field.dataType)
    if not field.nullable:
        value = sql.coalesce(value, sql.raise_error(sql.lit(_NULL_IN_COLUMN.format(field.name))).cast(field.dataType))
    return value.alias(field.name, metadata=as_read(StructType([field])).fields[0].metadata)
