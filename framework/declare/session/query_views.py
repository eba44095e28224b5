"""Temporary views that a query function creates from DataFrames, for SQL in the same call.

They are not views of the session: each call of a query function has its own, so no other query sees them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CREATED = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TEMP(?:ORARY)?\s+VIEW\s+(?P<name>\w+|`[^`]+`)\s+AS\s+(?P<query>.+)",
    re.DOTALL | re.IGNORECASE,
)

_views: ContextVar[dict[str, DataFrame] | None] = ContextVar("sluice_query_views", default=None)


@contextmanager
def own_views() -> Iterator[None]:
    """Give the query function called in the block its own views; a nested call has different ones."""
    token = _views.set({})
    try:
        yield
    finally:
        _views.reset(token)


def keep_view(name: str, frame: DataFrame) -> bool:
    """Create a view for the running query function; False if no query function runs, or the name is not a plain one."""
    views, plain = _views.get(), name.strip("`")
    if views is None or not plain.isidentifier():
        return False
    views[plain.lower()] = frame
    return True


def drop_view(name: str) -> bool:
    """Drop a view of the running query function; False if it has no such view."""
    views = _views.get()
    return views is not None and views.pop(name.strip("`").lower(), None) is not None


def view_of_query(name: str) -> DataFrame | None:
    """Return the rows of a view that the running query function has created; None if there is no such view."""
    views = _views.get()
    return None if not views else views.get(name.strip("`").lower())


def created_view(text: str) -> tuple[str, str] | None:
    """Return name and query of a statement that creates a view for the query function; None for any other statement."""
    found = None if _views.get() is None else _CREATED.fullmatch(text)
    return None if found is None else (found["name"], found["query"])
