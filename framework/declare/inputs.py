"""The port by which the reads of a pipeline's code get given rows in place of what they name."""

from __future__ import annotations

from typing import Protocol


class GivenInputs(Protocol):
    """Takes the reads of a pipeline's code, for a sandbox."""
