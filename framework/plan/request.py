"""What the user asks an update to do."""

from __future__ import annotations

from dataclasses import dataclass

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    """A request for one update.

    Args:
        refresh: datasets to refresh; empty together with `full_refresh` and
            `reset_checkpoints`: all of them.
        full_refresh: datasets to clear and build anew.
        full_refresh_all: every dataset that may be reset is built anew.
        reset_checkpoints: flows that begin a new generation; their targets keep their data.
        continuous: keep every flow running until the update is stopped.
        trigger_interval_seconds: in a continuous update, the shortest time between two micro-batches of a flow.
    """

    refresh: tuple[QualifiedName, ...] = ()
    full_refresh: tuple[QualifiedName, ...] = ()
    full_refresh_all: bool = False
    reset_checkpoints: tuple[QualifiedName, ...] = ()
    continuous: bool = False
    trigger_interval_seconds: float = 0.0
