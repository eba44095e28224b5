"""The reader of a slot: whole transactions in the order of their commits, into batches of the spool.

Positions. An offset is the end of a commit record, or the position of a keepalive that arrived between transactions.
Both are ends of records that the server has decoded, so every commit record starts at or after the offset or ends at or
before it. This is what makes an acknowledgement exact: the server skips transactions whose commit record *starts*
before the confirmed position, so a position within a commit record would lose its transaction. The server's flush
position may lie within a record; it is compared with, and never used as an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2

from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import InternalError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.changes import ChangeBuffer, ChangeEncoder, FragmentFactory
from framework.sources.databases.postgres.faults import named_error
from framework.sources.databases.postgres.log_types import LogTypes
from framework.sources.databases.postgres.lsn import format_lsn, parse_lsn
from framework.sources.databases.postgres.pgoutput import Begin, Commit, Relation, Truncate, decode
from framework.sources.databases.postgres.position import slot_in_use
from framework.sources.databases.postgres.position_check import StoredPosition, check_position
from framework.sources.databases.postgres.reread import OmittedValues
from framework.sources.databases.postgres.session import Session
from framework.sources.databases.postgres.spool import Spool, SpooledBatch, SpoolWriter
from framework.sources.databases.postgres.stream import (
    DATA,
    PAYLOAD_START,
    ReplicationStream,
    StartRefusedError,
    read_keepalive,
    unreachable,
)
from framework.sources.databases.tables import TableName

_INSERT, _UPDATE, _DELETE = b"IUD"
_POLL_SECONDS = 0.1
_NUDGE_SECONDS = 1.0
_SILENCE_SECONDS = 120.0
_OBJECT_IN_USE = "55006"
_FLUSHED = "SELECT pg_current_wal_flush_lsn()"
_CONFIRMED = "SELECT confirmed_flush_lsn, active_pid FROM pg_replication_slots WHERE slot_name = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimit:
    """When a batch ends: at the first end of a transaction at which one of these is reached.

    Args:
        rows: of changes.
        bytes: of the log's messages.
    """

    rows: int = 1_000_000
    bytes: int = 256 << 20


class LogReader:
    """Reads one slot; not for use by several threads, except `request_stop`.

    Args:
        connection: the database.
        position: the slot, the publication and the identity of the server; the first start.
        spool: receives the batches.
        fragments: encodes values as JSON; by the types of the database if omitted.
        text_columns: columns that are then read as text (option `textColumns`).
        keys: the columns that identify rows, for tables with REPLICA IDENTITY FULL.
        generation: of the rows.
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
        keys: Mapping[TableName, tuple[str, ...]] | None = None,
        generation: int = 0,
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
        self._encoder = ChangeEncoder(fragments or types, keys or {}, self._buffer)
        self._omitted = OmittedValues(self._session, self._clock)
        self._opened: Session | None = None
        self._stream: ReplicationStream | None = None
        self._messages: list[bytes] = []
        # All transactions up to `_last_end` were delivered, and none ends between it and `_delivered`.
        self._last_end = 0
        self._delivered = 0
        self._stop_requested = False

    def read_transactions(self, start: int, limit: ReadLimit | None = None) -> SpooledBatch:
        """Read the transactions that end after a position, up to what is committed at the time of the call.

        The batch ends earlier at a limit or when a stop is requested. A single transaction is never cut; its rows are
        in files, so memory is bounded. If a stop is requested within a transaction, the batch is empty and ends at
        `start`.

        Args:
            start: the end of an earlier batch, or the start of the position.
            limit: when the batch ends.

        Raises:
            SourceError: DATABASE_UNREACHABLE (transient; the same call gives the same rows again),
                DATABASE_POSITION_LOST, DATABASE_SLOT_IN_USE, DATABASE_LOG_NOT_READABLE, DATABASE_COMMIT_NOT_VISIBLE.
        """
        with self._faults():
            target = parse_lsn(self._one(_FLUSHED))
            return self._read(start, _Goal(target, limit or ReadLimit(), self._clock, self._source))

    def read_range(self, start: int, end: int) -> SpooledBatch:
        """Read the transactions that end after `start` and not after `end` once more.

        The rows, their positions, ordinals and operations are the same each time. Values that the log left out may be
        newer ones (see `reread`).

        Args:
            start: the start of an earlier batch.
            end: its end.

        Raises:
            SourceError: as `read_transactions`.
        """
        if start == end:
            return _nothing(start)
        with self._faults():
            return self._read(start, _Goal(end, None, self._clock, self._source))

    def acknowledge(self, lsn: int) -> None:
        """Let the server discard its log up to the end of a batch, and remove the spooled files up to there.

        Call it when the batch is durable at the target and its end is in the checkpoint: a slot that is ahead of the
        checkpoint is a gap.

        Args:
            lsn: the end of a batch.

        Raises:
            SourceError: DATABASE_UNREACHABLE, DATABASE_SLOT_IN_USE.
        """
        with self._faults():
            if self._stream is None:
                self._advance_slot(lsn)
            elif lsn > self._delivered:
                problem = f"{format_lsn(lsn)} was acknowledged, but only {format_lsn(self._delivered)} was delivered"
                raise InternalError("POSTGRES_LOG_OUT_OF_ORDER", problem=problem)
            else:
                self._stream.send_status(acknowledged=lsn)
        self._spool.remove_until(lsn)

    def request_stop(self) -> None:
        """End the current read soon, from another thread; later reads end at once."""
        self._stop_requested = True

    def close(self) -> None:
        """Close the connections."""
        self._close_stream()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _session(self) -> Session:
        if self._opened is None:
            # A transaction that takes an id (see _next_messages) is no read-only one.
            self._opened = Session(self._source, read_only=False)
        return self._opened

    def _one(self, query: str, *arguments: object) -> Any:
        with self._session().raw.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchone()[0]

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Close the connections after a fault: where the stream stands is then unknown."""
        try:
            yield
        except psycopg2.Error as error:
            self.close()
            raise named_error(error, self._source, table=None, connecting=False) from None
        except BaseException:
            self.close()
            raise

    def _read(self, start: int, goal: _Goal) -> SpooledBatch:
        self._open_at(start)
        writer = SpoolWriter(
            self._spool,
            generation=self._generation,
            buffer=self._buffer,
            kinds=self._encoder.kinds,
            complete=self._complete,
        )
        try:
            end = self._deliver(start, goal, writer)
            if end is None:
                self._close_stream()
                writer.discard()
                return _nothing(start)
            return writer.seal(start, end, caught_up=goal.reached)
        except BaseException:
            writer.discard()
            raise

    def _deliver(self, start: int, goal: _Goal, writer: SpoolWriter) -> int | None:
        """Read until the goal; the end of the batch, or None if a stop was requested within a transaction."""
        reading = _Reading(
            self._encoder,
            self._buffer,
            writer,
            goal=goal,
            most_pending=lambda: self._omitted.rows_per_query,
            start=start,
        )
        goal.renew_silence()
        while True:
            if self._stop_requested:
                return None if reading.in_transaction else reading.finish(self._note)
            if not self._messages:
                self._messages = self._next_messages(goal)
            done, taken = reading.take(self._messages)
            del self._messages[:taken]
            if reading.reply_requested:
                self._require_stream().send_status()
                reading.reply_requested = False
            if done:
                return reading.finish(self._note)

    def _note(self, last_end: int, delivered: int) -> None:
        self._last_end, self._delivered = last_end, max(delivered, self._delivered)

    def _next_messages(self, goal: _Goal) -> list[bytes]:
        """Wait for messages a little; without any, request a keepalive, which says how far the server has read."""
        stream = self._require_stream()
        messages = stream.read(0)
        if not messages:
            stream.send_status(request_reply=True)
            messages = stream.read(_POLL_SECONDS)
        if messages:
            goal.renew_silence()
        if goal.needs_nudge(messages):
            # The flush position can lie within the record of an open transaction, which the server does not decode: a
            # transaction that only takes an id flushes the log behind it.
            self._one("SELECT pg_current_xact_id()::text")
        return messages

    def _complete(self, buffer: ChangeBuffer) -> int:
        size = 0
        rows = self._omitted.complete(buffer.pending)
        for pending, values in zip(buffer.pending, rows, strict=True):
            payload = pending.encoder.payload(values)
            buffer.payloads[pending.row] = payload
            size += len(payload)
        buffer.pending.clear()
        return size

    def _require_stream(self) -> ReplicationStream:
        if self._stream is None:
            raise InternalError("POSTGRES_LOG_OUT_OF_ORDER", problem="there is no stream")
        return self._stream

    def _open_at(self, start: int) -> None:
        """Have a stream that stands at a position: the present one, or a new one."""
        if self._stream is not None and self._last_end <= start <= self._delivered:
            return
        self._close_stream()
        self._require_no_gap(start)
        stream = self._start_stream(start)
        self._stream, self._last_end, self._delivered = stream, start, start
        # Nobody else can advance the slot now. Had it been advanced before, the server would skip without an error.
        self._require_no_gap(start)

    def _require_no_gap(self, start: int) -> None:
        stored = self._position
        gap = check_position(
            self._session(),
            StoredPosition(slot=stored.slot, publication=stored.publication, lsn=start, identity=stored.identity),
        )
        if gap is not None:
            raise gap.error()

    def _start_stream(self, start: int) -> ReplicationStream:
        timeout = int(self._one("SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'")) / 1000
        deadline = self._clock.monotonic() + self._slot_wait_seconds
        while True:
            try:
                return ReplicationStream(
                    self._source,
                    slot=self._position.slot,
                    publication=self._position.publication,
                    start=start,
                    feedback_seconds=min(timeout / 4, 10.0) if timeout else 10.0,
                )
            except StartRefusedError as error:
                if error.sqlstate != _OBJECT_IN_USE:
                    raise
                self._wait_for_slot(deadline)

    def _wait_for_slot(self, deadline: float) -> None:
        if self._clock.monotonic() > deadline:
            pid = self._one("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", self._position.slot)
            raise slot_in_use(self._position.slot, pid)
        self._clock.sleep(_POLL_SECONDS)

    def _advance_slot(self, lsn: int) -> None:
        """Advance the slot without a stream.

        The server decodes up to the first end of a record at or after the target. The target is the end of a record, so
        that is the target; and the server confirms the target itself.
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
                    self._wait_for_slot(deadline)
                else:
                    return

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._messages = []


class _Goal:
    """When a read is done, and how long nothing may arrive.

    Args:
        target: all transactions that end at or before it are to be delivered.
        limit: ends the read earlier; None to read up to the target exactly.
        clock: for the silence.
        source: for error texts.
    """

    def __init__(self, target: int, limit: ReadLimit | None, clock: Clock, source: Connection) -> None:
        self._source = source
        self.target = target
        self.limit = limit
        self.reached = False
        self._clock = clock
        self._silent_since = clock.monotonic()
        self._nudged = False
        self._idle_since = self._silent_since

    def renew_silence(self) -> None:
        """Note that something arrived."""
        self._silent_since = self._clock.monotonic()

    def needs_nudge(self, messages: list[bytes]) -> bool:
        """Whether the server has nothing to send for a second, though the target is not reached; once.

        Raises:
            SourceError: DATABASE_UNREACHABLE, when not even keepalives arrive.
        """
        now = self._clock.monotonic()
        if any(message[0] == DATA for message in messages):
            self._idle_since = now
        if now - self._silent_since > _SILENCE_SECONDS:
            problem = f"the server sent nothing for {_SILENCE_SECONDS:.0f} seconds"
            raise unreachable(self._source, problem)
        due = not self._nudged and now - self._idle_since > _NUDGE_SECONDS
        self._nudged = self._nudged or due
        return due


class _Reading:
    """One read: from messages to rows of the writer."""

    def __init__(
        self,
        encoder: ChangeEncoder,
        buffer: ChangeBuffer,
        writer: SpoolWriter,
        *,
        goal: _Goal,
        most_pending: Callable[[], int],
        start: int,
    ) -> None:
        self.in_transaction = False
        self.reply_requested = False
        self._encoder = encoder
        self._buffer = buffer
        self._writer = writer
        self._goal = goal
        self._most_pending = most_pending
        self._last_end = start
        self._delivered = start
        self._bytes = 0

    def take(self, messages: list[bytes]) -> tuple[bool, int]:
        """Add the rows of messages; whether the goal is reached, and how many messages were used."""
        insert, update, delete = self._encoder.insert, self._encoder.update, self._encoder.delete
        pending, writer = self._buffer.pending, self._writer
        body = PAYLOAD_START + 1
        for index, data in enumerate(messages):
            self._bytes += len(data)
            if data[0] != DATA:
                if self._keepalive(data):
                    return True, index + 1
                continue
            kind = data[PAYLOAD_START]
            writer.bytes_in_buffer += len(data)
            if kind == _INSERT:
                insert(data, body)
            elif kind == _UPDATE:
                update(data, body)
                if pending:
                    writer.relieve(most_pending=self._most_pending())
            elif kind == _DELETE:
                delete(data, body)
            else:
                stop = self._control(decode(data, PAYLOAD_START))
                if stop is not None:
                    return True, index + stop
        writer.relieve(most_pending=self._most_pending())
        return False, len(messages)

    def finish(self, note: Callable[[int, int], None]) -> int:
        """Return the end of the batch, and note how far the stream was read."""
        note(self._last_end, self._delivered)
        return self._goal.target if self._goal.limit is None else self._delivered

    def _keepalive(self, data: bytes) -> bool:
        position, _, reply = read_keepalive(data, 1)
        self.reply_requested |= bool(reply)
        if self.in_transaction:
            return False
        # Everything that the server has decoded up to there was sent before.
        self._delivered = max(self._delivered, position)
        self._goal.reached |= self._delivered >= self._goal.target
        return self._goal.reached

    def _control(self, message: object) -> int | None:
        """Handle a message that is no row; if the goal is reached, how many messages were used: this one or not."""
        match message:
            case Begin():
                if message.position >= self._goal.target:
                    self._goal.reached = True
                    return 0
                self.in_transaction = True
                self._encoder.xid = message.xid
                self._writer.begin(message)
            case Commit():
                self.in_transaction = False
                self._writer.commit()
                self._last_end = self._delivered = message.end
                return 1 if self._is_done() else None
            case Relation():
                self._encoder.relate(message)
            case Truncate():
                self._encoder.truncate(message)
            case _:
                pass
        return None

    def _is_done(self) -> bool:
        limit, end = self._goal.limit, self._last_end
        if limit is None:
            if end > self._goal.target:
                problem = f"a commit ends at {format_lsn(end)}, after {format_lsn(self._goal.target)}"
                raise InternalError("POSTGRES_LOG_OUT_OF_ORDER", problem=problem)
            return end == self._goal.target
        rows = self._writer.rows + len(self._buffer.kinds)
        self._goal.reached = end >= self._goal.target
        return self._goal.reached or rows >= limit.rows or self._bytes >= limit.bytes


def _nothing(position: int) -> SpooledBatch:
    return SpooledBatch(
        start=position,
        end=position,
        files=(),
        rows=0,
        transactions=0,
        rows_by_table={},
        relations=(),
        caught_up=False,
    )
