"""How the rows of a database copy were made: the columns of the source, and the configuration."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedColumn:
    """A column of a source table, as rows of a copy were made with it.

    Args:
        name: its name at the source.
        type: the Spark type.
        source_type: the name of the type at the source.
        number: never given to another column of the table.
        stamp: changes with each statement that alters the column.
        type_id: what identifies the type at the source; 0 if an earlier release recorded the column.
        is_filled: whether rows that are older than the column have a value in it.
        labels: the values of the enums that its type is made of.
        fields: the fields of the composite types that its type is made of.
    """

    name: str
    type: str
    number: int
    stamp: str
    source_type: str = ""
    type_id: int = 0
    is_filled: bool = False
    labels: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedForm:
    """What decides how the changes of a source table are staged.

    A copy with another one can't apply them: their values have other texts, their deletions another key, and an update
    lacks the state of its time.

    Args:
        keys: the columns that identify a row.
        text_columns: the columns whose values are staged as text of the database.
        is_history: whether each state of a row is kept.
    """

    keys: tuple[str, ...]
    text_columns: tuple[str, ...]
    is_history: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyDefinition:
    """What decides the rows of a copy, beside the rows of its source.

    Args:
        gateway: the name of the ingestion.
        source: the source table, `schema.table`.
        keys: the columns that identify a row.
        scd_type: 1 for the latest rows, 2 for their history.
        row_filter: the condition that its rows meet.
        selection: the lists of columns in the configuration, as one text.
        columns: the columns that are read.
        most_columns: how many columns the source ever had; a later one has a greater number.
        key_ids: what keeps the key unique at the source; () if an earlier release recorded the copy.
        is_full: whether the replica identity of the source, or of one of its partitions, is FULL: its rows may then be
            changed while it has no key.
        gone: the numbers of the columns that were dropped before a row of the copy was made.
        storage: changes when the database rewrites the rows of the source.
        log_version: the version of the columns in the log.
        soft_deletes: the column that flags deleted rows; None if they are removed, as in copies of earlier releases.
        earlier_versions: the versions before its last columns were added, each with the greatest number of a column;
            not recorded.
    """

    gateway: str
    source: str
    keys: tuple[str, ...]
    scd_type: int
    row_filter: str | None
    selection: str
    columns: tuple[CopiedColumn, ...]
    most_columns: int
    storage: str
    log_version: int
    key_ids: tuple[str, ...] = ()
    is_full: bool = False
    gone: tuple[int, ...] = ()
    soft_deletes: str | None = None
    earlier_versions: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    @property
    def staged(self) -> StagedForm:
        """How changes are staged that rows of this definition follow."""
        *_, text_columns = ast.literal_eval(self.selection)
        return StagedForm(
            keys=tuple(sorted(self.keys)), text_columns=tuple(text_columns), is_history=self.scd_type != 1
        )
