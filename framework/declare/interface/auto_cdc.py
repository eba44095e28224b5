"""AUTO CDC flows from change events: `create_auto_cdc_flow`, `@auto_cdc_flow` and `@snapshot_flow`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from framework.declare.interface.auto_cdc_arguments import CdcArguments, ColumnList, HistoryArguments, read_cdc
from framework.declare.interface.call import Call, declaration
from framework.declare.interface.flows import query_flow
from framework.declare.interface.queries import QueryDecorator
from framework.declare.registry import active_registry
from framework.declare.specs import FlowSpec

if TYPE_CHECKING:
    from pyspark.sql import Column


@declaration
def create_auto_cdc_flow(
    target: str,
    source: str,
    keys: ColumnList,
    sequence_by: str | Column,
    *,
    name: str | None = None,
    flow_name: str | None = None,
    once: bool = False,
    **arguments: Unpack[CdcArguments],
) -> None:
    """Declare a flow that applies the change events of `source` to the streaming table `target`.

    Args:
        target: a streaming table, declared with `create_streaming_table`.
        source: the dataset or table with the events, read as a stream.
        keys: the columns that identify a row, by name.
        sequence_by: the order of events of one key: a column, an expression or a `struct(...)`.
        name: the flow's name, needed when several flows write to the target; default: the target's.
        flow_name: an older name of `name`.
        once: the flow runs once per generation, on a batch or a streaming source.
        **arguments: as described in `CdcArguments` and `HistoryArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    named = target if name is None and flow_name is None else name or flow_name
    call = Call.of("create_auto_cdc_flow", flow=named)
    call.exclusive(name=name, flow_name=flow_name)
    if source is None:
        raise call.fault("AUTOCDC_MISSING_SOURCE")
    flow = FlowSpec(
        name=call.qualified("name", named),
        target=call.qualified("target", target),
        location=call.location,
        once=call.flag("once", once),
        source=call.text("source", source),
        cdc=read_cdc(call, keys, sequence_by, arguments),
    )
    active_registry().flows.append(flow)


@declaration
def auto_cdc_flow(
    target: str,
    keys: ColumnList,
    sequence_by: str | Column,
    *,
    name: str | None = None,
    once: bool = False,
    spark_conf: Mapping[str, str] | None = None,
    comment: str | None = None,
    **arguments: Unpack[CdcArguments],
) -> QueryDecorator:
    """Declare an AUTO CDC flow with the decorated function's rows as its change events.

    The arguments are those of `create_auto_cdc_flow` without `source`; the name defaults to the function's.
    For `spark_conf` and `comment`, see `append_flow`.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    call = Call.of("auto_cdc_flow", flow=name or f"into {target}")
    cdc = read_cdc(call, keys, sequence_by, arguments)
    return query_flow(call, target, cdc, name=name, once=once, spark_conf=spark_conf, comment=comment)


@declaration
def snapshot_flow(
    target: str,
    keys: ColumnList,
    sequence_by: str | Column = "0",
    *,
    name: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    comment: str | None = None,
    **arguments: Unpack[HistoryArguments],
) -> QueryDecorator:
    """Declare a flow that applies the decorated function's rows to the target once, as its initial state.

    It is an AUTO CDC flow with `once=True`. The function may return a batch or a streaming DataFrame. A stream is read
    to its end, and resumes after an interruption. The default sequence sorts before all events.

    Args:
        target: a streaming table, declared with `create_streaming_table`.
        keys: the columns that identify a row, by name.
        sequence_by: the sequence of the snapshot's rows; default: before every change event.
        name: the flow's name; default: the function's.
        spark_conf: settings of Spark for this flow.
        comment: a description.
        **arguments: as described in `HistoryArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    call = Call.of("snapshot_flow", flow=name or f"into {target}")
    cdc = read_cdc(call, keys, sequence_by, arguments)
    return query_flow(call, target, cdc, name=name, once=True, spark_conf=spark_conf, comment=comment)
