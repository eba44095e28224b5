"""The definition of a database copy's rows: the columns of the source, and the configuration."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedColumn:
    """A column of a source table, in the form with which the rows of a copy were made.

    Args:
        name: its name at the source.
        type: the Spark type.
        source_type: the name of the type at the source.
        number: the column's number at the source, which is never reused in the table.
        stamp: changes with each statement that alters the column.
        type_id: the identity of the type at the source; 0 if the dialect has none.
        is_filled: whether rows that are older than the column have a value in it.
        labels: the values of the enums in its type.
        fields: the fields of the composite types in its type.
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
    """The settings that determine how the changes of a source table are staged.

    A copy with a different form can't apply the changes: values have a different text form, deletions have a different
    key, and updates lack the earlier states of the row.

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
    """The settings that determine the rows of a copy, given the rows of its source.

    Args:
        gateway: the name of the ingestion.
        source: the source table, `schema.table`.
        keys: the columns that identify a row.
        scd_type: 1 for the latest rows, 2 for their history.
        row_filter: the condition that its rows meet.
        selection: the column lists of the configuration, as one text.
        columns: the columns that are read.
        most_columns: the highest column number ever used at the source; a later column has a higher one.
        key_ids: the identities by which the source keeps the key unique; () if the dialect has none.
        is_full: whether the replica identity of the source, or of one of its partitions, is FULL: its rows can then
            change while it has no key.
        gone: the numbers of columns that were dropped before any row of the copy was made.
        storage: changes when the database rewrites the rows of the source.
        log_version: the version of the columns in the log.
        soft_deletes: the column that flags deleted rows; None if deleted rows are removed.
        earlier_versions: the versions before the latest columns were added, each with its highest column number; not
            recorded.
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
        """The form in which changes are staged for rows of this definition."""
        *_, text_columns = ast.literal_eval(self.selection)
        return StagedForm(
            keys=tuple(sorted(self.keys)), text_columns=tuple(text_columns), is_history=self.scd_type != 1
        )
