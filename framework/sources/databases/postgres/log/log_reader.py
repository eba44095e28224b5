"""The reader of a slot: writes whole transactions, in commit order, into batches of the spool.

Positions. An offset is the end of a commit record, or the position of a keepalive that arrived between transactions.
Both are ends of records that the server has decoded, so every commit record either starts at or after the offset, or
ends at or before it. Acknowledgements depend on this: the server skips transactions whose commit record *starts* before
the confirmed position, so a position within a commit record would lose its transaction. The server's flush position may
lie within a record; it is only compared with, never used as an offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import psycopg2

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import InternalError, SourceError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.faults import named_error
from framework.sources.databases.postgres.log.changes import ChangeEncoder, FragmentFactory, RowKey
from framework.sources.databases.postgres.log.pgoutput import Commit
from framework.sources.databases.postgres.log.position_check import (
    StoredPosition,
    check_position,
    history_gap,
    unconfirmed_from,
)
from framework.sources.databases.postgres.log.reading import Goal, LogScan, Reading, next_messages
from framework.sources.databases.postgres.log.reread import OmittedValues
from framework.sources.databases.postgres.log.seen_partitions import PartitionWatch, SeenPartitions
from framework.sources.databases.postgres.log.stream import ReplicationStream, open_stream, wait_for_slot
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.tables.partitions import is_partition
from framework.sources.databases.postgres.values.log_types import LogTypes
from framework.sources.databases.source_session import Gap
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.streams.spool import Spool, SpooledBatch, SpoolWriter
from framework.sources.databases.tables import TableName

_RELEASE_SECONDS, _RELEASE_POLL_SECONDS = 5.0, 0.005
_IS_READ = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active_pid = %s"
_FLUSHED = "SELECT pg_current_wal_flush_lsn()"
_CONFIRMED = "SELECT confirmed_flush_lsn, active_pid FROM pg_replication_slots WHERE slot_name = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBatch(SpooledBatch):
    """A batch, with the facts that the position at its end records.

    Args:
        seen: partitions and truncates in it.
        last: the end of its last transaction; None if it has none.
    """

    seen: SeenPartitions = field(default_factory=SeenPartitions)
    last: Commit | None = None

    @classmethod
    def of(cls, batch: SpooledBatch, *, seen: SeenPartitions, last: Commit | None) -> Self:
        """Return a batch with both facts."""
        return cls(**{each.name: getattr(batch, each.name) for each in fields(batch)}, seen=seen, last=last)


class LogReader:
    """Reads one slot; not for use by several threads.

    Args:
        connection: the database.
        position: the slot, the publication and the identity of the server; the first start.
        spool: receives the batches.
        fragments: encodes values as JSON; by the types of the database if omitted.
        text_columns: columns that are then read as text (option `textColumns`).
        keys: what identifies the rows of tables.
        keeps_unreadable: whether a row that can't be encoded is kept with the operation UNREADABLE.
        histories: tables whose copies keep every state of a row, see `reread`.
        generation: of the rows.
        tables: oids of tables with their names, see `ChangeEncoder`.
        partitions: oids of partitions with the names of their tables.
        watch: records the partitions in the log; a change through a partition that no longer exists is unreadable.
        slot_wait_seconds: how long to wait for a slot that another process reads; the server notices the end of a
            process on another machine after wal_sender_timeout.
        clock: for waiting.
    """

    def __init__(
        self,
        connection: Connection,
        position: StoredPosition,
        *,
        spool: Spool,
        fragments: FragmentFactory | None = None,
        text_columns: Mapping[TableName, Collection[str]] | None = None,
        keys: Mapping[TableName, RowKey] | None = None,
        keeps_unreadable: bool = False,
        histories: Collection[TableName] = (),
        generation: int = 0,
        tables: Sequence[tuple[int, TableName]] = (),
        partitions: Sequence[tuple[int, TableName]] = (),
        watch: PartitionWatch | None = None,
        slot_wait_seconds: float = 90.0,
        clock: Clock | None = None,
    ) -> None:
        self._source = connection
        self._position = position
        self._spool = spool
        self._generation = generation
        self._slot_wait_seconds = slot_wait_seconds
        self._clock = clock or SystemClock()
        self._buffer = ChangeBuffer()
        types = LogTypes(self._session, text_columns)
        self._watch = watch or PartitionWatch(())
        self._encoder = ChangeEncoder(
            fragments or types,
            keys or {},
            self._buffer,
            keeps_unreadable=keeps_unreadable,
            tables=tables,
            partitions=partitions,
            watch=self._watch,
        )
        self._omitted = OmittedValues(self._session, self._clock, histories=histories)
        self._opened: Session | None = None
        self._stream: ReplicationStream | None = None
        self._messages: list[bytes] = []
        # All transactions up to `_last_end` were delivered, and none ends between it and `_delivered`.
        self._last_end = 0
        self._delivered = 0

    def expect(self, position: StoredPosition) -> None:
        """Set a later position of the same slot, where the next calls begin."""
        self._position = position

    def read_transactions(self, start: int, limit: ReadLimit | None = None) -> LogBatch:
        """Read the transactions that end after a position and are committed at the time of the call.

        The batch ends earlier at a limit. A single transaction is never split; its rows are written to files, so memory
        is bounded.

        Args:
            start: the end of an earlier batch, or the start of the position.
            limit: when the batch ends.

        Raises:
            SourceError: DATABASE_UNREACHABLE (transient; the same call gives the same rows again),
                DATABASE_POSITION_LOST, DATABASE_SLOT_IN_USE, DATABASE_LOG_NOT_READABLE, DATABASE_COMMIT_NOT_VISIBLE.
        """
        with self._faults():
            target = parse_lsn(self._one(_FLUSHED))
            return self._read(start, Goal(target, limit or ReadLimit(), self._clock, self._source))

    def read_range(self, start: int, end: int) -> LogBatch:
        """Read the transactions that end after `start` and not after `end` again.

        Each read gives the same rows with the same positions, ordinals, operations and values. The only exception:
        values that the log left out may be newer (see `reread`).

        Args:
            start: the start of an earlier batch.
            end: its end.

        Raises:
            SourceError: as `read_transactions`.
        """
        if start == end:
            return _nothing(start)
        with self._faults():
            return self._read(start, Goal(end, None, self._clock, self._source))

    def acknowledge(self, lsn: int) -> None:
        """Let the server discard its log up to the end of a batch, and remove the spooled files up to that position.

        Call it only when the batch is durable at the target and its end is in the checkpoint: a slot ahead of the
        checkpoint is a gap.

        Args:
            lsn: the end of a batch.

        Raises:
            SourceError: DATABASE_UNREACHABLE, DATABASE_SLOT_IN_USE.
        """
        with self._faults():
            if self._stream is None:
                # Otherwise the slot of another or a restored source would lose changes.
                self._require_no_gap(lsn)
                self._advance_slot(lsn)
            elif lsn > self._delivered:
                problem = f"{format_lsn(lsn)} was acknowledged, but only {format_lsn(self._delivered)} was delivered"
                raise InternalError("POSTGRES_LOG_OUT_OF_ORDER", problem=problem)
            else:
                self._stream.send_status(acknowledged=lsn)
        self._spool.remove_until(lsn)

    def release(self) -> None:
        """Close the stream and wait shortly until the server releases the slot, so that it can be dropped."""
        if self._stream is None:
            return
        backend = self._stream.backend
        self._close_stream()
        deadline = self._clock.monotonic() + _RELEASE_SECONDS
        with suppress(SourceError, psycopg2.Error):  # the connection is lost, and the stream's as well
            while self._one(_IS_READ, self._position.slot, backend) and self._clock.monotonic() < deadline:
                self._clock.sleep(_RELEASE_POLL_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._close_stream()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _session(self) -> Session:
        if self._opened is None:
            # A transaction that takes an id (see _nudge) can't be read-only.
            self._opened = Session(self._source, read_only=False)
        return self._opened

    def _one(self, query: str, *arguments: object) -> Any:
        with self._session().raw.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchone()[0]

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Close the connections after an error, because the position of the stream is then unknown."""
        try:
            yield
        except psycopg2.Error as error:
            self.close()
            raise named_error(error, self._source, table=None, connecting=False) from None
        except BaseException:
            self.close()
            raise

    def _read(self, start: int, goal: Goal) -> LogBatch:
        self._open_at(start)
        self._watch.take()
        writer = SpoolWriter(
            self._spool,
            generation=self._generation,
            buffer=self._buffer,
            kinds=self._encoder.kinds,
            complete=self._complete,
        )
        try:
            end, last = self._deliver(start, goal, writer)
            return LogBatch.of(writer.seal(start, end, caught_up=goal.reached), seen=self._watch.take(), last=last)
        except BaseException:
            writer.discard()
            raise

    def _deliver(self, start: int, goal: Goal, writer: SpoolWriter) -> tuple[int, Commit | None]:
        """Read until the goal; return the end of the batch and the commit of its last transaction."""
        reading = Reading(
            self._encoder,
            self._buffer,
            writer,
            goal=goal,
            most_pending=lambda: self._omitted.rows_per_query,
            settle=self._settle,
            start=start,
        )
        goal.renew_silence()
        while True:
            if not self._messages:
                self._messages = next_messages(self._require_stream(), goal, self._nudge)
            done, taken = reading.take(self._messages)
            del self._messages[:taken]
            if reading.reply_requested:
                self._require_stream().send_status()
                reading.reply_requested = False
            if done:
                return reading.finish(self._note), reading.last

    def _note(self, last_end: int, delivered: int) -> None:
        self._last_end, self._delivered = last_end, max(delivered, self._delivered)

    def _nudge(self) -> None:
        # A transaction that only takes an id flushes the log behind the record of an open one.
        self._one("SELECT pg_current_xact_id()::text")

    def _complete(self, buffer: ChangeBuffer) -> int:
        size = 0
        rows = self._omitted.complete(buffer.pending)
        for pending, values in zip(buffer.pending, rows, strict=True):
            size += self._encoder.complete(pending, values)
        buffer.pending.clear()
        return size

    def _settle(self) -> None:
        """Check the new partitions of a transaction: rows of a dropped partition are no longer in its table."""
        for oid, seen in self._watch.commit():
            if is_partition(self._session(), oid, seen.table):
                continue
            # The transaction may have created it, and the log is ahead of visibility.
            self._omitted.wait_until_visible([seen.xid])
            if not is_partition(self._session(), oid, seen.table):
                self._encoder.refuse(seen)

    def _require_stream(self) -> ReplicationStream:
        if self._stream is None:
            raise InternalError("POSTGRES_LOG_OUT_OF_ORDER", problem="there is no stream")
        return self._stream

    def _open_at(self, start: int) -> None:
        """Make sure that a stream is open at a position: the present stream or a new one."""
        if self._stream is not None and self._last_end <= start <= self._delivered:
            return
        self._close_stream()
        self._require_no_gap(start)
        stream = self._start_stream(start)
        self._stream, self._last_end, self._delivered = stream, start, start
        # Nobody else can advance the slot now. Had it been advanced before, the server would skip without an error.
        self._require_no_gap(start)

    def _require_no_gap(self, start: int) -> None:
        is_stored = start == self._position.lsn
        stored = self._position if is_stored else replace(self._position, lsn=start, last=None)
        gap = check_position(self._session(), stored)
        if gap is None and self._stream is None:
            gap = self._history_gap(stored)
        if gap is not None:
            raise gap.error()

    def _history_gap(self, stored: StoredPosition) -> Gap | None:
        """Compare the log that the slot retains below the position with what was read; a stream would discard it."""
        confirmed = unconfirmed_from(self._session(), stored)
        if confirmed is None:
            return None
        self._stream = self._start_stream(confirmed)
        goal = Goal(stored.lsn, None, self._clock, self._source)
        scan = LogScan(stored.lsn).run(self._stream, goal, self._nudge)
        self._close_stream()
        return history_gap(stored, confirmed, scan.last)

    def _start_stream(self, start: int) -> ReplicationStream:
        timeout = int(self._one("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")) / 1000
        return open_stream(
            self._session(),
            slot=self._position.slot,
            publication=self._position.publication,
            start=start,
            feedback_seconds=min(timeout / 4, 10.0) if timeout else 10.0,
            wait_seconds=self._slot_wait_seconds,
            clock=self._clock,
        )

    def _advance_slot(self, lsn: int) -> None:
        """Advance the slot without a stream.

        The server decodes up to the first end of a record at or after the target. The target is itself the end of a
        record, so the server stops at the target and confirms it.
        """
        slot = self._position.slot
        deadline = self._clock.monotonic() + self._slot_wait_seconds
        while True:
            with self._session().raw.cursor() as cursor:
                cursor.execute(_CONFIRMED, [slot])
                row = cursor.fetchone()
                if row is None or parse_lsn(row[0]) >= lsn:
                    return
                try:
                    cursor.execute("SELECT pg_replication_slot_advance(%s, %s)", [slot, format_lsn(lsn)])
                except psycopg2.errors.ObjectInUse:
                    wait_for_slot(self._session(), slot, deadline, self._clock)
                else:
                    return

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._messages = []


def _nothing(position: int) -> LogBatch:
    return LogBatch(
        start=position,
        end=position,
        files=(),
        rows=0,
        transactions=0,
        rows_by_table={},
        relations=(),
        caught_up=False,
    )
