"""Validation of the arguments that all AUTO CDC flows share, and their conversion to one frozen spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from framework.declare.interface.call import Call
from framework.declare.interface.expressions import column_names, optional_row_expression, row_expression
from framework.declare.specs import AutoCdcSpec, ColumnSelection

if TYPE_CHECKING:
    from pyspark.sql import Column

ColumnList = list[str] | list["Column"] | tuple["str | Column", ...] | None

SOFT_DELETES = "__deleted"
"""The default name of the column that flags deleted rows."""

_SCD_TYPES = {"1": 1, "2": 2}


class HistoryArguments(TypedDict, total=False):
    """The arguments shared by all flows of change events and of their initial state.

    Args:
        where: a filter; only events for which it is true are applied.
        column_list: the columns of the target.
        except_column_list: the source's columns that the target does not have.
        stored_as_scd_type: 1 (the default) keeps the latest row of a key, 2 its history; `"1"` and `"2"` too.
        track_history_column_list: SCD type 2 begins a new row when one of these changes.
        track_history_except_column_list: ... when any column but these changes.
    """

    where: str | Column | None
    column_list: ColumnList
    except_column_list: ColumnList
    stored_as_scd_type: int | str | None
    track_history_column_list: ColumnList
    track_history_except_column_list: ColumnList


class CdcArguments(HistoryArguments, total=False):
    """The arguments shared by all flows of change events.

    Args:
        ignore_null_updates: a null in an event means "not authored" and leaves the target's value.
        ignore_null_updates_column_list: ... in these columns only.
        ignore_null_updates_except_column_list: ... in all columns but these.
        apply_as_deletes: events for which this is true delete their key's row.
        apply_as_truncates: events for which this is true clear the table of older rows (SCD type 1 only).
        columns_to_update: a column with the names of the columns that the event authors.
        soft_deletes: ours, not Databricks': a deleted row stays with its last values, and the column `__deleted`, or
            the one with this name, is true (SCD type 1 only). It holds for all flows of the target.
    """

    ignore_null_updates: bool
    ignore_null_updates_column_list: ColumnList
    ignore_null_updates_except_column_list: ColumnList
    apply_as_deletes: str | Column | None
    apply_as_truncates: str | Column | None
    columns_to_update: str | Column | None
    soft_deletes: bool | str


def read_cdc(call: Call, keys: object, sequence_by: str | Column, given: Mapping[str, Any]) -> AutoCdcSpec:
    """Return the spec for the arguments of an AUTO CDC flow; `given` has some of `CdcArguments`.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for the first invalid argument.
    """
    scd_type = read_scd_type(call, given.get("stored_as_scd_type"))
    spec = AutoCdcSpec(
        keys=read_keys(call, keys),
        sequence_by=read_sequence(call, sequence_by),
        where=optional_row_expression(call, "where", given.get("where")),
        ignore_null_updates=_nulls_ignored(
            call,
            given.get("ignore_null_updates"),
            given.get("ignore_null_updates_column_list"),
            given.get("ignore_null_updates_except_column_list"),
        ),
        apply_as_deletes=optional_row_expression(call, "apply_as_deletes", given.get("apply_as_deletes")),
        apply_as_truncates=optional_row_expression(call, "apply_as_truncates", given.get("apply_as_truncates")),
        columns=_columns(call, given.get("column_list"), given.get("except_column_list")),
        columns_to_update=_single_column(call, "columns_to_update", given.get("columns_to_update")),
        scd_type=scd_type,
        track_history=read_history(
            call, scd_type, given.get("track_history_column_list"), given.get("track_history_except_column_list")
        ),
        soft_deletes=read_soft_deletes(call, scd_type, given.get("soft_deletes")),
    )
    if spec.apply_as_truncates is not None and scd_type == 2:
        raise call.fault("AUTOCDC_NEEDS_SCD_TYPE", argument="apply_as_truncates", needed=1, actual=2)
    return spec


def read_keys(call: Call, keys: object) -> tuple[str, ...]:
    """Return the names of the key columns, at least one.

    Raises:
        UserError: AUTOCDC_EMPTY_KEYS, or as for `column_names`.
    """
    if keys is None:
        raise call.fault("AUTOCDC_EMPTY_KEYS")
    names = column_names(call, "keys", keys)
    if not names:
        raise call.fault("AUTOCDC_EMPTY_KEYS")
    return names


def read_sequence(call: Call, sequence_by: str | Column | None) -> str:
    """Return the sequence as SQL text.

    Raises:
        UserError: AUTOCDC_MISSING_SEQUENCE_BY, or as for `row_expression`.
    """
    if sequence_by is None or (isinstance(sequence_by, str) and not sequence_by.strip()):
        raise call.fault("AUTOCDC_MISSING_SEQUENCE_BY")
    return row_expression(call, "sequence_by", sequence_by)


def read_scd_type(call: Call, value: object) -> int:
    """Return the SCD type, 1 or 2, from a number or text; 1 by default.

    Raises:
        UserError: INVALID_ARGUMENT.VALUE for any other value.
    """
    if value is None:
        return 1
    scd_type = None if isinstance(value, bool) else _SCD_TYPES.get(str(value))
    if scd_type is None:
        call.wrong_value("stored_as_scd_type", value, "1 or 2")
    return scd_type


def read_history(call: Call, scd_type: int, tracked: object, untracked: object) -> ColumnSelection:
    """Return the columns with which SCD type 2 begins a new row when they change.

    Raises:
        UserError: INVALID_ARGUMENT.BOTH, or AUTOCDC_NEEDS_SCD_TYPE for a target of type 1.
    """
    call.exclusive(track_history_column_list=tracked, track_history_except_column_list=untracked)
    argument = "track_history_column_list" if tracked is not None else "track_history_except_column_list"
    listed = tracked if tracked is not None else untracked
    if listed is None:
        return ColumnSelection()
    if scd_type == 1:
        raise call.fault("AUTOCDC_NEEDS_SCD_TYPE", argument=argument, needed=2, actual=1)
    return ColumnSelection(columns=column_names(call, argument, listed), excluded=tracked is None)


def read_soft_deletes(call: Call, scd_type: int, value: object) -> str | None:
    """Return the name of the column that flags deleted rows, which are kept; None if they are removed.

    Raises:
        UserError: INVALID_ARGUMENT.*, or AUTOCDC_NEEDS_SCD_TYPE for a target of type 2, which keeps deleted rows
            anyway.
    """
    name = flag_column(call, "soft_deletes", value)
    if name is not None and scd_type != 1:
        raise call.fault("AUTOCDC_NEEDS_SCD_TYPE", argument="soft_deletes", needed=1, actual=scd_type)
    return name


def flag_column(call: Call, argument: str, value: object) -> str | None:
    """Return the name of a column that flags deleted rows: True stands for `__deleted`, False for None.

    Raises:
        UserError: INVALID_ARGUMENT.* for any other value.
    """
    if value is None or value is False:
        return None
    if value is not True and not isinstance(value, str):
        call.wrong_type(argument, value, "True, False or the name of a column")
    return SOFT_DELETES if value is True else call.column_name(argument, call.text(argument, value))


def _columns(call: Call, included: object, excluded: object) -> ColumnSelection:
    """Return the columns of the target."""
    if included is not None and excluded is not None:
        raise call.fault(
            "AUTOCDC_BOTH_COLUMN_LIST_AND_EXCEPT_COLUMN_LIST",
            parameter="column_list",
            except_parameter="except_column_list",
        )
    if included is not None:
        return ColumnSelection(columns=column_names(call, "column_list", included))
    if excluded is not None:
        return ColumnSelection(columns=column_names(call, "except_column_list", excluded), excluded=True)
    return ColumnSelection()


def _nulls_ignored(call: Call, everywhere: object, included: object, excluded: object) -> ColumnSelection | None:
    """Return the columns in which null means "not authored"; a column list works with or without the flag."""
    call.exclusive(
        ignore_null_updates_column_list=included,
        ignore_null_updates_except_column_list=excluded,
    )
    if included is not None:
        return ColumnSelection(columns=column_names(call, "ignore_null_updates_column_list", included))
    if excluded is not None:
        names = column_names(call, "ignore_null_updates_except_column_list", excluded)
        return ColumnSelection(columns=names, excluded=True)
    return ColumnSelection() if call.flag("ignore_null_updates", everywhere) else None


def _single_column(call: Call, argument: str, value: str | Column | None) -> str | None:
    """Return the name of one column, or None."""
    return None if value is None else column_names(call, argument, [value])[0]
