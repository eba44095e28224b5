"""The checks of a flow's rows that are not expectations of its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.cdc.analysis.target_schema import CdcTarget
from framework.cdc.events.faults import event_faults
from framework.cdc.events.normalize import upsert_predicate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from framework.declare.specs import FlowSpec
    from framework.graph.graph import GraphDataset


def checked_rows(flow: FlowSpec) -> str:
    """Return an SQL condition for the rows that expectations check: all appended rows, the upserts of AUTO CDC."""
    return "true" if flow.cdc is None else upsert_predicate(flow.cdc)


def faults_of(rows: DataFrame, flow: FlowSpec, target: GraphDataset) -> dict[str, Column]:
    """Return, per condition, whether a row of an AUTO CDC source is an invalid event; {} for an append flow."""
    if flow.cdc is None or target.cdc is None:
        return {}
    return event_faults(rows, flow.cdc, CdcTarget.of(target.cdc), literal=flow.name in target.cdc.literal_flows)
