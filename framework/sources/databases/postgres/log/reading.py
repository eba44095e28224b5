"""One read of the log: turns messages of the stream into rows of a batch, up to a goal."""

from __future__ import annotations

from collections.abc import Callable

from framework.foundation.clock import Clock
from framework.foundation.errors import InternalError
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.log.changes import ChangeEncoder
from framework.sources.databases.postgres.log.pgoutput import Begin, Commit, Relation, Truncate, decode
from framework.sources.databases.postgres.log.stream import (
    DATA,
    PAYLOAD_START,
    ReplicationStream,
    read_keepalive,
    unreachable,
)
from framework.sources.databases.postgres.lsn import format_lsn
from framework.sources.databases.streams.change_log import ReadLimit
from framework.sources.databases.streams.change_rows import ChangeBuffer
from framework.sources.databases.streams.spool import SpoolWriter

_INSERT, _UPDATE, _DELETE = b"IUD"
_SEEN = b"BCRT"
"""The kinds of the messages that a scan looks at: begin, commit, relation, truncate."""
_POLL_SECONDS = 0.1
_RELATION = slice(PAYLOAD_START, PAYLOAD_START + 5)
"""The kind of a change, and the oid of its relation."""
_NUDGE_SECONDS = 1.0
_SILENCE_SECONDS = 120.0


class Goal:
    """The end of a read, and the longest silence of the server.

    Args:
        target: all transactions that end at or before this position are delivered.
        limit: ends the read earlier; None to read up to the target exactly.
        clock: measures the silence.
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
        """Note that a message arrived."""
        self._silent_since = self._clock.monotonic()

    def needs_nudge(self, messages: list[bytes]) -> bool:
        """Whether the server has sent nothing for a second before the target is reached; true once.

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


def _end_of_run(messages: list[bytes], first: int) -> int:
    """Return the index after the run of Inserts of one relation that starts here."""
    relation = messages[first][_RELATION]
    for index in range(first + 1, len(messages)):
        if messages[index][_RELATION] != relation or messages[index][0] != DATA:
            return index
    return len(messages)


class LogScan:
    """Scans the messages of a stream up to a position without keeping them.

    Args:
        upto: the position, which the log has already reached; the stream begins below it.
        see: called with each begin, commit, relation and truncate of the transactions that begin below the position.
    """

    def __init__(self, upto: int, see: Callable[[object], None] = lambda _: None) -> None:
        self._upto = upto
        self._see = see
        self._in_transaction = False
        self.last: Commit | None = None
        """The last transaction that ends at or before the position; None without one."""

    def run(self, stream: ReplicationStream, goal: Goal, nudge: Callable[[], object]) -> LogScan:
        """Read the stream to the position; return the scan.

        Args:
            stream: the stream.
            goal: limits the silence of the server.
            nudge: makes the server flush its log.

        Raises:
            SourceError: DATABASE_UNREACHABLE, DATABASE_POSITION_LOST.PUBLICATION.
        """
        while not any(self._ends(data) for data in next_messages(stream, goal, nudge)):
            pass
        return self

    def _ends(self, data: bytes) -> bool:
        """Whether the position is reached; a keepalive that wants a reply is answered by the next keepalive request."""
        if data[0] != DATA:
            return not self._in_transaction and read_keepalive(data, 1)[0] >= self._upto
        if data[PAYLOAD_START] not in _SEEN:
            return False
        message = decode(data, PAYLOAD_START)
        match message:
            case Begin(position=position) if position >= self._upto:
                return True
            case Begin():
                self._in_transaction = True
            case Commit() as commit:
                self._in_transaction = False
                self.last = commit if commit.end <= self._upto else self.last
            case _:
                pass
        self._see(message)
        return isinstance(message, Commit) and message.end >= self._upto


def next_messages(stream: ReplicationStream, goal: Goal, nudge: Callable[[], object]) -> list[bytes]:
    """Wait shortly for messages; if none arrive, request a keepalive, which shows how far the server has read.

    Args:
        stream: the stream.
        goal: limits the silence of the server.
        nudge: makes the server flush its log: the flush position can lie within the record of an open transaction,
            which the server does not decode.

    Raises:
        SourceError: DATABASE_UNREACHABLE, DATABASE_POSITION_LOST.PUBLICATION.
    """
    messages = stream.read(0)
    if not messages:
        stream.send_status(request_reply=True)
        messages = stream.read(_POLL_SECONDS)
    if messages:
        goal.renew_silence()
    if goal.needs_nudge(messages):
        nudge()
    return messages


class Reading:
    """One read: from messages to rows of the writer.

    Args:
        encoder: makes the rows.
        buffer: holds the rows.
        writer: writes the rows.
        goal: the end of the read.
        most_pending: how many rows may be pending.
        settle: called at the end of each transaction, before it is written.
        start: the end of the previous batch.
    """

    def __init__(
        self,
        encoder: ChangeEncoder,
        buffer: ChangeBuffer,
        writer: SpoolWriter,
        *,
        goal: Goal,
        most_pending: Callable[[], int],
        settle: Callable[[], None],
        start: int,
    ) -> None:
        self._settle = settle
        self._in_transaction = False
        self.reply_requested = False
        self.last: Commit | None = None
        """The end of the last transaction; None if there was none."""
        self._encoder = encoder
        self._buffer = buffer
        self._writer = writer
        self._goal = goal
        self._most_pending = most_pending
        self._last_end = start
        self._delivered = start
        self._bytes = 0

    def take(self, messages: list[bytes]) -> tuple[bool, int]:
        """Add the rows of messages; return whether the goal is reached, and how many messages were used."""
        update, delete = self._encoder.update, self._encoder.delete
        pending, writer = self._buffer.pending, self._writer
        body = PAYLOAD_START + 1
        following = 0
        for index, data in enumerate(messages):
            self._bytes += len(data)
            if data[0] != DATA:
                if self._keepalive(data):
                    return True, index + 1
                continue
            kind = data[PAYLOAD_START]
            writer.bytes_in_buffer += len(data)
            if kind == _INSERT:
                if index >= following:
                    following = _end_of_run(messages, index)
                    self._encoder.inserts(messages[index:following], body)
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
        if self._goal.limit is None:
            # The target is the end of a record. A later transaction may have shown that nothing is missing.
            self._delivered = self._goal.target
        note(self._last_end, self._delivered)
        return self._delivered

    def _keepalive(self, data: bytes) -> bool:
        position, _, reply = read_keepalive(data, 1)
        self.reply_requested |= bool(reply)
        if self._in_transaction:
            return False
        # Everything that the server has decoded up to this position was sent before.
        self._delivered = max(self._delivered, position)
        self._goal.reached |= self._delivered >= self._goal.target
        return self._goal.reached

    def _control(self, message: object) -> int | None:
        """Handle a message without a row; if the goal is reached, return how many messages of it were used: 0 or 1."""
        match message:
            case Begin():
                if message.position >= self._goal.target:
                    self._goal.reached = True
                    return 0
                self._in_transaction = True
                self._encoder.xid = message.xid
                self._writer.begin(message)
            case Commit():
                self._in_transaction = False
                self._settle()
                self._writer.commit()
                self._last_end = self._delivered = message.end
                self.last = message
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
