"""The offset of a stream of changes: a place in the log, and what recognizes the log and its server again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Self

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.position import Position

_EPOCH_BITS = 57
MOST_EPOCHS = 63
"""Epochs that fit into an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTransaction:
    """The last transaction that was read: a server that was restored has another one at this place.

    Args:
        place: where it begins.
        gtid: its GTID; empty without one.
        seconds: when it was logged.
    """

    place: LogPlace
    gtid: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosition:
    """An offset.

    Args:
        place: all transactions that begin before it were read.
        epoch: how often the log was continued on another server.
        source: the identity of the server.
        gtids: the transactions that were read, as the server writes them; empty without GTIDs.
        last: the last transaction; None if none was read on this server.
    """

    place: LogPlace
    source: str
    epoch: int = 0
    gtids: str = ""
    last: LastTransaction | None = None

    @property
    def order(self) -> int:
        """The order of the position."""
        return order_of(self.place, self.epoch)

    @property
    def position(self) -> Position:
        """The position."""
        return Position(order=self.order, text=self.place.text)

    def at(self, place: LogPlace, gtids: str, last: LastTransaction | None) -> StoredPosition:
        """Return a later position of the same log."""
        return replace(self, place=place, gtids=gtids, last=last or self.last)

    def to_json(self) -> str:
        """Return the offset as JSON."""
        value: dict[str, Any] = {
            "order": self.order,
            "text": self.place.text,
            "source": self.source,
            "epoch": self.epoch,
            "gtids": self.gtids,
        }
        if self.last is not None:
            value["last"] = [self.last.place.text, self.last.gtid, self.last.seconds]
        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an offset of `to_json`.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        try:
            value = json.loads(text)
            last = value.get("last")
            return cls(
                place=LogPlace.parse(value["text"]),
                source=str(value["source"]),
                epoch=int(value["epoch"]),
                gtids=str(value["gtids"]),
                last=None if last is None else _last(*last),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it has a missing or malformed field: {error}"
            raise SourceError("DATABASE_POSITION_INVALID", problem=problem) from error


def order_of(place: LogPlace, epoch: int) -> int:
    """Return a number that sorts the places of all epochs.

    Raises:
        SourceError: MYSQL_EPOCHS_EXHAUSTED.
    """
    if epoch > MOST_EPOCHS:
        raise SourceError("MYSQL_EPOCHS_EXHAUSTED", most=MOST_EPOCHS)
    return epoch << _EPOCH_BITS | place.order


def _last(place: str, gtid: str, seconds: int) -> LastTransaction:
    return LastTransaction(place=LogPlace.parse(place), gtid=gtid, seconds=int(seconds))
