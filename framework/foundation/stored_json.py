"""Reads of Sluice's own small JSON files, with an error that names a damaged file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from framework.foundation.errors import OperationError
from framework.foundation.storage_port import Storage
from framework.foundation.wording import exception_text

_Value = TypeVar("_Value")


def read_stored_json(storage: Storage, path: str, make: Callable[[dict[str, Any]], _Value]) -> _Value | None:
    """Read the JSON object in a file and convert it with `make`; None if there is no file.

    Raises:
        OperationError: STORED_FILE_DAMAGED if the file is not a JSON object that `make` accepts.
    """
    text = storage.read_text(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} instead of an object")  # noqa: EM102, TRY003, TRY301 - becomes the `problem` below
        return make(found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OperationError("STORED_FILE_DAMAGED", path=path, problem=exception_text(error)) from error
