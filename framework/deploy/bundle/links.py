"""Symbolic links in a bundle's folder: what leads out of it is neither read nor uploaded."""

from __future__ import annotations

from pathlib import Path


def leads_outside(path: Path, root: Path) -> bool:
    """Whether a path ends outside of a folder once its links are followed; a circle of links does."""
    try:
        return not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return True


def first_link(root: Path, path: str) -> str | None:
    """The first part of a path below a folder that is a link; None if no part is."""
    place = Path()
    for part in Path(path).parts:
        place /= part
        if (root / place).is_symlink():
            return place.as_posix()
    return None
