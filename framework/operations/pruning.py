"""Dropping the tables that the code no longer declares, and what their databases keep for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.declare.specs import IngestedGateway
from framework.foundation.errors import SluiceError
from framework.ingest.state import GatewayStore
from framework.operations.pipeline_port import PipelinePort
from framework.run.tables.left_tables import LeftTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The tables that were to be dropped.

    Args:
        dropped: those that are dropped.
        kept: those that are declared again, or were written to.
        warnings: names of dropped tables that their catalogs may still have.
        gateways: those whose changes nothing reads any more: their databases keep the log for their slots.
    """

    dropped: tuple[LeftTable, ...]
    kept: tuple[LeftTable, ...]
    warnings: tuple[SluiceError, ...]
    gateways: tuple[IngestedGateway, ...]


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
        gateways=tuple(gateway for gateway in gateways if gateway.changes in names),
    )
