"""Small JSON files of Sluice's own in a storage, read so that a damaged one is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from framework.foundation.errors import OperationError
from framework.foundation.storage_port import Storage
from framework.foundation.wording import exception_text

_Value = TypeVar("_Value")


def read_stored_json(storage: Storage, path: str, make: Callable[[dict[str, Any]], _Value]) -> _Value | None:
    """What `make` makes of the JSON object in a file; None when there is no file.

    Raises:
        OperationError: STORED_FILE_DAMAGED when the file holds no such object.
    """
    text = storage.read_text(path)
    if text is None:
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} in place of an object")  # noqa: EM102, TRY003, TRY301 - becomes the `problem` below
        return make(found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OperationError("STORED_FILE_DAMAGED", path=path, problem=exception_text(error)) from error
