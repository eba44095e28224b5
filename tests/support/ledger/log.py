"""The log of a ledger for `database_changes`: each call polls the table of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from framework.sources.databases.connections import Connection
from framework.sources.databases.options import Options
from framework.sources.databases.position import position_of
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.change_rows import ChangeBuffer, ChangeKind
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolWriter
from framework.sources.databases.tables import TableName
from tests.support.ledger.database import LOG_VERSION, SCHEMA, Ledger
from tests.support.ledger.positions import gap_of, offset_at

_CHANGES = """
SELECT number, at, name, operation, payload FROM ledger_changes WHERE number > ? AND number <= ? ORDER BY number LIMIT ?
"""


@dataclass(frozen=True)
class _Shape:
    table: TableName
    schema_version: int = LOG_VERSION


@dataclass(frozen=True)
class _Transaction:
    position: int
    commit_microseconds: int


@dataclass(frozen=True)
class LedgerChanges:
    """What the options of a stream of changes ask for."""

    connection: Connection
    name: str
    tables: tuple[TableName, ...]
    limit: ReadLimit
    generation: int
    advance_to: int
    not_after: int
    spool_folder: str | None

    @classmethod
    def of(cls, options: Options) -> LedgerChanges:
        """Read the options."""
        return cls(
            connection=options.connection(),
            name=options.text("slot"),
            tables=options.tables("tables"),
            limit=ReadLimit(rows=options.number("maxRowsPerTrigger", 1_000_000)),
            generation=options.number("generation", 0, least=0),
            advance_to=options.number("advanceTo", 0, least=0),
            not_after=options.number("notAfter", 0, least=0),
            spool_folder=options.optional("spoolFolder"),
        )

    def log(self, spool: Callable[[], Spool]) -> LedgerLog:
        """Return the log."""
        return LedgerLog(self, spool)


class LedgerLog:
    """The log, which nobody acknowledges."""

    idle_distance = 0
    keeps_start = False

    def __init__(self, request: LedgerChanges, spool: Callable[[], Spool]) -> None:
        self._request = request
        self._make_spool = spool
        self._spool: Spool | None = None

    def start(self) -> str:
        """Follow the tables, and begin at the end, or where a snapshot has begun."""
        ledger, request = Ledger.of(self._request.connection), self._request
        for name in request.tables:
            ledger.follow(name.table)
        found = offset_at(ledger, request.not_after or ledger.end)
        self._require(ledger, found)
        ledger.close()
        return found

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read the changes after a position."""
        ledger = Ledger.of(self._request.connection)
        self._require(ledger, start)
        # The end before the rows: a change that comes in between is in the next batch.
        batch = self._read(ledger, position_of(start).order, ledger.end, -1 if limit is None else limit.rows)
        found = offset_at(ledger, batch.end)
        ledger.close()
        return batch, found

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the changes between two positions once more."""
        ledger = Ledger.of(self._request.connection)
        self._require(ledger, start)
        batch = self._read(ledger, position_of(start).order, position_of(end).order, -1)
        ledger.close()
        return batch

    def acknowledge(self, position: str) -> None:
        """Nothing: the ledger waits for nobody."""

    def release(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is open."""

    def _require(self, ledger: Ledger, stored: str) -> None:
        gap = gap_of(ledger, stored, self._request.name)
        if gap is not None:
            raise gap.error()

    def _read(self, ledger: Ledger, start: int, end: int, most: int) -> SpooledBatch:
        self._spool = self._spool or self._make_spool()
        buffer, kinds = ChangeBuffer(), list[ChangeKind]()
        writer = SpoolWriter(
            self._spool, generation=self._request.generation, buffer=buffer, kinds=kinds, complete=lambda _: 0
        )
        wanted, places, reached = {each.table for each in self._request.tables}, dict[ChangeKind, int](), start
        rows = ledger.rows(_CHANGES, [start, end, most])
        for number, at, name, operation, payload in rows:
            reached = number
            if name not in wanted:
                continue
            kind = ChangeKind(_Shape(TableName(schema=SCHEMA, table=name)), operation)
            if kind not in places:
                places[kind] = len(kinds)
                kinds.append(kind)
            writer.begin(_Transaction(number, at))
            buffer.kinds.append(places[kind])
            buffer.payloads.append(payload)
            writer.commit()
            writer.relieve(most_pending=1)
        is_cut = len(rows) == most
        return writer.seal(start, reached if is_cut else end, caught_up=not is_cut)
