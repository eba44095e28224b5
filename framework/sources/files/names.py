"""Names of files and folders that Spark passes over."""

from __future__ import annotations


def is_hidden(name: str) -> bool:
    """Whether Spark ignores a name: `_SUCCESS`, `.crc`, files that are being copied; not `_date=1`."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")
