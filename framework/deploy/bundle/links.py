"""Symbolic links in a bundle's folder; a link to the outside is neither read nor uploaded."""

from __future__ import annotations

from pathlib import Path


def leads_outside(path: Path, root: Path) -> bool:
    """Return whether a path with its links resolved is outside of a folder; True also for a cycle of links."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return True


def first_link(root: Path, path: str) -> str | None:
    """Return the first part of a path below a folder that is a link; None if no part is a link."""
    current = Path()
    for part in Path(path).parts:
        current /= part
        if (root / current).is_symlink():
            return current.as_posix()
    return None
