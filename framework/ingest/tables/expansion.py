"""Expands ingestions to datasets and flows: one stream of changes for a database, two flows for each of its tables.

The tables are read from the database in each update, so a table that is added to a source schema joins at the next one:
its snapshot flow adds the table to the log and waits until all older transactions have ended before it reads rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING

from framework.declare.registry import GeneratedQuery, UnlistedTables
from framework.declare.specs import (
    AutoCdcSpec,
    ColumnSelection,
    FlowSpec,
    IngestedGateway,
    IngestedTable,
)
from framework.engine.jvm.call_sites import without_call_sites
from framework.foundation.errors import OperationError, SluiceError, SourceError, UserError
from framework.ingest.confirmation import (
    has_changes,
    snapshot_filter,
)
from framework.ingest.connections import named_connection
from framework.ingest.names import change_flow_name, changes_name, log_name, snapshot_flow_name
from framework.ingest.state import GatewayState, GatewayStore, TableState
from framework.ingest.status import lost_operations, read_from_other_log
from framework.ingest.tables.copies import Copy, CopyFinder, FailedCopy
from framework.ingest.tables.datasets import IngestionDatasets, known_tables_of
from framework.ingest.tables.known_tables import begun_snapshots, known_table, recorded_reader
from framework.ingest.tables.objects import SCHEMA_MISSING, target_of
from framework.ingest.tables.outdated_copies import OutdatedCopies
from framework.ingest.tables.payloads import free_name, generation_sql, payload_options, quoted_column
from framework.ingest.tables.relations import log_relations
from framework.ingest.tables.repeated_tables import recorded_names
from framework.ingest.tables.row_filters import fault_of_filter
from framework.ingest.takeovers import open_servers
from framework.sources.databases.format_names import CHANGES_FORMAT, SNAPSHOT_FORMAT
from framework.sources.databases.source_session import KnownTable
from framework.sources.databases.tables import REPLACED, UNREADABLE, TableName, quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from framework.declare.registry import Registry
    from framework.declare.specs import IngestionSpec
    from framework.foundation.files.storage_port import Storage
    from framework.foundation.names import QualifiedName

_SNAPSHOT_ONLY, _CHANGES_ONLY = (
    frozenset({"chunkBytes", "maxChunksPerTrigger"}),
    frozenset({"maxRowsPerTrigger", "maxBytesPerTrigger", "spoolFolder"}),
)
_ORDER = ("generation", "position", "ordinal")
"""Columns of the log that order changes; they are zero in rows of a snapshot, which are older than every change."""
_CAUSE = "<the cause that is in the change>"


def expand_ingestions(
    registry: Registry,
    spark: SparkSession,
    storage: Storage,
    folder: Path,
    *,
    is_refreshed: Callable[[QualifiedName], bool] = lambda _: False,
    other_reader: Callable[[str], str] = lambda _: "",
) -> None:
    """Add the datasets and flows of all ingestions to a registry.

    The flows of a table with an error raise it in their queries, so that the flows of the other tables run. If a
    database can't be read, the flows of all tables of its ingestion raise the error.

    Args:
        registry: has the ingestions.
        spark: the session of the pipeline.
        storage: has the checkpoints of the flows.
        folder: the folder of the spec, with `connections.yml`.
        is_refreshed: whether the update clears a dataset and recomputes it.
        other_reader: returns the other storage that reads a log; None if it is the pipeline's.

    Raises:
        UserError: the connection or any table of an ingestion is missing.
        SourceError: DATABASE_SCHEMA_MISSING, for a schema that no earlier update has found.
    """
    for spec in registry.ingestions:
        expansion = _Expansion(
            registry=registry,
            spark=spark,
            storage=storage,
            spec=spec,
            folder=connections_folder(spec, folder),
            is_refreshed=is_refreshed,
            other_reader=other_reader,
        )
        replaced, rebuilt = {*registry.replaced}, {*registry.rebuilt}
        try:
            expansion.add()
        except SourceError as error:
            if error.condition == SCHEMA_MISSING:  # a schema that no update has found is an error in the code
                raise
            registry.replaced.intersection_update(replaced)
            registry.rebuilt.intersection_update(rebuilt)
            expansion.refuse(error)


def connections_folder(spec: IngestionSpec, folder: Path) -> Path:
    """Return the folder of `connections.yml`: the option `connectionsFolder`, or the folder of the spec."""
    return Path(dict(spec.options).get("connectionsFolder", folder)).resolve()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expansion:
    """The expansion of one ingestion; `folder` has `connections.yml`."""

    registry: Registry
    spark: SparkSession
    storage: Storage
    spec: IngestionSpec
    folder: Path
    is_refreshed: Callable[[QualifiedName], bool]
    other_reader: Callable[[str], str]

    def add(self) -> None:
        """Add the table of changes, and the copies with their flows."""
        state = GatewayStore(self.storage).read(self.spec.name)
        outdated = OutdatedCopies(
            registry=self.registry, storage=self.storage, spec=self.spec, is_refreshed=self.is_refreshed
        )
        finder = CopyFinder(
            spec=self.spec,
            catalog=self.registry.catalog,
            schema=self.registry.schema,
            known=self._known,
            recorded=lambda table: recorded_names(state, table),
            listed=lambda each: known_tables_of(state, each),
            refuse_filter=self._refuse_filter,
            refuse_drift=lambda copy: outdated.check(copy, state),
        )
        found = finder.find(self.folder)
        other = "" if state is None else self.other_reader(state.storage)
        refusal = self._of_other_storage(other) if other else self._of_other_log(state)
        if refusal is not None:
            found = self._refuse_all(found, refusal)
        scheme = named_connection(self.spec.connection, str(self.folder)).scheme
        self.registry.gateways.append(replace(self._gateway(found), other_storage=other, scheme=scheme))
        copies = [copy for copy in found if isinstance(copy, Copy)]
        gap = None if state is None or self._is_new_log_asked(state) else lost_operations(self.storage, state)
        if refusal is None and gap is not None:
            self._datasets.refuse_changes(gap.at(self.spec.location))
        # The changes of held tables are staged, even if all tables are held.
        elif refusal is None and (copies or has_changes(self.storage, changes_name(self.spec, self.registry))):
            self._add_changes(copies, [each.table for each in copies or found])
        for copy in found:
            self._datasets.add_copy(copy)
            if isinstance(copy, Copy):
                self._add_flows(copy)
        self._note_unlisted(found)

    def refuse(self, error: SluiceError) -> None:
        """Add the known tables with flows that fail with the error of their database; leave the state as it is."""
        self._datasets.refuse(error.at(self.spec.location), GatewayStore(self.storage).read(self.spec.name))
        schemas = (
            target_of(
                each,
                TableName(schema=each.source_schema, table=""),
                catalog=self.registry.catalog,
                schema=self.registry.schema,
            )
            for each in self.spec.objects
        )
        unlisted = UnlistedTables(
            ingestion=self.spec.name,
            schemas=frozenset((each.catalog, each.schema) for each in schemas),
            error=error,
            is_whole=True,
        )
        self.registry.unlisted.append(unlisted)

    def _note_unlisted(self, found: Sequence[Copy | FailedCopy]) -> None:
        """Note each source schema that was dropped: it may have had more tables than the known ones."""
        gone = [each for each in found if isinstance(each, FailedCopy) and each.error.condition == SCHEMA_MISSING]
        if gone:
            schemas = frozenset((each.target.catalog, each.target.schema) for each in gone)
            self.registry.unlisted.append(
                UnlistedTables(ingestion=self.spec.name, schemas=schemas, error=gone[0].error, is_whole=False)
            )

    @property
    def _datasets(self) -> IngestionDatasets:
        return IngestionDatasets(registry=self.registry, spec=self.spec)

    def _of_other_storage(self, other: str) -> SluiceError:
        """Return the error of a storage that is not the reader of the log."""
        return OperationError(
            "INGESTION_OF_OTHER_STORAGE",
            location=self.spec.location,
            name=self.spec.name,
            slot=log_name(self.spec).position,
            other=other,
        )

    def _of_other_log(self, state: GatewayState | None) -> SluiceError | None:
        """Detect staged changes from a log of another name; None if there are none, or a new log is requested.

        Otherwise a snapshot would add its table to the other log, whose changes no flow reads.
        """
        changes = changes_name(self.spec, self.registry)
        if state is None or self._is_new_log_asked(state) or self.is_refreshed(changes):
            return None
        gap = read_from_other_log(self.storage, state, log_name(self.spec))
        return None if gap is None else gap.at(self.spec.location)

    def _refuse_all(self, found: Sequence[Copy | FailedCopy], error: SluiceError) -> tuple[FailedCopy, ...]:
        """Refuse the changes and all copies."""
        self._datasets.refuse_changes(error)
        return tuple(
            FailedCopy(table=each.table, target=each.target, error=error, copy_name=each.copy_name) for each in found
        )

    def _is_new_log_asked(self, state: GatewayState) -> bool:
        return GatewayStore(self.storage).request(self.spec.name).generation > state.log_generation

    def _gateway(self, found: Sequence[Copy | FailedCopy]) -> IngestedGateway:
        return IngestedGateway(
            name=self.spec.name,
            connection=self.spec.connection,
            folder=str(self.folder),
            position_name=log_name(self.spec).position,
            table_list=log_name(self.spec).tables,
            changes=changes_name(self.spec, self.registry),
            tables=tuple(
                IngestedTable(
                    source_schema=each.table.schema,
                    source_table=each.table.table,
                    target=each.target,
                    snapshot_flow=snapshot_flow_name(each.target),
                    cdc_flow=change_flow_name(each.target),
                    keys=each.keys if isinstance(each, Copy) else (),
                    identity=each.identity if isinstance(each, Copy) else "",
                    continuity=each.continuity if isinstance(each, Copy) else "",
                    is_logged=isinstance(each, Copy) and each.is_logged,
                    is_refreshed=each.target in self.registry.refreshed,
                    named_continuity=each.named_continuity if isinstance(each, FailedCopy) else "",
                    definition=each.definition if isinstance(each, Copy) else None,
                    copy_name=each.copy_name,
                )
                for each in found
            ),
        )

    def _known(self, table: TableName, target: QualifiedName, key: str) -> KnownTable | None:
        return known_table(self.storage, self.spec.name, changes_name(self.spec, self.registry), table, target, key=key)

    def _refuse_filter(self, table: TableName, schema: str, text: str) -> None:
        cause = fault_of_filter(self.spark, schema, text)
        if cause is not None:
            raise UserError("INGESTION_ROW_FILTER_INVALID", table=table, filter=text, cause=cause)

    def _add_changes(self, copies: Sequence[Copy], tables: Sequence[TableName]) -> None:
        spec, spark, name = self.spec, self.spark, changes_name(self.spec, self.registry)
        options = {
            **self._options(_SNAPSHOT_ONLY),
            "tables": ",".join(table.quoted for table in dict.fromkeys(tables)),
            # On such a row the flow of its table fails, not the flow that stages the changes of all tables.
            "unreadableRows": "keep",
        }

        store = GatewayStore(self.storage)

        def changes() -> DataFrame:
            # Read when the flow starts: an update may begin a new generation after it has loaded the modules.
            state = store.read(spec.name)
            begun: dict[str, str | int] = {}
            if state is not None:
                snapshots = begun_snapshots(self.storage, state)
                begun = {
                    "generation": state.log_generation,
                    "advanceTo": state.position,
                    **log_relations(state, copies),
                    "notAfter": min((each.position for each in snapshots), default=0),
                    "snapshots": json.dumps(sorted({each.horizon for each in snapshots})),
                    "reader": state.reader,
                    "servers": json.dumps(open_servers(self.storage, state, {each.key for each in copies})),
                }
            return spark.readStream.format(CHANGES_FORMAT).options(**options, **begun).load()

        # The log and the position of a generation are not part of the text: they affect neither columns nor sources.
        query = GeneratedQuery(text=repr(sorted(options.items())))

        self._datasets.add_changes()
        self._add_flow(FlowSpec(name=name, target=name, location=spec.location), changes, query)

    def _add_flows(self, copy: Copy) -> None:
        """Add the flows of a copy; they give the columns of the log names that the table does not use."""
        operation, *order = (free_name(name, copy.read_columns) for name in ("operation", *_ORDER))
        pairs = (f"'{name}', `{column}`" for name, column in zip(_ORDER, order, strict=True))
        scd_type = copy.configuration.scd_type
        cdc = AutoCdcSpec(
            keys=copy.keys,
            sequence_by=f"named_struct({', '.join(pairs)})",
            scd_type=scd_type,
            soft_deletes=copy.configuration.soft_deletes,
            columns=ColumnSelection(columns=tuple(order), excluded=True),
        )
        once = FlowSpec(
            name=snapshot_flow_name(copy.target), target=copy.target, location=self.spec.location, once=True, cdc=cdc
        )
        state = self._state(copy)
        where = snapshot_filter(state, self.storage)
        query = GeneratedQuery(text=repr((copy, state.number, where, self._options(_CHANGES_ONLY))))
        self._add_flow(once, lambda: self._snapshot(copy, order), query)
        following = replace(
            cdc,
            columns=ColumnSelection(columns=(operation, *order), excluded=True),
            apply_as_deletes=f"`{operation}` = 'DELETE'",
            apply_as_truncates=f"`{operation}` = 'TRUNCATE'" if scd_type == 1 else None,
        )
        changes = FlowSpec(
            name=change_flow_name(copy.target), target=copy.target, location=self.spec.location, cdc=following
        )
        query = GeneratedQuery(
            text=repr((copy, state.generations, log_name(self.spec).position)),
            reads=(changes_name(self.spec, self.registry),),
        )
        self._add_flow(changes, lambda: self._changed(copy, operation, order), query)

    def _state(self, copy: Copy) -> TableState:
        """Return the state of a copy when its flow starts: a generation may begin after the modules are loaded."""
        state = GatewayStore(self.storage).read(self.spec.name)
        found = None if state is None else state.table(copy.key)
        return found or TableState(table=self._gateway([copy]).tables[0])

    @without_call_sites()
    def _snapshot(self, copy: Copy, order: Sequence[str]) -> DataFrame:
        """Return the rows of the table as its chunks contain them, older than every change of their generation."""
        state = self._state(copy)
        options: dict[str, str | int] = {
            **self._options(_CHANGES_ONLY),
            "table": copy.table.quoted,
            "columns": ",".join(map(quote_identifier, copy.read_columns)),
            "textColumns": ",".join(map(quote_identifier, copy.text_columns)),
            "generation": state.number,
            "identity": state.identity,
            "reader": recorded_reader(self.storage, self.spec.name),
        }
        where = snapshot_filter(state, self.storage)
        if where is not None:
            options["rowFilter"] = where
        rows = self.spark.readStream.format(SNAPSHOT_FORMAT).schema(copy.schema).options(**options).load()
        if copy.configuration.row_filter:
            rows = rows.where(copy.configuration.row_filter)
        values = (f"{value}L AS `{name}`" for name, value in zip(order, (state.number, 0, 0), strict=True))
        return rows.selectExpr(*map(quoted_column, copy.columns), *values)

    @without_call_sites()
    def _changed(self, copy: Copy, operation: str, order: Sequence[str]) -> DataFrame:
        """Return the changes of the table as columns; a row that no longer meets the row filter becomes a delete."""
        from pyspark.sql import functions as F

        rows = self.spark.readStream.table(changes_name(self.spec, self.registry).quoted)
        state = self._state(copy)
        values = (generation_sql(state.generations), "position", "ordinal")
        rows = rows.where(F.col("source_table") == str(copy.table))
        refused = self._refused(copy)
        if state.newest_complete:
            # A later snapshot of all rows replaces the effect of this change.
            later = F.expr(f"{values[0]} >= {state.newest_complete}")
            rows = rows.where(~reduce(or_, (condition for condition, _ in refused)) | later)
        if state.oldest_kept:
            rows = rows.where(F.expr(f"{values[0]} >= {state.oldest_kept}"))
        payload = F.col("payload")
        for condition, error in refused:
            payload = F.when(condition, F.raise_error(error).cast("string")).otherwise(payload)
        rows = rows.select(
            F.col("operation").alias(operation),
            *(F.expr(value).alias(name) for name, value in zip(order, values, strict=True)),
            F.from_json(payload, copy.schema, payload_options(copy.read_columns)).alias("row"),
        )
        if state.newest_complete:
            # This includes staged changes without a value of the key.
            has_key = reduce(and_, (F.col("row")[key].isNotNull() for key in copy.keys))
            is_later = F.expr(f"`{order[0]}` >= {state.newest_complete}")
            rows = rows.where(is_later | (F.col(operation) == "TRUNCATE") | has_key)
        rows = rows.select(operation, *order, "row.*")
        if copy.configuration.row_filter:
            meets = f"coalesce((\n{copy.configuration.row_filter}\n), false)"  # the filter may end in a comment
            leaves = F.expr(f"`{operation}` IN ('INSERT', 'UPDATE') AND NOT {meets}")
            rows = rows.withColumn(operation, F.when(leaves, "DELETE").otherwise(F.col(operation)))
        return rows.select(operation, *order, *map(quoted_column, copy.columns))

    def _refused(self, copy: Copy) -> list[tuple[Column, Column]]:
        """Return conditions for the changes that the copy can't apply, each with the error text that fails its flow."""
        from pyspark.sql import functions as F

        operation = F.col("operation")
        unreadable = SourceError("INGESTION_CHANGE_UNREADABLE", table=copy.table, cause=_CAUSE)
        before, _, after = _raised(unreadable).partition(_CAUSE)
        replaced = _raised(SourceError("INGESTION_TABLE_REPLACED", table=copy.table))
        refused = [
            (operation == UNREADABLE, F.concat(F.lit(before), F.col("payload"), F.lit(after))),
            (operation == REPLACED, F.lit(replaced)),
        ]
        if copy.configuration.scd_type != 1:
            truncated = SourceError("INGESTION_HISTORY_TRUNCATED", table=copy.table, slot=log_name(self.spec).position)
            refused.append((operation == "TRUNCATE", F.lit(_raised(truncated))))
        state = GatewayStore(self.storage).read(self.spec.name)
        known = None if state is None else state.copy(copy.target)
        if known is not None:
            other = SourceError("INGESTION_COLUMNS_NEWER", table=copy.table)
            has_row = operation.isin("INSERT", "UPDATE", "DELETE")
            refused.append((has_row & ~F.col("schema_version").isin(*known.log_versions), F.lit(_raised(other))))
        return refused

    def _add_flow(self, flow: FlowSpec, function: Callable[[], DataFrame], query: GeneratedQuery | None = None) -> None:
        self.registry.flows.append(flow)
        self.registry.queries[flow.name] = function
        if query is not None:
            self.registry.generated[flow.name] = query

    def _options(self, foreign: frozenset[str]) -> dict[str, str]:
        """Return the options of a source: the common options, and the options of the user that the source has."""
        own = {name: value for name, value in self.spec.options if name not in foreign}
        common = {"connection": self.spec.connection, "slot": log_name(self.spec).position}
        return {**common, **own, "connectionsFolder": str(self.folder)}


def _raised(error: SourceError) -> str:
    """Return the text with which Spark raises an error of Sluice, in the form that the run recognizes."""
    return f"\n{SourceError.__module__}.{SourceError.__name__}: {error.render()}\n\n"
