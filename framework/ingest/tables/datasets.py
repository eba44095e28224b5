"""The datasets of an ingestion: its table of changes and its copies, and failing flows for sources with an error.

Errors are isolated: a dataset with an error fails alone, and its readers are skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.declare.specs import DatasetKind, DatasetSpec, FlowSpec
from framework.foundation.errors import SourceError
from framework.ingest.names import change_flow_name, changes_name, snapshot_flow_name
from framework.ingest.tables.copies import Copy, FailedCopy
from framework.ingest.tables.objects import takes_table, target_of
from framework.sources.databases.tables import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from framework.declare.registry import Registry
    from framework.declare.specs import IngestedObject, IngestionSpec
    from framework.foundation.errors import SluiceError
    from framework.ingest.state import GatewayState

_NOT_IN_PARQUET = frozenset(" ,;{}()\n\t=")
_MAPPED = (("delta.columnMapping.mode", "name"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionDatasets:
    """Adds the datasets of one ingestion to a registry."""

    registry: Registry
    spec: IngestionSpec

    def add_changes(self) -> None:
        """Add the table of changes."""
        self.registry.datasets.append(
            DatasetSpec(
                name=changes_name(self.spec, self.registry),
                kind=DatasetKind.STREAMING_TABLE,
                location=self.spec.location,
                comment=f"Changes of the tables of the connection {self.spec.connection}",
                # A reader of one table skips the files of the others.
                partition_columns=("source_table",),
            )
        )

    def refuse_changes(self, error: SluiceError) -> None:
        """Add the table of changes with a flow that fails."""
        name = changes_name(self.spec, self.registry)
        self.registry.isolated.add(name)
        self.add_changes()
        self._add_failing(FlowSpec(name=name, target=name, location=self.spec.location), error)

    def add_copy(self, copy: Copy | FailedCopy) -> None:
        """Add a copy with its flows; the flows of a failed copy raise its error."""
        needs_mapping = isinstance(copy, Copy) and any(_NOT_IN_PARQUET & {*name} for name in copy.columns)
        self.registry.isolated.add(copy.target)
        self.registry.datasets.append(
            DatasetSpec(
                name=copy.target,
                kind=DatasetKind.STREAMING_TABLE,
                location=self.spec.location,
                comment=f"Copy of {copy.table} of the connection {self.spec.connection}",
                table_properties=_MAPPED if needs_mapping else (),
            )
        )
        if isinstance(copy, Copy):
            if copy.children:
                lacking = SourceError("DATABASE_CHILD_TABLES", table=copy.table, children=", ".join(copy.children))
                self.registry.lacking[copy.target] = lacking.at(self.spec.location)
            return
        for name, once in ((snapshot_flow_name(copy.target), True), (change_flow_name(copy.target), False)):
            flow = FlowSpec(name=name, target=copy.target, location=self.spec.location, once=once)
            self._add_failing(flow, copy.error)

    def refuse(self, error: SluiceError, state: GatewayState | None) -> None:
        """Add all known datasets of an ingestion whose database can't be read.

        Known are the tables that are declared by name and the tables of the last update. A known table keeps its rows,
        its checkpoints and its state, and does not count as undeclared.

        Args:
            error: why the database can't be read.
            state: the recorded state; None before the first update.
        """
        self.refuse_changes(error)
        taken = {each.name for each in self.registry.datasets}
        for each in self.spec.objects:
            named = (
                () if each.source_table is None else (TableName(schema=each.source_schema, table=each.source_table),)
            )
            for name in named or known_tables_of(state, each):
                target = target_of(each, name, catalog=self.registry.catalog, schema=self.registry.schema)
                if target not in taken:
                    taken.add(target)
                    self.add_copy(FailedCopy(table=name, target=target, error=error))

    def _add_failing(self, flow: FlowSpec, error: SluiceError) -> None:
        def fail() -> DataFrame:
            raise error

        self.registry.flows.append(flow)
        self.registry.queries[flow.name] = fail


def _known_tables(each: IngestedObject, state: GatewayState | None) -> tuple[TableName, ...]:
    if each.source_table is not None:
        return (TableName(schema=each.source_schema, table=each.source_table),)
    return known_tables_of(state, each)


def known_tables_of(state: GatewayState | None, each: IngestedObject) -> tuple[TableName, ...]:
    """Return the tables of a source schema in the last update that match an object of the ingestion."""
    tables = () if state is None else state.gateway.tables
    names = (TableName(schema=table.source_schema, table=table.source_table) for table in tables)
    return tuple(name for name in names if name.schema == each.source_schema and takes_table(each, name))
