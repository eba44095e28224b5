"""The clauses of a statement: each clause has a reader; clauses may be in any order, each at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.declare.sql.cursor import Cursor, Keywords
from framework.declare.sql.statements import Argument

Reader = Callable[[Cursor], dict[str, Argument]]
"""Reads the text after a clause's keywords, as arguments of a declaration."""


def read_clauses(
    cursor: Cursor,
    readers: Mapping[Keywords, Reader],
    *,
    refused: Mapping[Keywords, str],
    expected: str,
    is_over: Callable[[Cursor], bool] = Cursor.at_end,
) -> dict[str, Argument]:
    """Read clauses until there are no more.

    Args:
        cursor: the tokens from the first clause on.
        readers: the clauses by their keywords.
        refused: clauses of Databricks that Sluice does not support, with the advice for each.
        expected: what else is allowed in that place, for errors.
        is_over: whether no further clause follows.

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
