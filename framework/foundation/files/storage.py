"""The storage port, local storage, and the test for local URIs; `engine/storage.py` opens any URI."""

from __future__ import annotations

import re

from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage_port import FileStatus, Storage

__all__ = ["FileStatus", "LocalStorage", "Storage", "is_local"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def is_local(uri: str) -> bool:
    """Whether a path or URI is on this machine's file system: no scheme, or `file:`."""
    match = _SCHEME.match(uri)
    return match is None or match.group(1).lower() == "file"
