"""Validation of the arguments that all AUTO CDC flows share, and their conversion to one frozen spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.declare.interface.call import Call
from framework.declare.interface.expressions import column_names, optional_row_expression, row_expression
from framework.declare.specs import AutoCdcSpec, ColumnSelection

if TYPE_CHECKING:
    from pyspark.sql import Column

SOFT_DELETES = "__deleted"
"""The column that flags deleted rows if the declaration does not name another one."""

_SCD_TYPES = {"1": 1, "2": 2}


def read_cdc(
    call: Call,
    *,
    keys: object,
    sequence_by: str | Column,
    where: str | Column | None = None,
    ignore_null_updates: object = False,
    ignore_null_updates_column_list: object = None,
    ignore_null_updates_except_column_list: object = None,
    apply_as_deletes: str | Column | None = None,
    apply_as_truncates: str | Column | None = None,
    column_list: object = None,
    except_column_list: object = None,
    columns_to_update: str | Column | None = None,
    stored_as_scd_type: object = None,
    track_history_column_list: object = None,
    track_history_except_column_list: object = None,
    soft_deletes: object = False,
) -> AutoCdcSpec:
    """Return the spec for the arguments of an AUTO CDC flow.

    Raises:
        UserError: INVALID_ARGUMENT.* or AUTOCDC_* for the first invalid argument.
    """
    scd_type = read_scd_type(call, stored_as_scd_type)
    spec = AutoCdcSpec(
        keys=read_keys(call, keys),
        sequence_by=read_sequence(call, sequence_by),
        where=optional_row_expression(call, "where", where),
        ignore_null_updates=_nulls_ignored(
            call, ignore_null_updates, ignore_null_updates_column_list, ignore_null_updates_except_column_list
        ),
        apply_as_deletes=optional_row_expression(call, "apply_as_deletes", apply_as_deletes),
        apply_as_truncates=optional_row_expression(call, "apply_as_truncates", apply_as_truncates),
        columns=_columns(call, column_list, except_column_list),
        columns_to_update=_single_column(call, "columns_to_update", columns_to_update),
        scd_type=scd_type,
        track_history=read_history(call, scd_type, track_history_column_list, track_history_except_column_list),
        soft_deletes=read_soft_deletes(call, scd_type, soft_deletes),
    )
    if spec.apply_as_truncates is not None and scd_type == 2:
        raise call.fault("AUTOCDC_NEEDS_SCD_TYPE", argument="apply_as_truncates", needed=1, actual=2)
    return spec


def read_keys(call: Call, keys: object) -> tuple[str, ...]:
    """The key columns' names, at least one.

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
    """The sequence as SQL text.

    Raises:
        UserError: AUTOCDC_MISSING_SEQUENCE_BY, or as for `row_expression`.
    """
    if sequence_by is None or (isinstance(sequence_by, str) and not sequence_by.strip()):
        raise call.fault("AUTOCDC_MISSING_SEQUENCE_BY")
    return row_expression(call, "sequence_by", sequence_by)


def read_scd_type(call: Call, value: object) -> int:
    """The SCD type, 1 or 2, from a number or text; 1 by default.

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
    """The columns whose change begins a new row of SCD type 2.

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
    """The name of the column that flags deleted rows, which then stay; None if rows are removed.

    Raises:
        UserError: INVALID_ARGUMENT.*, or AUTOCDC_NEEDS_SCD_TYPE for a target of type 2, whose history has deleted rows.
    """
    name = flag_column(call, "soft_deletes", value)
    if name is not None and scd_type != 1:
        raise call.fault("AUTOCDC_NEEDS_SCD_TYPE", argument="soft_deletes", needed=1, actual=scd_type)
    return name


def flag_column(call: Call, argument: str, value: object) -> str | None:
    """The name of a column that flags deleted rows: True for `__deleted`; None for False.

    Raises:
        UserError: INVALID_ARGUMENT.* for any other value.
    """
    if value is None or value is False:
        return None
    if value is not True and not isinstance(value, str):
        call.wrong_type(argument, value, "True, False or the name of a column")
    return SOFT_DELETES if value is True else call.column_name(argument, call.text(argument, value))


def _columns(call: Call, included: object, excluded: object) -> ColumnSelection:
    """The columns of the target."""
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
    """The columns whose nulls mean "not authored"; a column list has the same effect with or without the flag."""
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
    """The name of one column, or None."""
    return None if value is None else column_names(call, argument, [value])[0]
