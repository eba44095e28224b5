"""The clauses of a statement: each has its reader, and stands once, in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.declare.sql.cursor import Cursor, Keywords
from framework.declare.sql.statements import Argument

Reader = Callable[[Cursor], dict[str, Argument]]
"""Reads what follows on the keywords of a clause, as arguments of a declaration."""


def read_clauses(
    cursor: Cursor,
    readers: Mapping[Keywords, Reader],
    *,
    refused: Mapping[Keywords, str],
    expected: str,
    is_over: Callable[[Cursor], bool] = Cursor.at_end,
) -> dict[str, Argument]:
    """Read clauses up to where they are over.

    Args:
        cursor: the tokens from the first clause on.
        readers: the clauses by their keywords.
        refused: clauses of Databricks that Sluice does not have, with what to do about them.
        expected: what else may stand there, for errors.
        is_over: whether no clause comes next.

    Raises:
        UserError: PARSE_SYNTAX_ERROR, PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR.
    """
    found: dict[str, Argument] = {}
    while not is_over(cursor):
        for words, advice in refused.items():
            if cursor.is_at(*words):
                cursor.refuse(" ".join(words), advice)
        place = cursor.copy()
        clause = next((words for words in readers if cursor.accept(*words)), None)
        if clause is None:
            cursor.fail(expected)
        read = readers[clause](cursor)
        if read.keys() & found.keys():
            place.fail("each clause once")
        found.update(read)
    return found
