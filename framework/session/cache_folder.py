"""The user's cache of reproducible files, such as jars and class archives; it may be deleted at any time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return `sluice` below XDG_CACHE_HOME, else below `~/.cache`; the folder may not exist yet.

    Args:
        environment: the environment variables; None: those of this process.
    """
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "sluice"
