"""AUTO CDC from snapshots: `create_auto_cdc_from_snapshot_flow`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from framework.declare.interface.auto_cdc_arguments import read_history, read_keys, read_scd_type, read_soft_deletes
from framework.declare.interface.call import Call, declaration
from framework.declare.interface.queries import display_name, required_parameters
from framework.declare.registry import SnapshotFunction, active_registry
from framework.declare.specs import AutoCdcSpec, FlowSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@declaration
def create_auto_cdc_from_snapshot_flow(
    target: str,
    source: str | SnapshotFunction | tuple[DataFrame, Any],
    keys: list[str] | list[Column] | tuple[str | Column, ...],
    stored_as_scd_type: int | str | None = None,
    *,
    track_history_column_list: list[str] | list[Column] | tuple[str | Column, ...] | None = None,
    track_history_except_column_list: list[str] | list[Column] | tuple[str | Column, ...] | None = None,
    name: str | None = None,
    flow_name: str | None = None,
    once: bool = False,
    soft_deletes: bool | str = False,
) -> None:
    """Declare a flow that compares successive snapshots and applies the changes to `target`.

    Args:
        target: a streaming table, declared with `create_streaming_table`.
        source: a dataset or table with the current snapshot; or a function of the latest applied version
            (None at first) that returns the next snapshot as `(DataFrame, version)`, or None if there is no
            further one. The function is called until it returns None. Or one snapshot, as `(DataFrame, version)`.
        keys: the columns that identify a row, by name.
        stored_as_scd_type: 1 (the default) keeps the latest row of a key, 2 its history; `"1"` and `"2"` too.
        track_history_column_list: SCD type 2 begins a new row when one of these changes.
        track_history_except_column_list: ... when any column but these changes.
        name: the flow's name, needed when several flows write to the target; default: the target's.
        flow_name: an older name of `name`.
        once: the flow runs once per generation.
        soft_deletes: ours, not Databricks': a row whose key is missing stays with its last values, and the column
            `__deleted`, or the one with this name, is true (SCD type 1 only).

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    named = target if name is None and flow_name is None else name or flow_name
    call = Call.of("create_auto_cdc_from_snapshot_flow", flow=named)
    call.exclusive(name=name, flow_name=flow_name)
    scd_type = read_scd_type(call, stored_as_scd_type)
    flow = FlowSpec(
        name=call.qualified("name", named),
        target=call.qualified("target", target),
        location=call.location,
        once=call.flag("once", once),
        source=_source_name(call, source),
        # Snapshots have no sequence column: their version is the sequence.
        cdc=AutoCdcSpec(
            keys=read_keys(call, keys),
            sequence_by="",
            scd_type=scd_type,
            track_history=read_history(call, scd_type, track_history_column_list, track_history_except_column_list),
            soft_deletes=read_soft_deletes(call, scd_type, soft_deletes),
        ),
        from_snapshots=True,
    )
    registry = active_registry()
    registry.flows.append(flow)
    if isinstance(source, tuple):
        registry.snapshot_functions[flow.name] = functools.partial(_given_once, source)
    elif callable(source):
        registry.snapshot_functions[flow.name] = source


def _given_once(snapshot: tuple[DataFrame, Any], latest: Any) -> tuple[DataFrame, Any] | None:
    """Return the snapshot, unless its version or a later one has been applied."""
    return snapshot if latest is None or snapshot[1] > latest else None


def _source_name(call: Call, source: str | Callable[..., Any] | tuple[Any, ...] | None) -> str | None:
    """Return the source's name; None if it is a function of one argument, or a snapshot."""
    if source is None:
        raise call.fault("AUTOCDC_MISSING_SOURCE")
    if isinstance(source, tuple) and len(source) == len(("frame", "version")):
        return None
    if isinstance(source, str):
        return call.text("source", source)
    if not callable(source):
        call.wrong_type("source", source, "a dataset name or a function with one parameter, the latest version")
    if len(required_parameters(source)) > 1:
        call.wrong_value("source", display_name(source), "a function with one parameter, the latest version")
    return None
