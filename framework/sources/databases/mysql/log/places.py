"""Places in the log: a file and an offset in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from framework.foundation.errors import SourceError

FIRST_OFFSET = 4
"""The offset of the first event of a file, after its magic number."""

_OFFSET_BITS, _FILE_BITS, _EPOCH_BITS = 36, 21, 6


def epoch_of(order: int) -> int:
    """Return the epoch of an order."""
    return order >> (_OFFSET_BITS + _FILE_BITS)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A place in the log, between two events.

    Offsets have 36 bits in the order: a file may have more than 4 GiB, because a transaction is never split.

    Args:
        file: the name of the file; its number follows the last dot.
        offset: the offset in the file, counted from the sizes of the events.
        epoch: how often the numbers began again, for example on another server with the same transactions.

    Examples:
        >>> LogPlace("binlog.000007", 4).text
        'binlog.000007:4'
        >>> LogPlace("binlog.000007", 2**33) < LogPlace("binlog.000008", 4) < LogPlace("binlog.000001", 4, 1)
        True
    """

    file: str
    offset: int
    epoch: int = 0

    @classmethod
    def parse(cls, text: str, epoch: int = 0) -> Self:
        """Return the place of a text.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        file, _, offset = text.rpartition(":")
        if not offset.isdecimal() or not file.rpartition(".")[2].isdecimal():
            raise SourceError("DATABASE_POSITION_INVALID", problem=f"`{text}` is not a file and an offset")
        return cls(file, int(offset), epoch)

    @property
    def order(self) -> int:
        """A positive number that sorts the places of one log.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        number = int(self.file.rpartition(".")[2])
        if number >> _FILE_BITS or self.offset >> _OFFSET_BITS or self.epoch >> _EPOCH_BITS:
            raise SourceError("DATABASE_POSITION_INVALID", problem=f"`{self.text}` is beyond the places with an order")
        return (self.epoch << _FILE_BITS | number) << _OFFSET_BITS | self.offset

    def after(self, order: int) -> LogPlace:
        """Return the same place in the first epoch in which it is not before an order of an earlier time.

        The log was reset, or another server has it, if its numbers are lower now.

        Examples:
            >>> before = LogPlace("binlog.000007", 4, 1).order
            >>> [LogPlace(file, 4).after(before).epoch for file in ("binlog.000008", "binlog.000001")]
            [1, 2]
        """
        found = replace(self, epoch=epoch_of(order))
        return found if found.order >= order else replace(found, epoch=found.epoch + 1)

    @property
    def text(self) -> str:
        """The place as people read it."""
        return f"{self.file}:{self.offset}"

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: LogPlace) -> bool:
        return self.order < other.order
