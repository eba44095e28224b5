"""The libpq that psycopg2 is linked with, for calls that psycopg2 lacks or makes while holding Python's lock."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any
from weakref import finalize

import psycopg2.extensions
from psycopg2 import _psycopg

# A handle of psycopg2's extension finds the libpq that the extension is linked with.
_path = _psycopg.__file__
waiting = ctypes.CDLL(_path)
"""For functions that may wait: other threads continue."""
quick = ctypes.PyDLL(_path)
"""For functions that don't wait: Python's lock is held."""
_REASON_BYTES = 256


def function(library: Any, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of libpq with the types of its result and of its arguments."""
    found: Callable[..., Any] = getattr(library, name)
    found.restype, found.argtypes = result, arguments  # type: ignore[attr-defined]
    return found


_get_cancel = function(quick, "PQgetCancel", ctypes.c_void_p, ctypes.c_void_p)
_cancel = function(waiting, "PQcancel", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
_free_cancel = function(quick, "PQfreeCancel", None, ctypes.c_void_p)


class Cancellation:
    """Cancels the statement of a connection while other threads continue; psycopg2's own `cancel` blocks all threads.

    Args:
        connection: a connection that no other thread uses yet.
    """

    def __init__(self, connection: psycopg2.extensions.connection) -> None:
        self._handle = _get_cancel(connection.pgconn_ptr)
        if self._handle:
            finalize(self, _free_cancel, self._handle)

    def send(self) -> None:
        """Ask the server to end the statement; do nothing if it can't be reached."""
        if self._handle:
            _cancel(self._handle, ctypes.create_string_buffer(_REASON_BYTES), _REASON_BYTES)
