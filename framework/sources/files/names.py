"""Names of files and folders that Spark passes over."""

from __future__ import annotations

from collections.abc import Collection


def is_hidden(name: str) -> bool:
    """Whether Spark ignores a name: `_SUCCESS`, `.crc`, files that are being copied; not `_date=1`."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def shown_names(names: Collection[str]) -> list[str]:
    """Return the names that are not hidden, after one search in all of them."""
    text = f"/{'/'.join(names)}/"
    if "/_" in text or "/." in text or "._COPYING_/" in text:
        return [name for name in names if not is_hidden(name)]
    return list(names)
