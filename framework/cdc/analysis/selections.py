"""Selections of the parts of a row that a flow's events author."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructField, StructType

from framework.cdc.analysis.flow_input import CdcInput
from framework.cdc.model.authorship import Leaf
from framework.cdc.model.columns import bare_name, match_field
from framework.cdc.model.reserved_names import AUTHORS, HIDDEN_COLUMN
from framework.declare.specs import AutoCdcSpec, ColumnSelection


def ignores_null(selection: ColumnSelection | None, leaf: Leaf) -> bool:
    """Return whether a null in this leaf means "not authored"; a name selects a column or field and all within it."""
    if selection is None:
        return False
    if selection.columns is None:
        return True
    return leaf.is_within([bare_name(name) for name in selection.columns]) is not selection.excluded


def authors_parts(spec: AutoCdcSpec) -> bool:
    """Return whether the flow's events may author only parts of a row."""
    return spec.ignore_null_updates is not None or spec.columns_to_update is not None


def split_columns(
    inputs: Sequence[CdcInput], values: Sequence[StructField], stored: StructType | None
) -> tuple[str, ...] | None:
    """Return the columns whose fields have separate authors; None if rows have one author.

    A table that stores authors keeps doing so, even if no flow needs them any more: late events may still fill leaves
    that older events did not write.
    """
    authors = _stored_authors(stored)
    if authors is None and not any(authors_parts(flow.spec) for flow in inputs):
        return None
    structs = [field.name for field in values if isinstance(field.dataType, StructType)]
    selections = [flow.spec.ignore_null_updates for flow in inputs]
    return tuple(
        name
        for name in structs
        if any(_touches(selection, name) for selection in selections)
        or any(author.startswith(f"{name}/") for author in authors or ())
    )


def _stored_authors(stored: StructType | None) -> list[str] | None:
    hidden = None if stored is None else match_field(stored, HIDDEN_COLUMN)
    if hidden is None or not isinstance(hidden.dataType, StructType):
        return None
    field = match_field(hidden.dataType, AUTHORS)
    return list(field.dataType.fieldNames()) if field is not None and isinstance(field.dataType, StructType) else None


def _touches(selection: ColumnSelection | None, name: str) -> bool:
    """Return whether nulls are ignored in some part of the column."""
    if selection is None:
        return False
    if selection.columns is None or selection.excluded:
        return selection.columns is None or name.lower() not in {bare_name(n).lower() for n in selection.columns}
    return name.lower() in {bare_name(column).split(".")[0].replace("`", "").lower() for column in selection.columns}
