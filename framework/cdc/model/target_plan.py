"""The plan of an AUTO CDC target as a value of strings and numbers, readable without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPlan:
    """A planned target; a value that can be compared and hashed.

    Args:
        name: the target's name.
        keys: the key columns, as the table spells them.
        scd_type: 1 or 2.
        table_json: the JSON of the physical schema: all columns and the hidden one.
        literal_flows: the once flows whose sequence is a literal, which sorts before all other sequences.
        split: the columns whose fields have separate authors.
        tracked: for SCD type 2, the columns whose change begins a new row.
        text_partitions: the string and timestamp columns that the table is partitioned by, as the table spells them; a
            partition may store a different value (`as_stored`).
        deletes_first: whether a delete comes before the upserts of its sequence instead of after them.
        flag: the column that is true in deleted rows that stay; None if deleted rows are removed.
    """

    name: QualifiedName
    keys: tuple[str, ...]
    scd_type: int
    table_json: str
    literal_flows: tuple[QualifiedName, ...]
    split: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()
    text_partitions: tuple[str, ...] = ()
    deletes_first: bool = False
    flag: str | None = None
