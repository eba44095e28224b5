"""Compares the definition with which the rows of a copy were made to the present definition.

Unchanged rows have no event in the log, so after most differences a copy would mix rows of both definitions. The log
has only the name and the type of a column. The catalog has more: the number of a column, which is never reused in its
table, a stamp that changes when the column is altered, and the file of the table, which changes when rows are
rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from framework.declare.copy_definition import CopiedColumn, CopyDefinition
from framework.foundation.errors import UserError
from framework.schema.change import schema_change

_NUMBER = "number"
"""The metadata with the number of a column."""

_ALIKE = (re.compile(r"text|character varying(\(\d+\))?|(.+\.)?citext"), re.compile(r"bit( varying)?(\(\d+\))?"))
"""Types of the source that print a value the same way. A change of an array's type rewrites the rows."""


def drift_error(before: CopyDefinition, now: CopyDefinition) -> UserError | None:
    """Return the error if rows of the earlier definition can't stay next to rows of the present one; None if they can.

    Returns:
        INGESTION_TABLE_REDEFINED if the code changed, INGESTION_COLUMNS_CHANGED if the source did.
    """
    redefined = next(_redefinitions(before, now), None)
    if redefined is not None:
        return UserError("INGESTION_TABLE_REDEFINED", table=now.source, change=redefined)
    altered = next(_alterations(before, now), None)
    if altered is None:
        return None
    if before.selection != now.selection:
        return UserError("INGESTION_TABLE_REDEFINED", table=now.source, change=altered)
    return UserError("INGESTION_COLUMNS_CHANGED", table=now.source, change=altered)


def is_replaceable(before: CopyDefinition, now: CopyDefinition) -> bool:
    """Return whether a snapshot of all rows can replace the rows of a copy in place; else the copy must begin empty.

    The table of the copy may gain columns. A dropped column would keep its old values, and a column of another type
    can't be stored.
    """
    return (
        (before.gateway, before.source, before.scd_type) == (now.gateway, now.source, now.scd_type)
        and before.soft_deletes == now.soft_deletes
        and {*before.keys} == {*now.keys}
        and schema_change(_columns(before), _columns(now)).is_additive
    )


def _redefinitions(before: CopyDefinition, now: CopyDefinition) -> Iterator[str]:
    if before.gateway != now.gateway:
        yield f"its rows are those of the ingestion `{before.gateway}`"
    if before.source != now.source:
        yield f"its rows are those of {before.source}"
    if before.scd_type != now.scd_type:
        yield f"`scd_type` was SCD_TYPE_{before.scd_type}, and is SCD_TYPE_{now.scd_type}"
    if before.soft_deletes != now.soft_deletes:
        yield f"`soft_deletes` was {before.soft_deletes or 'off'}, and is {now.soft_deletes or 'off'}"
    if before.row_filter != now.row_filter:
        yield f"`row_filter` was {_filter_text(before)}, and is {_filter_text(now)}"


def _filter_text(definition: CopyDefinition) -> str:
    return "none" if definition.row_filter is None else f"({definition.row_filter})"


def _alterations(before: CopyDefinition, now: CopyDefinition) -> Iterator[str]:
    if {*before.keys} != {*now.keys}:
        yield f"the key was {', '.join(before.keys)}, and is {', '.join(now.keys)}"
    elif before.key_ids and (before.is_full or now.is_full) and not {*before.key_ids} & {*now.key_ids}:
        yield f"the key ({', '.join(now.keys)}) was dropped and made again, and rows may have changed theirs without it"
    present = {column.name: column for column in now.columns}
    known = {column.name: column for column in before.columns}
    change = schema_change(_columns(before), _columns(now), _NUMBER)
    renamed = {each.was[0]: each.name for each in change.renamed}
    dropped = {each.name for each in change.dropped}
    is_rewritten = before.storage != now.storage
    for name, column in known.items():
        if name in renamed:
            yield f"`{name}` is now `{renamed[name]}`"
        elif name in dropped:
            yield f"`{name}` is another column of the same name" if name in present else f"`{name}` is gone"
        else:
            yield from _column_alterations(column, present[name], is_rewritten=is_rewritten)
    # The log has no column numbers, so its changes may belong to a dropped column of the same name.
    is_unclear = not {*now.gone} <= {*before.gone}
    for column in (present[each.name] for each in change.added if each.name not in known):
        is_new = column.number > before.most_columns
        if not is_new or column.is_filled or is_rewritten:
            yield f"`{column.name}` was added, and rows without a change may have a value in it"
        elif is_unclear:
            yield f"`{column.name}` was added, and changes may have values of a dropped column that had this name"


def _columns(definition: CopyDefinition) -> dict[str, Any]:
    """Return the columns of a definition, as the JSON of a struct; their numbers are metadata."""
    return {
        "fields": [
            {"name": each.name, "type": each.type.lower(), "metadata": {_NUMBER: each.number}}
            for each in definition.columns
        ]
    }


def _column_alterations(before: CopiedColumn, now: CopiedColumn, *, is_rewritten: bool) -> Iterator[str]:
    name = now.name
    if before.type != now.type:
        yield f"`{name}` was {before.type}, and is {now.type}"
    elif not _prints_alike(before, now):
        yield f"`{name}` was {before.source_type}, and is {now.source_type}"
    elif before.stamp != now.stamp and is_rewritten:
        yield f"`{name}` was altered, and the rows were rewritten"
    elif not {*before.labels} <= {*now.labels}:
        yield f"a value of the enum of `{name}` was renamed or removed"
    elif before.fields != now.fields:
        yield f"a composite type of `{name}` has other fields"


def _prints_alike(before: CopiedColumn, now: CopiedColumn) -> bool:
    """Whether a value that is not rewritten has the same text in both types."""
    if before.type_id in (0, now.type_id):
        return True
    return any(all(kind.fullmatch(each.source_type) for each in (before, now)) for kind in _ALIKE)
