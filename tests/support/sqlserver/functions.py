"""Functions of T-SQL for SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

_INTEGERS = ("bit", "tinyint", "smallint", "int", "integer", "bigint")
_HEX_STYLE = 1
_FORMAT = "%Y-%m-%dT%H:%M:%S"


def register(raw: sqlite3.Connection, now: Callable[[], datetime], state: Callable[[str], Any]) -> None:
    """Add the functions to a connection.

    Args:
        raw: the connection.
        now: the time of the server.
        state: a value of the server's state.
    """
    properties = {"ProductVersion": "16.0.4135.4", "EngineEdition": 3}

    def add(name: str, count: int, function: Callable[..., Any]) -> None:
        raw.create_function(name, count, function)

    add("tsql_convert", 3, convert)
    add("tsql_datediff", 3, datediff)
    add("tsql_dateadd", 3, dateadd)
    add("SYSDATETIME", 0, lambda: now().strftime(_FORMAT))
    add("SYSUTCDATETIME", 0, lambda: (now() - timedelta(hours=1)).strftime(_FORMAT))
    add("DB_ID", 0, lambda: 5)
    add("SERVERPROPERTY", 1, lambda name: state(name) or properties[name])
    add("IS_MEMBER", 1, lambda _: 0 if state("is_plain_user") else 1)
    add("HAS_PERMS_BY_NAME", 3, lambda name, *_: 0 if state(f"denied {name}") else 1)
    add("CHANGE_TRACKING_CURRENT_VERSION", 0, lambda: state("versions"))


def convert(kind: str, value: Any, style: int | None) -> Any:
    """Convert a value as CONVERT does, for the values that the stand-in stores: texts of dates and decimals."""
    name = kind.partition("(")[0]
    if value is None:
        return None
    if name in _INTEGERS:
        return int(value)
    if name in ("float", "real", "double"):
        return float(value)
    if name in ("varchar", "nvarchar", "char", "nchar"):
        return _text(value, style)
    if name in ("binary", "varbinary", "rowversion", "timestamp") and isinstance(value, str):
        return bytes.fromhex(value[2:]) if style == _HEX_STYLE else value.encode()
    return value


def _text(value: Any, style: int | None) -> str:
    if isinstance(value, bytes):
        return "0x" + value.hex().upper() if style == _HEX_STYLE else value.decode("latin-1")
    if isinstance(value, float):
        return f"{value:.16e}"
    return str(value)


def datediff(unit: str, start: str | None, end: str | None) -> int | None:
    """Return the difference of two times."""
    if start is None or end is None:
        return None
    seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return int(seconds // {"second": 1, "minute": 60, "hour": 3600}[unit])


def dateadd(unit: str, count: int, time: str | None) -> str | None:
    """Return a time later."""
    if time is None:
        return None
    return (datetime.fromisoformat(time) + timedelta(**{f"{unit}s": count})).strftime(_FORMAT)
