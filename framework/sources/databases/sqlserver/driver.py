"""Finds the system library that the driver needs and this machine lacks: the driver's own text does not name it."""

from __future__ import annotations

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path

from framework.foundation.errors import SourceError

# With the packages of Debian and Ubuntu that have them.
_PACKAGES = {"libltdl": "libltdl7", "libkrb5": "libkrb5-3", "libgssapi_krb5": "libgssapi-krb5-2", "libssl": "openssl"}
_MISSING = re.compile(r"(?:^|[\s:'\"])(lib[\w.+-]+?\.(?:so|dylib)[.\d]*): cannot open shared object")
_NOT_LOADED = re.compile(r"Failed to load the driver|cannot open shared object|Library not loaded")
_PATTERN = "libs/*/**/libmsodbcsql*"


def load_fault(text: str) -> SourceError | None:
    """Return the error of a driver that can't be loaded; None if the text says something else.

    Args:
        text: what the driver or Python said.
    """
    if not _NOT_LOADED.search(text):
        return None
    library = _library_in(text) or _missing_library()
    package = _PACKAGES.get(library.partition(".so")[0], "libltdl7 libkrb5-3 libgssapi-krb5-2")
    return SourceError(
        "SQLSERVER_DRIVER_NOT_LOADED", library=library or "unknown", statement=f"apt-get install {package}"
    )


def _missing_library() -> str:
    """Return the first library that the native drivers in the package need and do not find; empty if all are found."""
    found = find_spec("mssql_python_odbc")
    folders = () if found is None else found.submodule_search_locations or ()
    for path in (path for folder in folders for path in sorted(Path(folder).glob(_PATTERN))):
        try:
            ctypes.CDLL(str(path))
        except OSError as error:  # a driver for another system fails in another way
            library = _library_in(str(error))
            if library and library != path.name:
                return library
    return ""


def _library_in(text: str) -> str:
    match = _MISSING.search(text)
    return "" if match is None else match[1]
