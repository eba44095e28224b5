"""AUTO CDC flows from change events: `create_auto_cdc_flow`, `@auto_cdc_flow` and `@snapshot_flow`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from framework.declare.interface.auto_cdc_arguments import read_cdc
from framework.declare.interface.call import Call, declaration
from framework.declare.interface.flows import full_flow_name, register_query_flow
from framework.declare.interface.queries import QueryDecorator
from framework.declare.registry import QueryFunction, active_registry
from framework.declare.specs import AutoCdcSpec, FlowSpec

if TYPE_CHECKING:
    from pyspark.sql import Column

ColumnList = list[str] | list["Column"] | tuple["str | Column", ...] | None


@declaration
def create_auto_cdc_flow(
    target: str,
    source: str,
    keys: ColumnList,
    sequence_by: str | Column,
    *,
    where: str | Column | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: ColumnList = None,
    ignore_null_updates_except_column_list: ColumnList = None,
    apply_as_deletes: str | Column | None = None,
    apply_as_truncates: str | Column | None = None,
    column_list: ColumnList = None,
    except_column_list: ColumnList = None,
    columns_to_update: str | Column | None = None,
    stored_as_scd_type: int | str | None = None,
    track_history_column_list: ColumnList = None,
    track_history_except_column_list: ColumnList = None,
    name: str | None = None,
    flow_name: str | None = None,
    once: bool = False,
    soft_deletes: bool | str = False,
) -> None:
    """Declare a flow that applies the change events of `source` to the streaming table `target`.

    Args:
        target: a streaming table, declared with `create_streaming_table`.
        source: the dataset or table with the events, read as a stream.
        keys: the columns that identify a row, by name.
        sequence_by: the order of events of one key: a column, an expression or a `struct(...)`.
        where: a filter; only events for which it is true are applied.
        ignore_null_updates: a null in an event means "not authored" and leaves the target's value.
        ignore_null_updates_column_list: ... in these columns only.
        ignore_null_updates_except_column_list: ... in all columns but these.
        apply_as_deletes: events for which this is true delete their key's row.
        apply_as_truncates: events for which this is true clear the table of older rows (SCD type 1 only).
        column_list: the columns of the target.
        except_column_list: the source's columns that the target does not have.
        columns_to_update: a column with the names of the columns that the event authors.
        stored_as_scd_type: 1 (the default) keeps the latest row of a key, 2 its history; `"1"` and `"2"` too.
        track_history_column_list: SCD type 2 begins a new row when one of these changes.
        track_history_except_column_list: ... when any column but these changes.
        name: the flow's name, needed when several flows write to the target; default: the target's.
        flow_name: an older name of `name`.
        once: the flow runs once per generation, on a batch or a streaming source.
        soft_deletes: ours, not Databricks': a deleted row stays with its last values, and the column `__deleted`, or
            the one with this name, is true (SCD type 1 only). It holds for all flows of the target.

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
        cdc=read_cdc(
            call, keys=keys, sequence_by=sequence_by, where=where, ignore_null_updates=ignore_null_updates,
            ignore_null_updates_column_list=ignore_null_updates_column_list,
            ignore_null_updates_except_column_list=ignore_null_updates_except_column_list,
            apply_as_deletes=apply_as_deletes, apply_as_truncates=apply_as_truncates, column_list=column_list,
            except_column_list=except_column_list, columns_to_update=columns_to_update,
            stored_as_scd_type=stored_as_scd_type, track_history_column_list=track_history_column_list,
            track_history_except_column_list=track_history_except_column_list, soft_deletes=soft_deletes,
        ),
    )  # fmt: skip
    active_registry().flows.append(flow)


@declaration
def auto_cdc_flow(
    target: str,
    keys: ColumnList,
    sequence_by: str | Column,
    *,
    where: str | Column | None = None,
    ignore_null_updates: bool = False,
    ignore_null_updates_column_list: ColumnList = None,
    ignore_null_updates_except_column_list: ColumnList = None,
    apply_as_deletes: str | Column | None = None,
    apply_as_truncates: str | Column | None = None,
    column_list: ColumnList = None,
    except_column_list: ColumnList = None,
    columns_to_update: str | Column | None = None,
    stored_as_scd_type: int | str | None = None,
    track_history_column_list: ColumnList = None,
    track_history_except_column_list: ColumnList = None,
    name: str | None = None,
    once: bool = False,
    spark_conf: Mapping[str, str] | None = None,
    comment: str | None = None,
    soft_deletes: bool | str = False,
) -> QueryDecorator:
    """Declare an AUTO CDC flow whose change events are the decorated function's rows.

    The arguments are those of `create_auto_cdc_flow`, without a source; the name defaults to the function's.
    `spark_conf` and `comment` are those of `append_flow`.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    call = Call.of("auto_cdc_flow", flow=name or f"into {target}")
    cdc = read_cdc(
        call, keys=keys, sequence_by=sequence_by, where=where, ignore_null_updates=ignore_null_updates,
        ignore_null_updates_column_list=ignore_null_updates_column_list,
        ignore_null_updates_except_column_list=ignore_null_updates_except_column_list,
        apply_as_deletes=apply_as_deletes, apply_as_truncates=apply_as_truncates, column_list=column_list,
        except_column_list=except_column_list, columns_to_update=columns_to_update,
        stored_as_scd_type=stored_as_scd_type, track_history_column_list=track_history_column_list,
        track_history_except_column_list=track_history_except_column_list, soft_deletes=soft_deletes,
    )  # fmt: skip
    return _query_flow(call, target, cdc, name=name, once=once, spark_conf=spark_conf, comment=comment)


@declaration
def snapshot_flow(
    target: str,
    keys: ColumnList,
    sequence_by: str | Column = "0",
    *,
    where: str | Column | None = None,
    column_list: ColumnList = None,
    except_column_list: ColumnList = None,
    stored_as_scd_type: int | str | None = None,
    track_history_column_list: ColumnList = None,
    track_history_except_column_list: ColumnList = None,
    name: str | None = None,
    spark_conf: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> QueryDecorator:
    """Declare that the decorated function's rows are applied to the target once, as its initial state.

    An AUTO CDC flow with `once=True`. The function may return a batch or a streaming DataFrame; a
    stream is read to its end and resumes after an interruption. The default sequence sorts before all events.

    Args:
        target: a streaming table, declared with `create_streaming_table`.
        keys: the columns that identify a row, by name.
        sequence_by: the sequence of the snapshot's rows; default: before every change event.
        where: a filter; only rows for which it is true are applied.
        column_list: the columns of the target.
        except_column_list: the source's columns that the target does not have.
        stored_as_scd_type: the SCD type of the flow that follows the snapshot.
        track_history_column_list: SCD type 2 begins a new row when one of these changes.
        track_history_except_column_list: ... when any column but these changes.
        name: the flow's name; default: the function's.
        spark_conf: settings of Spark for this flow.
        comment: a description.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for an invalid argument.
    """
    call = Call.of("snapshot_flow", flow=name or f"into {target}")
    cdc = read_cdc(
        call, keys=keys, sequence_by=sequence_by, where=where, column_list=column_list,
        except_column_list=except_column_list, stored_as_scd_type=stored_as_scd_type,
        track_history_column_list=track_history_column_list,
        track_history_except_column_list=track_history_except_column_list,
    )  # fmt: skip
    return _query_flow(call, target, cdc, name=name, once=True, spark_conf=spark_conf, comment=comment)


def _query_flow(
    call: Call, target: str, cdc: AutoCdcSpec, *, name: str | None, once: object, spark_conf: object, comment: object
) -> QueryDecorator:
    """The decorator that registers an AUTO CDC flow whose source is the decorated function."""
    into = call.qualified("target", target)
    call.optional_text("name", name)
    is_once = call.flag("once", once)
    settings = call.pairs("spark_conf", spark_conf)
    description = call.comment(comment)

    def decorate(function: QueryFunction) -> QueryFunction:
        full_name = full_flow_name(call, function, name)
        return register_query_flow(
            call,
            function,
            FlowSpec(
                name=full_name, target=into, location=call.location, once=is_once, spark_conf=settings,
                comment=description, cdc=cdc,
            ),
        )  # fmt: skip

    return decorate
