"""Staged changes as columns: their generations, the options of `from_json`, and names for Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence

from framework.ingest.state import SnapshotGeneration

_CORRUPT_RECORD = "_corrupt_record"
_MOST_CHARACTERS = 2**31 - 1


def generation_sql(generations: Sequence[SnapshotGeneration]) -> str:
    """Return the generation of a staged change, in SQL over its columns `generation` (of its log) and `position`.

    Examples:
        >>> generation_sql([SnapshotGeneration(number=1, log_generation=0, position=42, checkpoint=2)])
        'CASE WHEN generation > 0 OR (generation = 0 AND position >= 42) THEN 1L ELSE 0L END'
    """
    if not generations:
        return "0L"
    cases = [
        f"WHEN generation > {each.log_generation} "
        f"OR (generation = {each.log_generation} AND position >= {each.position}) "
        f"THEN {each.number}L"
        for each in reversed(generations)
    ]
    return f"CASE {' '.join(cases)} ELSE 0L END"


def payload_options(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the options of `from_json` for payloads with these columns.

    A value that does not fit its column fails, because a null would be a silent loss. A column with the name of Spark's
    column for corrupt records would be set to null, so that name is changed. The text limit is raised, because Spark's
    default is below the limit of databases.
    """
    return {
        "mode": "FAILFAST",
        "columnNameOfCorruptRecord": free_name(_CORRUPT_RECORD, columns),
        "maxStringLen": str(_MOST_CHARACTERS),
    }


def free_name(name: str, taken: tuple[str, ...]) -> str:
    """Return a name that no column has, ignoring letter case."""
    lower = {column.lower() for column in taken}
    while name in lower:
        name = f"_{name}"
    return name


def quoted_column(column: str) -> str:
    """Return a column in backticks."""
    return f"`{column.replace('`', '``')}`"
