"""The port to the log of a database: what a dialect gives to the stream of changes, which all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from framework.sources.databases.streams.spool import Spool, SpooledBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """When a batch ends: at the first end of a transaction at which one of these is reached.

    Args:
        rows: of changes.
        bytes: of the log.
    """

    rows: int = 1_000_000
    bytes: int = 256 << 20


class ChangeLog(Protocol):
    """The log of a database, read for one flow; it connects when it is first called.

    Positions are offsets of the stream: JSON that the dialect writes and reads, see `position_of`.
    """

    @property
    def idle_distance(self) -> int:
        """How far behind a position without changes may be: until then it is not stored, which costs a micro-batch."""
        ...

    def start(self) -> str:
        """Return the position from which the log has all changes of the tables; it is made if there is none.

        Raises:
            SluiceError: the log has none, or not from where a snapshot has begun.
        """
        ...

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read whole transactions after a position, and return them with the position at their end.

        Args:
            start: the end of an earlier batch, whose micro-batch is committed, or `start()`.
            limit: ends the batch earlier; None to read up to what is committed now.

        Raises:
            SourceError: DATABASE_POSITION_LOST with its kind, if the log does not go on from the position; or it can't
                be read.
        """
        ...

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the transactions between two positions once more: the same rows, positions and ordinals.

        Raises:
            SourceError: as `read_transactions`.
        """
        ...

    def acknowledge(self, position: str) -> None:
        """Let the database remove its log up to a position that is in the checkpoint; nothing if it does not wait.

        Raises:
            SourceError: the database can't be reached.
        """
        ...

    def release(self) -> None:
        """Let go of what only one reader may have."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class ChangesRequest(Protocol):
    """What the options of a stream of changes ask for."""

    @property
    def limit(self) -> ReadLimit:
        """When a micro-batch ends."""
        ...

    @property
    def advance_to(self) -> int:
        """The order of a position that is stored soon after it is passed, also without changes."""
        ...

    @property
    def spool_folder(self) -> str | None:
        """The folder for files of changes; a temporary one if it is None."""
        ...

    def log(self, spool: Callable[[], Spool]) -> ChangeLog:
        """Return the log.

        Args:
            spool: makes the folder of its batches, for the first one.
        """
        ...
