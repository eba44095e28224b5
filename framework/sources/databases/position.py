"""Positions in the log of a database: a number that Spark compares, and a text for the server and for users."""

from __future__ import annotations

import json
from dataclasses import dataclass

from framework.foundation.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A position in a log.

    Args:
        order: sorts the positions of one log, and is positive: 0 means no position in stored formats. Rows of changes
            contain it. A log that begins again, for example on another server, gets another generation, because its
            numbers can't be compared with the earlier ones.
        text: the position as the database writes it.
        log: the server whose log it is; empty if the positions of its successors can be compared with it.
    """

    order: int
    text: str
    log: str = ""

    def __str__(self) -> str:
        return self.text


def position_of(offset: str) -> Position:
    """Return the position in an offset of a stream of changes, for any dialect.

    An offset is a JSON object of the dialect, with `order` and `text`, and `log` if a position has it.

    Raises:
        SourceError: DATABASE_POSITION_INVALID, with the problem.

    Examples:
        >>> position_of('{"order": 7, "text": "binlog.000007:4", "log": "x"}')
        Position(order=7, text='binlog.000007:4', log='x')
    """
    try:
        value = json.loads(offset)
        return Position(order=int(value["order"]), text=str(value["text"]), log=str(value.get("log", "")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"it has a missing or malformed field: {error}"
        raise SourceError("DATABASE_POSITION_INVALID", problem=problem) from error
