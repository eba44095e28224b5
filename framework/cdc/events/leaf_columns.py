"""The columns in which the leaves of an authored target go through a batch's frames.

Each leaf has flat columns of its own: its value, the order of its author, and whether an event wrote
it. Structs are taken apart once, where rows are read, and put together once, where rows are written.
Catalyst copies the expression of a struct into each field that is taken from it, so a plan that takes
structs apart and puts them together at each step grows exponentially.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from framework.cdc.model.authorship import assemble, kept_authors
from framework.cdc.model.columns import align_column, column, find_field
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
    """Columns with the values of an event: the leaves of an authored target, else the target's own."""
    if target.is_authored:
        return numbered(_VALUE, target)
    return [field.name for field in target.value_fields]


def author_names(target: CdcTarget) -> list[str]:
    """Columns with the orders of the leaves' authors; null where nobody wrote the leaf."""
    return numbered(_AUTHOR, target)


def wrote_names(target: CdcTarget) -> list[str]:
    """Columns with whether an event wrote the leaves; none for a target without authors."""
    return numbered(_WROTE, target) if target.is_authored else []


def event_names(target: CdcTarget) -> list[str]:
    """The columns of an event that depend on the target: keys, values, and which leaves it wrote."""
    return [*target.keys, *value_names(target), *wrote_names(target)]


def numbered(prefix: str, target: CdcTarget) -> list[str]:
    """A name for each leaf."""
    return [f"{prefix}_{index}" for index in range(len(target.leaves))]


def aliased(names: Sequence[str], values: Sequence[Column]) -> list[Column]:
    """Columns under names."""
    return [value.alias(name) for name, value in zip(names, values, strict=True)]


def take_leaf(leaf: Leaf, have: StructType, get: Callable[[str], Column]) -> Column:
    """The value of a leaf, in its type, from rows of another schema; null where they have no such leaf.

    Args:
        leaf: the leaf.
        have: the schema of the rows.
        get: returns one of their columns.
    """
    value, data_type = F.lit(None), cast("DataType", have)
    for part in leaf.path:
        field = find_field(data_type, part) if isinstance(data_type, StructType) else None
        if field is None:
            return F.lit(None).cast(leaf.data_type)
        value, data_type = get(field.name), field.dataType
        get = value.getField
    return align_column(value, data_type, leaf.data_type)


def flat_row(target: CdcTarget) -> list[Column]:
    """Values of the leaves of a target's row, then their authors."""
    values = [leaf.of() for leaf in target.leaves]
    return [*values, *kept_authors(column(HIDDEN_COLUMN), target.hidden_type, target.leaves, values)]


def assembled(target: CdcTarget, values: Sequence[Column]) -> dict[str, Column]:
    """The columns of a row from the values of its leaves."""
    leaves = target.leaves
    return {field.name: assemble(field, leaves, values) for field in target.value_fields}
