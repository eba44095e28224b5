"""The setting whether a flow quarantines rows: its target's property, or else the pipeline's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from framework.declare.quarantine import QUARANTINE, VALUES, quarantine_property
from framework.declare.specs import DatasetKind, ViolationAction
from framework.foundation.errors import UserError

if TYPE_CHECKING:
    from framework.declare.registry import Registry
    from framework.graph.graph import GraphDataset, GraphFlow


def quarantine_by_default(configuration: Mapping[str, str]) -> bool:
    """Return whether a pipeline's tables have a quarantine by default, if they can have one.

    Raises:
        UserError: INVALID_CONFIGURATION.
    """
    text = configuration.get(QUARANTINE, "false")
    value = VALUES.get(text.strip().lower())
    if value is None:
        raise UserError("INVALID_CONFIGURATION", key=QUARANTINE, value=text, expected="true or false")
    return value


def has_quarantine(flow: GraphFlow, dataset: GraphDataset, registry: Registry, *, by_default: bool) -> bool:
    """Return whether a flow quarantines rows; False for a flow that can't drop rows.

    A snapshot contains every existing key, so a row missing from it is a delete, and must not be quarantined. Rows of a
    source database have keys and positions, and no expectations.

    Args:
        flow: the flow.
        dataset: its target.
        registry: the declarations, including those of gateways.
        by_default: the setting for a target without the property.
    """
    if dataset.kind is not DatasetKind.STREAMING_TABLE or flow.spec.from_snapshots:
        return False
    text = quarantine_property(dataset.spec)
    if not (by_default if text is None else VALUES[text]):
        return False
    if any(each.action is ViolationAction.DROP for each in dataset.spec.expectations):
        return True
    copies = [each for gateway in registry.gateways for each in gateway.tables]
    is_copy = any(flow.spec.name in {each.snapshot_flow, each.cdc_flow} for each in copies)
    return flow.spec.cdc is not None and not is_copy
