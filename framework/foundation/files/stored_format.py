"""The format version of Sluice's stored JSON files: how a file states it, and how it is checked.

Each kind of file has one `StoredFormat`. A file with another version was written by another release of Sluice. It is
neither absent nor damaged: reading it is an error, so code that reads a file before replacing it leaves it unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from framework.foundation.errors import OperationError
from framework.foundation.files.storage_port import Storage
from framework.foundation.wording import exception_text

_KEY = "format"

UNUSABLE = frozenset({"STORED_FILE_DAMAGED", "STORED_FORMAT_UNKNOWN"})
"""The conditions of a stored file that exists but can't be used."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The format of one kind of stored JSON file.

    Args:
        version: the version that this release writes, and the only one that it reads. Increase it with each change
            that an earlier release would misread, such as a field that must not be ignored.
    """

    version: int = 1

    def text(self, content: Mapping[str, Any], indent: int | None = None) -> str:
        """Return the text of a file with the content and the version.

        Examples:
            >>> StoredFormat(1).text({"first": 3})
            '{"format": 1, "first": 3}'
        """
        return json.dumps({_KEY: self.version, **content}, indent=indent)

    def content(self, text: str, path: str) -> dict[str, Any]:
        """Parse a file's text, and return its content without the version.

        Args:
            text: the text of the file.
            path: the path of the file, for the error.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN if the file has another version.
            ValueError, TypeError: the text is not a JSON object with a version.
        """
        found = json.loads(text)
        if not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} instead of an object")  # noqa: EM102, TRY003 - becomes a `problem`
        version = found.pop(_KEY, None)
        if version is None:
            raise ValueError("it has no format version")  # noqa: TRY003 - as above
        if version != self.version:
            raise OperationError("STORED_FORMAT_UNKNOWN", path=path, found=version, reads=self.version)
        return found

    def read(
        self, storage: Storage, path: str, make: Callable[[dict[str, Any]], _Value], *, remedy: str = ""
    ) -> _Value | None:
        """Read a file, and convert its content with `make`; None if there is no file.

        Args:
            storage: the storage that has the file.
            path: the file.
            make: converts the content.
            remedy: another remedy for a damaged file, as a sentence with a leading space; may be empty.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN; STORED_FILE_DAMAGED if the file is not a JSON object that `make`
                accepts.
        """
        text = storage.read_text(path)
        if text is None:
            return None
        try:
            return make(self.content(text, path))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OperationError(
                "STORED_FILE_DAMAGED", path=path, problem=exception_text(error), otherwise=remedy
            ) from error

    def cached(self, text: str | None, key: str) -> Any:
        """Return one value of a cache file; None if the file is absent, damaged or of another version.

        A cache may be deleted at any time, so an unusable file is replaced.
        """
        try:
            return self.content(text or "", "").get(key)
        except (ValueError, TypeError, OperationError):
            return None
