"""The log of PostgreSQL for `database_changes`: one replication slot serves all tables of a flow.

The slot is advanced only to an offset whose micro-batch is committed, so the log between two offsets can be read again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.foundation.errors import SourceError
from framework.sources.databases.options import Options
from framework.sources.databases.postgres.log.changes import RowKey
from framework.sources.databases.postgres.log.log_reader import LogReader
from framework.sources.databases.postgres.log.position import ensure_position
from framework.sources.databases.postgres.log.position_check import StoredPosition, check_position, other_slot_gap
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch, horizons_of
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.catalog import partitions_without_key, read_identity, read_tables
from framework.sources.databases.postgres.tables.membership import read_membership, refuse_filtered
from framework.sources.databases.streams.change_log import ReadLimit

if TYPE_CHECKING:
    from framework.sources.databases.connections import Connection
    from framework.sources.databases.streams.spool import Spool, SpooledBatch
    from framework.sources.databases.tables import TableName

_ROWS_PER_TRIGGER = 1_000_000
_BYTES_PER_TRIGGER = 256 << 20
# A position without changes is stored only this far behind, so that an idle database costs no micro-batch.
_IDLE_LOG_BYTES = 16 << 20


@dataclass(frozen=True)
class ChangesRequest:
    """The request for a stream of changes, as its options describe it."""

    connection: Connection
    slot: str
    publication: str
    tables: tuple[TableName, ...]
    text_columns: dict[TableName, tuple[str, ...]]
    limit: ReadLimit
    generation: int
    spool_folder: str | None
    advance_to: int
    keeps_unreadable: bool
    relations: tuple[tuple[int, TableName], ...]
    partitions: tuple[tuple[int, TableName], ...]
    horizons: dict[int, int]
    empty: tuple[tuple[int, TableName], ...]
    not_after: int
    histories: tuple[TableName, ...]
    keys: dict[TableName, tuple[str, ...]]
    slot_reader: str

    @classmethod
    def of(cls, options: Options) -> ChangesRequest:
        """Read the options.

        Raises:
            UserError: DATABASE_OPTION_MISSING, DATABASE_OPTION_INVALID, or an error of the connection.
        """
        slot, relations = options.text("slot"), _by_oid(options, "identities")
        return cls(
            connection=options.connection(),
            slot=slot,
            publication=options.text("publication", slot),
            tables=options.tables("tables"),
            text_columns=options.columns_of_tables("textColumns"),
            limit=ReadLimit(
                rows=options.number("maxRowsPerTrigger", _ROWS_PER_TRIGGER),
                bytes=options.size("maxBytesPerTrigger", _BYTES_PER_TRIGGER),
            ),
            generation=options.number("generation", 0, least=0),
            spool_folder=options.optional("spoolFolder"),
            advance_to=options.number("advanceTo", 0, least=0),
            keeps_unreadable=options.choice("unreadableRows", ("fail", "keep")) == "keep",
            relations=relations,
            partitions=_by_oid(options, "partitions"),
            empty=_by_oid(options, "emptyPartitions"),
            horizons=horizons_of(relations, _by_oid(options, "partitionsSince")),
            not_after=options.number("notAfter", 0, least=0),
            histories=options.tables("historyTables") if options.optional("historyTables") else (),
            keys=options.columns_of_tables("keys"),
            slot_reader=options.text("reader", ""),
        )

    @property
    def known_partitions(self) -> set[int]:
        """The oids of the partitions that had rows in the last comparison."""
        return {oid for oid, _ in self.partitions} - {oid for oid, _ in self.empty}

    def log(self, spool: Callable[[], Spool]) -> PostgresLog:
        """Return the log.

        Args:
            spool: makes the folder of its batches, for the first one.
        """
        return PostgresLog(self, spool)


class PostgresLog:
    """The log of one replication slot, read over one connection that stays open.

    Args:
        request: what to read.
        spool: makes the folder of the batches, for the first one.
    """

    def __init__(self, request: ChangesRequest, spool: Callable[[], Spool]) -> None:
        self._request = request
        self._spool = spool
        self._opened: LogReader | None = None

    @property
    def idle_distance(self) -> int:
        """How far a stored position without changes may lag: the server keeps its log from the stored position."""
        return _IDLE_LOG_BYTES

    @property
    def keeps_start(self) -> bool:
        """The slot keeps it."""
        return True

    def start(self) -> str:
        """Return the position of the slot, which is created if there is none; a snapshot may begin afterwards."""
        request = self._request
        with Session(request.connection, read_only=False) as session:
            if request.not_after:
                self._require_log(session, request.not_after)
            found = ensure_position(
                session, request.slot, request.publication, request.tables, reader=request.slot_reader
            )
        return found.stored().to_json()

    def read_transactions(self, start: str, limit: ReadLimit | None) -> tuple[SpooledBatch, str]:
        """Read the transactions that end after a position, see `LogReader`."""
        stored = StoredPosition.from_json(start)
        batch = self._reader(stored).read_transactions(stored.lsn, limit)
        seen = stored.seen.then(batch.seen).since(self._request.horizons)
        return batch, stored.at(batch.end, seen, batch.last).to_json()

    def read_range(self, start: str, end: str) -> SpooledBatch:
        """Read the transactions between two positions again, see `LogReader`."""
        begin, finish = (StoredPosition.from_json(each) for each in (start, end))
        return self._reader(begin).read_range(begin.lsn, finish.lsn)

    def acknowledge(self, position: str) -> None:
        """Advance the slot."""
        stored = StoredPosition.from_json(position)
        self._reader(stored).acknowledge(stored.lsn)

    def release(self) -> None:
        """Release the slot."""
        if self._opened is not None:
            self._opened.release()

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()

    def _require_log(self, session: Session, lsn: int) -> None:
        """Refuse a slot that was dropped, or created after a snapshot began: changes in between would be missing."""
        request = self._request
        gap = check_position(
            session,
            StoredPosition(
                slot=request.slot, publication=request.publication, lsn=lsn, identity=read_identity(session)
            ),
        )
        if gap is not None:
            raise gap.error()

    def _reader(self, stored: StoredPosition) -> LogReader:
        if self._opened is None:
            request = self._request
            gap = other_slot_gap(stored, request.slot, request.publication)
            if gap is not None:
                raise gap.error()
            spool = self._spool()
            with Session(request.connection) as session:
                if not request.keeps_unreadable:  # else the reader of each table refuses its own rows
                    members = read_membership(session, request.slot, request.publication)
                    refuse_filtered(members, request.publication, request.tables)
                keys = _keys_of(session, request)
            self._opened = LogReader(
                request.connection,
                stored,
                spool=spool,
                text_columns=request.text_columns,
                keys=keys,
                keeps_unreadable=request.keeps_unreadable,
                histories=request.histories,
                generation=request.generation,
                tables=request.relations,
                partitions=request.partitions,
                watch=PartitionWatch(request.horizons, request.known_partitions),
            )
        self._opened.expect(stored)
        return self._opened


def _by_oid(options: Options, name: str) -> tuple[tuple[int, TableName], ...]:
    """Return a list of tables, each as `schema.table.oid`.

    Raises:
        UserError: DATABASE_OPTION_INVALID.
    """
    found = options.identities(name)
    if not all(oid.isdecimal() for oid, _ in found):
        raise options.invalid(name, "tables with their oid as schema.table.oid, such as public.orders.16385")
    return tuple((int(oid), table) for oid, table in found)


def _keys_of(session: Session, request: ChangesRequest) -> dict[TableName, RowKey]:
    """Return the keys that identify the rows of tables: the given keys, which are required, or the catalog's keys.

    A table that was dropped since has no key: it must not stop the changes of the other tables.
    """
    found = read_tables(session, [name for name in request.tables if name not in request.keys])
    keys = {name: RowKey(columns=table.key) for name, table in found.items() if not isinstance(table, SourceError)}
    lacking = partitions_without_key(session, request.keys)
    for name, columns in request.keys.items():
        is_logged = not lacking[name] if name in lacking else None
        keys[name] = RowKey(columns=columns, is_required=True, is_logged=is_logged)
    return keys
