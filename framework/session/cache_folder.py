"""The user's cache: what can be had again, such as jars and class archives, and may be deleted at any time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """`sluice` under XDG_CACHE_HOME, else under `~/.cache`; it need not be there yet.

    Args:
        environment: the process's variables; default those of this process.
    """
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "sluice"
