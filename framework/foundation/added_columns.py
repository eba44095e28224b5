"""A column that the writer of a file adds to the rows that it writes; a value, for rooms that don't know each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumn:
    """A struct of constants and a hash of the row.

    Args:
        name: its name.
        type_json: its Spark type, as JSON.
        constants_json: the value of each field that is not NULL, as JSON.
        hash_field: the field of the hash.
        hashed: the columns of which the hash is, in its order.
        key: the column whose values are distinct in a table, if it is a whole number; None for another key.
    """

    name: str
    type_json: str
    constants_json: str
    hash_field: str
    hashed: tuple[str, ...]
    key: str | None
