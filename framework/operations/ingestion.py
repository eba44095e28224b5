"""Operations on the tables that a pipeline copies from databases: checks, and requests of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import UserError
from framework.ingest.operations import GatewayTables, Operations
from framework.ingest.preflight_result import Preflight
from framework.ingest.state import GatewayStore
from framework.ingest.tables.preflight import check_ingestions
from framework.operations.pipeline_port import PipelinePort


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """The object of an operation: a gateway with all its tables, or one of its tables.

    Args:
        has_filter: whether only some rows of the table are reread.
    """

    gateway: IngestedGateway
    table: IngestedTable | None = None
    has_filter: bool = False

    @property
    def name(self) -> str:
        """The name of the table at its source, or of the gateway."""
        return self.gateway.name if self.table is None else str(self.table.source)


def check_databases(pipeline: PipelinePort) -> tuple[Preflight, ...]:
    """Check the databases of a pipeline before any data is read or written there.

    Raises:
        UserError: INGESTION_NONE.
    """
    if not pipeline.ingestions:
        raise UserError("INGESTION_NONE")
    return tuple(check_ingestions(pipeline.ingestions, Path(pipeline.spec.root or ".")))


class GatewayOperator:
    """Operates the gateways of a pipeline: those of its last update, or else those that its code declares.

    A table is given by its source or target name. The gateway name may be omitted if there is only one gateway.
    """

    def __init__(self, pipeline: PipelinePort) -> None:
        states = GatewayStore(pipeline.storage).read_all()
        recorded = tuple(state.gateway for state in states if state.is_declared)
        self._tables = GatewayTables(gateways=recorded or pipeline.gateways)
        self._operations = Operations(storage=pipeline.storage)

    def pause(self, table: str | None, gateway: str | None) -> Operated:
        """Pause the flows of a table, or of a whole gateway."""
        named = self._named(table, gateway)
        self._operations.pause(named.gateway, named.table)
        return named

    def resume(self, table: str | None, gateway: str | None) -> Operated:
        """Resume a table, or a whole gateway."""
        named = self._named(table, gateway)
        self._operations.resume(named.gateway, named.table)
        return named

    def cancel(self, table: str, gateway: str | None) -> Operated:
        """End the snapshot of a table at its current position."""
        return self._changed(self._operations.cancel, table, gateway)

    def skip_snapshot(self, table: str, gateway: str | None) -> Operated:
        """Skip the snapshot of a table."""
        return self._changed(self._operations.skip_snapshot, table, gateway)

    def resync(self, table: str, where: str | None, gateway: str | None) -> Operated:
        """Read a table again; `where` restricts the rows by a condition at the source, if the copy allows that."""
        found, only = self._tables.table(table, gateway)
        request = self._operations.resync(found, only, where)
        return Operated(gateway=found, table=only, has_filter=request.where is not None)

    def resync_all(self, gateway: str | None, *, new_slot: bool) -> Operated:
        """Read all tables of a gateway again; `new_slot` starts at a new position of the database's log."""
        found = self._tables.gateway(gateway)
        if new_slot:
            self._operations.replace_position(found)
        else:
            for each in found.tables:
                self._operations.resync(found, each, None)
        return Operated(gateway=found)

    def _changed(
        self, change: Callable[[IngestedGateway, IngestedTable], object], table: str, gateway: str | None
    ) -> Operated:
        found, only = self._tables.table(table, gateway)
        change(found, only)
        return Operated(gateway=found, table=only)

    def _named(self, table: str | None, gateway: str | None) -> Operated:
        if table is None:
            return Operated(gateway=self._tables.gateway(gateway))
        found, only = self._tables.table(table, gateway)
        return Operated(gateway=found, table=only)
