"""The port to the log of a database: the part of the stream of changes that each dialect implements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from framework.sources.databases.streams.spool import Spool, SpooledBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """The limits of a batch: it ends with the first transaction at whose end one of them is reached.

    Args:
        rows: rows of changes.
        bytes: bytes of the log.
    """

    rows: int = 1_000_000
    bytes: int = 256 << 20


class ChangeLog(Protocol):
    """The log of a database, read for one flow; it connects when it is first called.

    Positions are offsets of the stream: JSON that the dialect writes and reads, see `position_of`.
    """

    @property
    def idle_distance(self) -> int:
        """How far a stored position may lag while there are no changes: storing it would cost a micro-batch."""
        ...

    @property
    def keeps_start(self) -> bool:
        """Whether the database keeps `start` until it is acknowledged; otherwise each call returns a later one."""
        ...

    def start(self) -> str:
        """Return the position from which the log has all changes of the tables, created if there is none.

        Raises:
            SluiceError: there is no such position, or it is after the start of a snapshot.
        """
        ...

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read whole transactions after a position, and return them with the position at their end.

        Args:
            start: the end of an earlier batch, whose micro-batch is committed, or `start()`.
            limit: ends the batch earlier; None to read everything that is committed now.

        Raises:
            SourceError: DATABASE_POSITION_LOST with its kind, if the log does not continue from the position; or the
                log can't be read.
        """
        ...

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the transactions between two positions again, with the same rows, positions and ordinals.

        Raises:
            SourceError: as `read_transactions`.
        """
        ...

    def acknowledge(self, position: str) -> None:
        """Let the database remove its log up to a checkpointed position; do nothing if it does not wait for readers.

        Raises:
            SourceError: the database can't be reached.
        """
        ...

    def release(self) -> None:
        """Release the resources that only one reader may hold."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class ChangesRequest(Protocol):
    """The request for a stream of changes, as its options describe it."""

    @property
    def limit(self) -> ReadLimit:
        """The limits of a micro-batch."""
        ...

    @property
    def advance_to(self) -> int:
        """The order of a position that is stored soon after it is passed, even without changes."""
        ...

    @property
    def spool_folder(self) -> str | None:
        """The folder for files of changes; None for a temporary folder."""
        ...

    def log(self, spool: Callable[[], Spool]) -> ChangeLog:
        """Return the log.

        Args:
            spool: makes the folder of its batches, for the first one.
        """
        ...
