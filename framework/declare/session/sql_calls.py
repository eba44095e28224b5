"""`spark.sql` while pipeline code runs: refuses session mutations, and passes queries to a handler.

Both use one patch, because threads could remove two patches of one method in any order and leave one installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from framework.declare.session.patches import Patch, Patches
from framework.declare.session.query_views import created_view, keep_view
from framework.foundation.errors import UserError
from framework.foundation.locations import caller_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SqlHandler = Callable[..., "DataFrame"]


class _Mutation(NamedTuple):
    """A pattern of statements that change the session, and the last part of the error's condition."""

    pattern: re.Pattern[str]
    kind: str


def _mutation(pattern: str, kind: str) -> _Mutation:
    return _Mutation(re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), kind)


_COMMENTS = re.compile(r"\s*(?:--[^\n]*(?:\n|$)|/\*.*?\*/)?", re.DOTALL)
_TEMP = "TEMP(?:ORARY)?"
# The first match applies. `SET key` without a value and `SET -v` only read.
_MUTATIONS = (
    _mutation(r"SET CATALOG ", "SET_CURRENT_CATALOG"),
    _mutation(r"SET (?:TIME ZONE|VAR|VARIABLE) ", "SET_RUNTIME_CONF"),
    _mutation(r"SET [^=\n]+=", "SET_RUNTIME_CONF"),
    _mutation(r"RESET\b", "SET_RUNTIME_CONF"),
    _mutation(r"USE CATALOG ", "SET_CURRENT_CATALOG"),
    _mutation(r"USE ", "SET_CURRENT_DATABASE"),
    _mutation(rf"CREATE OR REPLACE GLOBAL {_TEMP} VIEW ", "CREATE_OR_REPLACE_GLOBAL_TEMP_VIEW"),
    _mutation(rf"CREATE GLOBAL {_TEMP} VIEW ", "CREATE_GLOBAL_TEMP_VIEW"),
    _mutation(rf"CREATE OR REPLACE {_TEMP} VIEW ", "CREATE_OR_REPLACE_TEMP_VIEW"),
    _mutation(rf"CREATE {_TEMP} VIEW ", "CREATE_TEMP_VIEW"),
    _mutation(rf"CREATE (?:OR REPLACE )?{_TEMP} FUNCTION ", "REGISTER_UDF"),
)

_refusing: ContextVar[bool] = ContextVar("sluice_refusing_sql_mutations", default=False)
_handler: ContextVar[SqlHandler | None] = ContextVar("sluice_sql_handler", default=None)


def mutation_of(text: str) -> str | None:
    r"""Return the last part of the condition for a statement that changes the session; None for any other statement.

    Examples:
        >>> mutation_of("-- units \n SET spark.sql.ansi.enabled = true"), mutation_of("SET spark.sql.ansi.enabled")
        ('SET_RUNTIME_CONF', None)
    """
    start = 0
    while (comment := _COMMENTS.match(text, start)) and comment.end() > start:
        start = comment.end()
    return next((mutation.kind for mutation in _MUTATIONS if mutation.pattern.match(text, start)), None)


@contextmanager
def sql_mutations(*, refused: bool) -> Iterator[None]:
    """Refuse, or allow again, statements that change the session in the block's own thread."""
    with _PATCHES.installed():
        token = _refusing.set(refused)
        try:
            yield
        finally:
            _refusing.reset(token)


@contextmanager
def sql_handled_by(handler: SqlHandler) -> Iterator[None]:
    """Call `handler` instead of `SparkSession.sql`, with the same arguments, in the block's own thread."""
    with _PATCHES.installed():
        token = _handler.set(handler)
        try:
            yield
        finally:
            _handler.reset(token)


def pyspark_sql(spark: SparkSession, text: str, args: Any = None, **kwargs: Any) -> DataFrame:
    """Call PySpark's own `SparkSession.sql`."""
    from pyspark.sql import SparkSession

    frame: DataFrame = _PATCHES.original(SparkSession, "sql")(spark, text, args, **kwargs)
    return frame


def _patches() -> list[Patch]:
    from pyspark.sql import SparkSession

    return [Patch(SparkSession, "sql", lambda _: _sql)]


_PATCHES = Patches(_patches)


def _sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803 - PySpark's name
    kind = mutation_of(sqlQuery) if _refusing.get() and isinstance(sqlQuery, str) else None
    view = created_view(sqlQuery) if kind is not None else None
    if view is not None:
        frame = (_handler.get() or pyspark_sql)(self, view[1], args, **kwargs)
        if keep_view(view[0], frame):
            return self.range(0).drop("id")  # the statement's result: no rows, no columns
    if kind is not None:
        words = " ".join(sqlQuery.split()[:3])
        condition = f"SESSION_MUTATION_IN_DECLARATIVE_PIPELINE.{kind}"
        raise UserError(condition, location=caller_location(), method=f'spark.sql("{words} …")')
    return (_handler.get() or pyspark_sql)(self, sqlQuery, args, **kwargs)
