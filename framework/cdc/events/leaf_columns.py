"""The columns that hold the leaves of an authored target in a batch's DataFrames.

Each leaf has its own flat columns: its value, the order of its author, and whether an event wrote it. Structs are split
once, where rows are read, and rebuilt once, where rows are written. Catalyst copies the expression of a struct into
each field that is extracted from it, so a plan that splits and rebuilds structs at each step grows exponentially.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from framework.cdc.model.authorship import assemble, kept_authors
from framework.cdc.model.columns import align_column, column, match_field
from framework.cdc.model.reserved_names import HIDDEN_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from framework.cdc.analysis.target_schema import CdcTarget
    from framework.cdc.model.authorship import Leaf

_VALUE = "__sluice_value"
_AUTHOR = "__sluice_author"
_WROTE = "__sluice_wrote"


def value_names(target: CdcTarget) -> list[str]:
    """Return the columns with an event's values: the leaves of an authored target, else the target's value columns."""
    if target.is_authored:
        return numbered(_VALUE, target)
    return [field.name for field in target.value_fields]


def author_names(target: CdcTarget) -> list[str]:
    """Return the columns with the orders of the leaves' authors; their value is null if no event wrote the leaf."""
    return numbered(_AUTHOR, target)


def wrote_names(target: CdcTarget) -> list[str]:
    """Return the columns that flag which leaves an event wrote; empty for a target without authors."""
    return numbered(_WROTE, target) if target.is_authored else []


def event_names(target: CdcTarget) -> list[str]:
    """Return the columns of an event that depend on the target: keys, values, and flags of the written leaves."""
    return [*target.keys, *value_names(target), *wrote_names(target)]


def numbered(prefix: str, target: CdcTarget) -> list[str]:
    """Return a name for each leaf."""
    return [f"{prefix}_{index}" for index in range(len(target.leaves))]


def aliased(names: Sequence[str], values: Sequence[Column]) -> list[Column]:
    """Return columns under these names."""
    return [value.alias(name) for name, value in zip(names, values, strict=True)]


def take_leaf(leaf: Leaf, have: StructType, get: Callable[[str], Column]) -> Column:
    """Return the value of a leaf, in its type, from rows with another schema; null if they lack the leaf.

    Args:
        leaf: the leaf.
        have: the schema of the rows.
        get: returns a column of the rows by name.
    """
    value, data_type = F.lit(None), cast("DataType", have)
    for part in leaf.path:
        field = match_field(data_type, part) if isinstance(data_type, StructType) else None
        if field is None:
            return F.lit(None).cast(leaf.data_type)
        value, data_type = get(field.name), field.dataType
        get = value.getField
    return align_column(value, data_type, leaf.data_type)


def flat_row(target: CdcTarget) -> list[Column]:
    """Return the values of the leaves of a target row, then their authors."""
    values = [leaf.of() for leaf in target.leaves]
    return [*values, *kept_authors(column(HIDDEN_COLUMN), target.hidden_type, target.leaves, values)]


def assembled(target: CdcTarget, values: Sequence[Column]) -> dict[str, Column]:
    """Return the value columns of a row from the values of its leaves."""
    leaves = target.leaves
    return {field.name: assemble(field, leaves, values) for field in target.value_fields}
