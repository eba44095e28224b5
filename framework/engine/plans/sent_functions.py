"""The pickles of Python functions that Spark has, also of those that it broadcasts because they are large."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

_MOST_BYTES_OF_A_NUMBER = 256
"""The pickle of a broadcast function has nothing but the number of the broadcast."""


def command_of(function: Any) -> bytes:
    """Return the pickle of a Python function of the JVM, without the number of a broadcast, which each call makes anew.

    Args:
        function: an object of the JVM with a `PythonFunction`.

    Returns:
        The pickle; that of the number if the broadcast can't be read, as with encrypted files.
    """
    sent = function.func()
    command = bytes(sent.command().unsafeArray())
    number = _broadcast_number(command)
    for variable in () if number is None else sent.broadcastVars():
        if int(variable.id()) == number:
            return _broadcast_bytes(Path(str(variable.value().path()))) or command
    return command


def _broadcast_number(command: bytes) -> int | None:
    """Return the number of the broadcast that a pickle is; None if it is anything else."""
    if len(command) > _MOST_BYTES_OF_A_NUMBER:
        return None
    try:
        found = _OfNumber(io.BytesIO(command)).load()
    except pickle.UnpicklingError:
        return None
    return found if isinstance(found, _Number) else None


def _broadcast_bytes(file: Path) -> bytes | None:
    """Return the bytes in the file of a broadcast; None if there are none in it that can be read."""
    try:
        with file.open("rb") as stream:
            found = _OfNothing(stream).load()
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
    return found if isinstance(found, bytes) else None


class _Number(int):
    """The number of a broadcast."""


class _OfNothing(pickle.Unpickler):
    """Reads values that import nothing."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Refuse every import."""
        raise pickle.UnpicklingError(module_name, global_name)


class _OfNumber(_OfNothing):
    """Reads the number of a broadcast."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return what makes the number; refuse every other import."""
        return _Number if global_name == "_from_id" else super().find_class(module_name, global_name)
