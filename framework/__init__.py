"""Sluice: declarative pipelines on Spark and Delta Lake that run anywhere Spark runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from framework.pipeline import Pipeline

__all__ = ["Pipeline"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Pipeline` at its first use, so that a command that needs no Spark does not import it."""
    if name == "Pipeline":
        from framework.pipeline import Pipeline

        return Pipeline
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def load_ipython_extension(shell: Any) -> None:
    """Load the magics of notebooks: `%load_ext framework`."""
    from framework.notebook.magics import load

    load(shell)
