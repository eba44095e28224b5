"""The rules for a single AUTO CDC flow: one function per rule, which yields the violations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from pyspark.errors import AnalysisException
from pyspark.sql.types import ArrayType, BooleanType, DataType, NullType, StringType, StructField, StructType

from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.model.columns import bare_name, find_field, has_void, missing_names, repeated_names
from framework.cdc.model.equality import is_orderable, unstorable_part
from framework.cdc.model.reserved_names import FILE_METADATA, RESERVED_PREFIX
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import UserError
from framework.foundation.nearest import nearest_hint

Rule = Callable[[CdcInput], Iterator[UserError]]


def keys_are_named(flow: CdcInput) -> Iterator[UserError]:
    """There is at least one key, and each key is named once."""
    if not flow.spec.keys:
        yield flow.fault("AUTOCDC_EMPTY_KEYS")
    folded = [bare_name(key).lower() for key in flow.spec.keys]
    for key in sorted({key for key in folded if folded.count(key) > 1}):
        yield flow.fault("AUTOCDC_DUPLICATE_KEYS", key=key)


def columns_are_known(flow: CdcInput) -> Iterator[UserError]:
    """Every column that a parameter names is a column of the source."""
    spec = flow.spec
    nulls = spec.ignore_null_updates or ColumnSelection()
    lists = {
        "keys": spec.keys,
        "except_column_list" if spec.columns.excluded else "column_list": spec.columns.columns or (),
        _listed("ignore_null_updates", nulls): tuple(_root(flow, name) for name in nulls.columns or ()),
        _listed("track_history", spec.track_history): spec.track_history.columns or (),
        "columns_to_update": (spec.columns_to_update,) if spec.columns_to_update else (),
    }
    for parameter, names in lists.items():
        missing = missing_names(flow.source.schema, names)
        if missing:
            yield _unknown_columns(flow, parameter, missing)


def _listed(parameter: str, selection: ColumnSelection) -> str:
    return f"{parameter}_except_column_list" if selection.excluded else f"{parameter}_column_list"


def _root(flow: CdcInput, name: str) -> str:
    """Return the column that a name refers to; the name may be a dotted path into it."""
    if name.startswith("`") or find_field(flow.source.schema, name) is not None:
        return name
    return name.split(".", maxsplit=1)[0]


def listed_columns_are_selected(flow: CdcInput) -> Iterator[UserError]:
    """Columns listed for ignored nulls or tracked history are columns of the target; tracked columns are not keys."""
    spec = flow.spec
    nulls, history = spec.ignore_null_updates or ColumnSelection(), spec.track_history
    selected = StructType(list(flow.selected))
    lists = {
        _listed("ignore_null_updates", nulls): tuple(_root(flow, name) for name in nulls.columns or ()),
        _listed("track_history", history): history.columns or (),
    }
    for parameter, names in lists.items():
        known = [name for name in names if find_field(flow.source.schema, name) is not None]
        hidden = missing_names(selected, known)
        if hidden:
            yield _misplaced(flow, parameter, hidden, "which the flow does not select")
    folded = {bare_name(key).lower() for key in spec.keys}
    keys = tuple(name for name in history.columns or () if bare_name(name).lower() in folded)
    if keys:
        yield _misplaced(
            flow,
            _listed("track_history", history),
            keys,
            "a key column, whose value never changes within the history of a row",
        )


def _misplaced(flow: CdcInput, parameter: str, names: tuple[str, ...], reason: str) -> UserError:
    return flow.fault("AUTOCDC_COLUMN_MISPLACED", parameter=parameter, columns=", ".join(names), reason=reason)


def _unknown_columns(flow: CdcInput, parameter: str, missing: tuple[str, ...]) -> UserError:
    advice = nearest_hint(bare_name(missing[0]), flow.source.columns).strip()
    return flow.fault(
        "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA",
        parameter=parameter,
        missing=", ".join(missing),
        available=", ".join(flow.source.columns),
        advice=advice or f"Correct `{parameter}`, or add the column to the source.",
    )


def keys_are_selected(flow: CdcInput) -> Iterator[UserError]:
    """A column list keeps every key of the source."""
    selected = {field.name.lower() for field in flow.selected}
    known = [key for key in flow.spec.keys if find_field(flow.source.schema, key) is not None]
    lost = [key for key in known if bare_name(key).lower() not in selected]
    if lost:
        yield flow.fault("AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA", keys=", ".join(lost))


def keys_are_comparable(flow: CdcInput) -> Iterator[UserError]:
    """Keys have types whose values Spark can compare, and no NULL type."""
    for key in flow.spec.keys:
        field = find_field(flow.source.schema, key)
        if field is not None and not _can_be_key(field):
            yield flow.fault("AUTOCDC_KEY_TYPE", key=key, type=field.dataType.simpleString())


def _can_be_key(field: StructField) -> bool:
    return is_orderable(field.dataType) and not has_void(field.dataType)


def names_are_distinct(flow: CdcInput) -> Iterator[UserError]:
    """Selected columns, and the fields of each, have names that differ in more than case."""
    repeated = repeated_names(StructType(list(flow.selected)))
    if repeated:
        yield flow.fault("AUTOCDC_AMBIGUOUS_COLUMNS", columns=", ".join(repeated))


def columns_are_storable(flow: CdcInput) -> Iterator[UserError]:
    """A Delta table can store the selected columns; `keys_are_comparable` reports keys of invalid types."""
    keys = {bare_name(key).lower() for key in flow.spec.keys}
    for field in flow.selected:
        part = unstorable_part(field.dataType)
        if part is not None and (field.name.lower() not in keys or _can_be_key(field)):
            yield flow.fault(
                "AUTOCDC_COLUMN_TYPE", column=field.name, type=field.dataType.simpleString(), part=part.simpleString()
            )


def names_are_free(flow: CdcInput) -> Iterator[UserError]:
    """No selected column, and no flag of deletes, has a name that is reserved for AUTO CDC."""
    taken = {"__start_at", "__end_at"} if flow.spec.scd_type == 2 else set()
    for name in _written_names(flow):
        if name.lower().startswith(RESERVED_PREFIX) or name.lower() in taken:
            yield flow.fault("AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT", column=name)


def _written_names(flow: CdcInput) -> list[str]:
    flag = flow.spec.soft_deletes
    return [*(field.name for field in flow.selected), *(() if flag is None else (flag,))]


def conditions_are_boolean(flow: CdcInput) -> Iterator[UserError]:
    """`where` and the `apply_as` conditions are boolean functions of the row."""
    for parameter, expression in row_conditions(flow.spec).items():
        data_type = yield from _row_type(flow, parameter, expression)
        if data_type is not None and not isinstance(data_type, BooleanType | NullType):
            yield flow.fault(
                "AUTOCDC_CONDITION_NOT_BOOLEAN",
                parameter=parameter,
                expression=expression,
                type=data_type.simpleString(),
            )


def row_conditions(spec: AutoCdcSpec) -> dict[str, str]:
    """Return the conditions that a flow declares, by parameter."""
    conditions = {
        "where": spec.where,
        "apply_as_deletes": spec.apply_as_deletes,
        "apply_as_truncates": spec.apply_as_truncates,
    }
    return {parameter: expression for parameter, expression in conditions.items() if expression is not None}


def _row_type(flow: CdcInput, parameter: str, expression: str) -> Generator[UserError, None, DataType | None]:
    """Return the type of an expression; yield its fault and return None if it is invalid."""
    try:
        analysed = flow.analyse(expression)
    except AnalysisException as error:
        yield _invalid_expression(flow, parameter, expression, error)
        return None
    if analysed.dependency is None:
        return analysed.data_type
    yield flow.fault(
        "AUTOCDC_EXPRESSION_NOT_OF_ROW", parameter=parameter, expression=expression, dependency=analysed.dependency
    )
    return None


def sequence_is_orderable(flow: CdcInput) -> Iterator[UserError]:
    """`sequence_by` is a function of the row with orderable values; flows from snapshots use versions instead."""
    if flow.versions is not None:
        return
    expression = flow.spec.sequence_by
    if not expression:
        yield flow.fault("AUTOCDC_MISSING_SEQUENCE_BY")
        return
    data_type = yield from _row_type(flow, "sequence_by", expression)
    if data_type is not None and (not is_orderable(data_type) or has_void(data_type)):
        yield flow.fault("AUTOCDC_MICROBATCH_VALIDATION.NON_ORDERABLE_SEQUENCE", type=data_type.simpleString())
    elif data_type is not None and unstorable_part(data_type) is not None:
        yield flow.fault("AUTOCDC_SEQUENCE_TYPE", type=data_type.simpleString())


def _invalid_expression(flow: CdcInput, parameter: str, expression: str, error: AnalysisException) -> UserError:
    return flow.fault(
        "AUTOCDC_EXPRESSION_INVALID",
        parameter=parameter,
        expression=expression,
        reason=error.getCondition() or str(error).splitlines()[0],
        available=", ".join(flow.source.columns),
    )


def updated_columns_are_listed(flow: CdcInput) -> Iterator[UserError]:
    """`columns_to_update` names a column of lists of names."""
    name = flow.spec.columns_to_update
    field = None if name is None else find_field(flow.source.schema, name)
    if field is not None and not (
        isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, StringType)
    ):
        yield flow.fault("AUTOCDC_COLUMNS_TO_UPDATE_TYPE", column=field.name, type=field.dataType.simpleString())


def parameters_fit_the_scd_type(flow: CdcInput) -> Iterator[UserError]:
    """Truncates and soft deletes require SCD type 1, and tracked history requires type 2."""
    spec = flow.spec
    misplaced = {
        "apply_as_truncates": (1, spec.apply_as_truncates is not None),
        "soft_deletes": (1, spec.soft_deletes is not None),
        "track_history_column_list": (2, spec.track_history.columns is not None),
    }
    for parameter, (needed, used) in misplaced.items():
        if used and needed != spec.scd_type:
            yield flow.fault("AUTOCDC_NEEDS_SCD_TYPE", argument=parameter, needed=needed, actual=spec.scd_type)


def names_are_not_those_of_files(flow: CdcInput) -> Iterator[UserError]:
    """No selected column, and no flag of deletes, has the name of Spark's file metadata.

    If a file has a deletion vector, Delta and every reader of the target look for row numbers in a column of this name.
    """
    for name in _written_names(flow):
        if name.lower() == FILE_METADATA:
            yield flow.fault("AUTOCDC_FILE_METADATA_COLUMN", column=name)


RULES: tuple[Rule, ...] = (
    parameters_fit_the_scd_type,
    keys_are_named,
    columns_are_known,
    keys_are_selected,
    keys_are_comparable,
    listed_columns_are_selected,
    names_are_distinct,
    columns_are_storable,
    names_are_free,
    names_are_not_those_of_files,
    conditions_are_boolean,
    sequence_is_orderable,
    updated_columns_are_listed,
)


def check_flow(flow: CdcInput) -> Iterator[UserError]:
    """Yield all faults of one flow, in the order of the rules."""
    for rule in RULES:
        yield from rule(flow)


def check_expressions(flow: CdcInput) -> Iterator[UserError]:
    """Yield the faults of a flow's expressions over the rows of its source."""
    yield from conditions_are_boolean(flow)
    yield from sequence_is_orderable(flow)
