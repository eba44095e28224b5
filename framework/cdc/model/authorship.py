"""The leaves of a row: the parts that events author independently.

If events author only some of a row's values (`ignore_null_updates`, `columns_to_update`), each leaf has its own author:
the event with the highest order that wrote it. A column is one leaf, but a struct in which nulls are ignored is split
into its fields, at every depth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.cdc.model.columns import column, struct_of
from framework.cdc.model.event_order import order_of, row_order
from framework.cdc.model.reserved_names import AUTHORS

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructField

_SEPARATOR = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A part of a row that has an author.

    Args:
        path: the names of the column and of the fields within it.
        data_type: the type of its value.
    """

    path: tuple[str, ...]
    data_type: DataType

    @property
    def name(self) -> str:
        """The path as one field name."""
        return _SEPARATOR.join(part.replace(_SEPARATOR, _SEPARATOR * 2) for part in self.path)

    @property
    def ancestors(self) -> tuple[Leaf, ...]:
        """The structs around it, from the column inwards; empty for a column."""
        return tuple(Leaf(path=self.path[:depth], data_type=self.data_type) for depth in range(1, len(self.path)))

    def of(self, alias: str | None = None) -> Column:
        """Return its value in a row of the frame with this alias."""
        value = column(self.path[0], of=alias)
        for part in self.path[1:]:
            value = value.getField(part)
        return value

    def is_within(self, names: Collection[str]) -> bool:
        """Return whether one of the dotted names (in any case) is its path or the path of an enclosing struct."""
        prefixes = {".".join(self.path[:depth]).lower() for depth in range(1, len(self.path) + 1)}
        return any(name.replace("`", "").lower() in prefixes for name in names)


def split_leaves(fields: Iterable[StructField], split: Collection[str]) -> tuple[Leaf, ...]:
    """Return the leaves of columns; the columns named in `split` are split into their fields."""
    found: list[Leaf] = []
    for field in fields:
        found.extend(_descend((field.name,), field.dataType, into=field.name in split))
    return tuple(found)


def _descend(path: tuple[str, ...], data_type: DataType, *, into: bool) -> Iterable[Leaf]:
    if not (into and isinstance(data_type, StructType) and data_type.fields):
        return [Leaf(path=path, data_type=data_type)]
    return [leaf for field in data_type.fields for leaf in _descend((*path, field.name), field.dataType, into=True)]


def assemble(field: StructField, leaves: Sequence[Leaf], values: Sequence[Column]) -> Column:
    """Return the value of a column from the values of its leaves; a struct is null if all its leaves are null."""
    pairs = [(leaf.path, value) for leaf, value in zip(leaves, values, strict=True) if leaf.path[0] == field.name]
    return _build((field.name,), field.dataType, pairs)


def _build(path: tuple[str, ...], data_type: DataType, pairs: Sequence[tuple[tuple[str, ...], Column]]) -> Column:
    for leaf_path, value in pairs:
        if leaf_path == path:
            return value
    assert isinstance(data_type, StructType), path
    below = [value for leaf_path, value in pairs if leaf_path[: len(path)] == path]
    fields = [_build((*path, f.name), f.dataType, pairs).alias(f.name) for f in data_type.fields]
    some = F.coalesce(*(F.when(value.isNotNull(), F.lit(1)) for value in below))
    return F.when(some.isNotNull(), F.struct(*fields))


def kept_authors(
    hidden: Column, hidden_type: StructType, leaves: Sequence[Leaf], values: Sequence[Column]
) -> list[Column]:
    """Return the order of each leaf's author in a row of the target; null if no event wrote the leaf."""
    own = row_order(hidden, hidden_type)
    return [
        F.coalesce(*_stored_authors_of(hidden, hidden_type, leaf), F.when(value.isNotNull(), own))
        for leaf, value in zip(leaves, values, strict=True)
    ]


def _stored_authors_of(hidden: Column, hidden_type: StructType, leaf: Leaf) -> list[Column]:
    """Return the stored authors of a leaf, and of enclosing structs that were once single leaves."""
    authors_type = struct_of(hidden_type, AUTHORS)
    names = [part.name for part in (leaf, *reversed(leaf.ancestors)) if part.name in authors_type.names]
    kept = hidden.getField(AUTHORS)
    return [order_of(kept.getField(name), struct_of(authors_type, name)) for name in names]


def authors_to_keep(
    leaves: Sequence[Leaf],
    values: Sequence[Column],
    authors: Sequence[Column],
    newest: Column,
    authors_type: StructType,
) -> Column:
    """Return the hidden column's `authors` for a row whose newest event has the order `newest`.

    The author of a leaf with a value is null if it is the newest event.
    """
    kept = {}
    for leaf, value, author in zip(leaves, values, authors, strict=True):
        is_implied = F.coalesce(value.isNotNull() & (author == newest), F.expr("false"))
        kept[leaf.name] = F.when(~is_implied, author)
    fields = [kept.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in authors_type.fields]
    return F.struct(*fields)
