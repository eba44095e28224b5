"""Pickles of Python functions in Spark, including large functions that Spark broadcasts."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

_MOST_BYTES_OF_A_NUMBER = 256
"""The maximum size of the pickle of a broadcast function, which contains only the broadcast's number."""


def command_of(function: Any) -> bytes:
    """Return the pickle of a Python function in the JVM, without a broadcast's number, which differs per call.

    Args:
        function: an object of the JVM with a `PythonFunction`.

    Returns:
        The pickle; if the broadcast can't be read (encrypted files), the pickle of its number.
    """
    sent = function.func()
    command = bytes(sent.command().unsafeArray())
    number = _broadcast_number(command)
    for variable in () if number is None else sent.broadcastVars():
        if int(variable.id()) == number:
            return _broadcast_bytes(Path(str(variable.value().path()))) or command
    return command


def _broadcast_number(command: bytes) -> int | None:
    """Return the broadcast number in a pickle; None if the pickle is anything else."""
    if len(command) > _MOST_BYTES_OF_A_NUMBER:
        return None
    try:
        found = _OfNumber(io.BytesIO(command)).load()
    except pickle.UnpicklingError:
        return None
    return found if isinstance(found, _Number) else None


def _broadcast_bytes(file: Path) -> bytes | None:
    """Return the bytes in the file of a broadcast; None if they can't be read."""
    try:
        with file.open("rb") as stream:
            found = _OfNothing(stream).load()
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    return found if isinstance(found, bytes) else None


class _Number(int):
    """The number of a broadcast."""


class _OfNothing(pickle.Unpickler):
    """Unpickles values that need no imports."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Refuse every import."""
        raise pickle.UnpicklingError(module_name, global_name)


class _OfNumber(_OfNothing):
    """Unpickles the number of a broadcast."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return the constructor of the number; refuse every other import."""
        return _Number if global_name == "_from_id" else super().find_class(module_name, global_name)
