"""Where the code runs."""

from __future__ import annotations

import os

VARIABLE = "DATABRICKS_RUNTIME_VERSION"


def on_databricks() -> bool:
    """Whether this process is one of Databricks' runtime, which sets the variable in each of its processes."""
    return bool(os.environ.get(VARIABLE))
