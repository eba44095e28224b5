"""What is recorded of the rows of a snapshot that was read to its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """The rows of a snapshot that was read to its end on one server.

    Args:
        checkpoint: number of the checkpoint generation of the snapshot flow.
        log: the server.
        position: a position after every transaction that the rows show.
        is_passed: whether the changes were read up to it on that server, so that any successor has these rows.
    """

    checkpoint: int
    log: str
    position: int
    is_passed: bool = False
