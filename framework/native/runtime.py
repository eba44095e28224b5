"""Detection of the Databricks runtime."""

from __future__ import annotations

import os

VARIABLE = "DATABRICKS_RUNTIME_VERSION"


def on_databricks() -> bool:
    """Whether this process runs in the Databricks runtime, which sets the variable in each of its processes."""
    return bool(os.environ.get(VARIABLE))
