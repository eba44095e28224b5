"""Drops tables that the code no longer declares, and reports what databases still keep for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from framework.declare.specs import IngestedGateway
from framework.foundation.errors import SluiceError
from framework.ingest.connections import gateway_facts
from framework.ingest.state import GatewayStore
from framework.operations.pipeline_port import PipelinePort
from framework.run.tables.left_tables import LeftTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftPosition:
    """A log position at a database that no ingestion uses any more, but for which the database retains its log.

    Args:
        connection: the name of the connection to the database.
        noun: the database's term for such a position, such as a slot.
        name: the name of the position.
        statement: the statement that drops it at the database.
    """

    connection: str
    noun: str
    name: str
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The result of dropping tables.

    Args:
        dropped: the dropped tables.
        kept: the kept tables, which are declared again or were written to.
        warnings: names of dropped tables that may still be in their catalogs.
        positions: positions at databases that no ingestion uses any more.
    """

    dropped: tuple[LeftTable, ...]
    kept: tuple[LeftTable, ...]
    warnings: tuple[SluiceError, ...]
    positions: tuple[LeftPosition, ...]


def prune(pipeline: PipelinePort, left: Sequence[LeftTable]) -> PruneReport:
    """Drop tables that the code no longer declares.

    Args:
        pipeline: the pipeline.
        left: some of its `left_tables()`.

    Raises:
        SluiceError: as of `Pipeline.prune`.
    """
    dropped = pipeline.prune(left)
    names = {table.name for table in dropped}
    gateways = (state.gateway for state in GatewayStore(pipeline.storage).read_all())
    return PruneReport(
        dropped=dropped,
        kept=tuple(table for table in left if table not in dropped),
        warnings=tuple(table.left_entry for table in dropped if table.left_entry is not None),
        positions=tuple(_left_positions(gateway for gateway in gateways if gateway.changes in names)),
    )


def _left_positions(gateways: Iterable[IngestedGateway]) -> Iterator[LeftPosition]:
    for gateway in gateways:
        facts = gateway_facts(gateway)
        if facts.drop_statement:
            yield LeftPosition(
                connection=gateway.connection,
                noun=facts.position_noun,
                name=gateway.position_name,
                statement=facts.drop_statement.format(position=gateway.position_name, tables=gateway.table_list),
            )
