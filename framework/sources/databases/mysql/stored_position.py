"""The offset of a stream of changes: a place in the log, and what recognizes the log and its server again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from framework.foundation.errors import SourceError
from framework.sources.databases.mysql.log.places import LogPlace
from framework.sources.databases.position import Position
from framework.sources.databases.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTransaction:
    """The last transaction that was read: a server that was restored has another one at this place.

    Args:
        place: where it begins.
        gtid: its GTID; empty without one.
        commit_microseconds: when it was committed, since 1970.
    """

    place: LogPlace
    gtid: str
    commit_microseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPosition:
    """An offset.

    Args:
        place: all transactions that begin before it were read.
        source: the identity of the server.
        gtids: the transactions that were read, as the server writes them; empty without GTIDs.
        state: the last transaction of each domain and server of MariaDB, perhaps with some that are read next; empty if
            unknown, and for MySQL.
        last: the last transaction; None if none was read on this server.
        begun: when the file of the place was begun, in seconds since 1970; 0 if unknown.
        prepared: the XA transactions that are prepared, with the places where they begin.
        tables: the tables whose changes were read.
    """

    place: LogPlace
    source: str
    gtids: str = ""
    state: str = ""
    last: LastTransaction | None = None
    begun: int = 0
    prepared: Mapping[str, LogPlace] = field(default_factory=dict)
    tables: tuple[TableName, ...] = ()

    @property
    def order(self) -> int:
        """The order of the position."""
        return self.place.order

    @property
    def position(self) -> Position:
        """The position."""
        return Position(order=self.order, text=self.place.text, log=self.source)

    def to_json(self) -> str:
        """Return the offset as JSON."""
        value: dict[str, Any] = {
            "order": self.order,
            "text": self.place.text,
            "log": self.source,
            "epoch": self.place.epoch,
            "gtids": self.gtids,
            "begun": self.begun,
        }
        if self.state:
            value["state"] = self.state
        if self.last is not None:
            value["last"] = [self.last.place.text, self.last.gtid, self.last.commit_microseconds]
        if self.prepared:
            value["prepared"] = {xid: place.text for xid, place in self.prepared.items()}
        if self.tables:
            value["tables"] = sorted([each.schema, each.table] for each in self.tables)
        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read an offset of `to_json`.

        Raises:
            SourceError: DATABASE_POSITION_INVALID.
        """
        try:
            value = json.loads(text)
            last, epoch = value.get("last"), int(value["epoch"])
            return cls(
                place=LogPlace.parse(value["text"], epoch),
                source=str(value["log"] if "log" in value else value["source"]),  # older offsets
                gtids=str(value["gtids"]),
                state=str(value.get("state", "")),
                last=None if last is None else _last(epoch, *last),
                begun=int(value["begun"]),
                prepared={xid: LogPlace.parse(place, epoch) for xid, place in value.get("prepared", {}).items()},
                tables=tuple(TableName(schema=schema, table=table) for schema, table in value.get("tables", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"it has a missing or malformed field: {error}"
            raise SourceError("DATABASE_POSITION_INVALID", problem=problem) from error


def _last(epoch: int, place: str, gtid: str, commit_microseconds: int) -> LastTransaction:
    return LastTransaction(place=LogPlace.parse(place, epoch), gtid=gtid, commit_microseconds=int(commit_microseconds))
