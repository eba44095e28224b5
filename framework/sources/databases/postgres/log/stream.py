"""The stream of a replication slot, read with the libpq of psycopg2.

psycopg2's own cursor is not used. It answers a keepalive by acknowledging the keepalive's position if it has received
no message yet, or if the last message belongs to a transaction that began before the last acknowledged position
(`pq_read_replication_message`). The server then discards transactions that are not durable here. This stream reports
only the acknowledged position.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import threading
from contextlib import suppress
from itertools import cycle
from math import ceil
from struct import Struct
from typing import Any

from framework.foundation.clock import Clock
from framework.foundation.errors import SourceError
from framework.foundation.wording import one_line
from framework.sources.databases.connections import Connection
from framework.sources.databases.postgres.libpq import function, quick, waiting
from framework.sources.databases.postgres.log.position import slot_in_use
from framework.sources.databases.postgres.lsn import format_lsn
from framework.sources.databases.postgres.session import Session, open_replication

DATA, KEEPALIVE = b"wk"
PAYLOAD_START = 25
"""Index of the pgoutput message in a data message."""
read_keepalive = Struct(">QqB").unpack_from
"""Decode a keepalive, from index 1: position, server time, whether a reply is requested."""

_OBJECT_IN_USE = "55006"
_READER = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s"
_POLL_SECONDS = 0.1
"""SQLSTATE of a slot that another process reads."""
_COPY_BOTH = 8
_MOST_MESSAGES = 1024
_MOST_BYTES = 1 << 20
_SQLSTATE = ord("C")
_WATCH_SECONDS = 0.5
_CLOSED = getattr(select, "POLLRDHUP", 0)
_UNDEFINED_OBJECT = b"42704"
_pack_status = Struct(">cQQQqB").pack


_exec = function(waiting, "PQexec", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_result_status = function(quick, "PQresultStatus", ctypes.c_int, ctypes.c_void_p)
_result_field = function(quick, "PQresultErrorField", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int)
_clear = function(quick, "PQclear", None, ctypes.c_void_p)
_error_message = function(quick, "PQerrorMessage", ctypes.c_char_p, ctypes.c_void_p)
_socket = function(quick, "PQsocket", ctypes.c_int, ctypes.c_void_p)
_get_result = function(waiting, "PQgetResult", ctypes.c_void_p, ctypes.c_void_p)
_get_copy_data = function(quick, "PQgetCopyData", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_free = function(quick, "PQfreemem", None, ctypes.c_void_p)
_consume_input = function(waiting, "PQconsumeInput", ctypes.c_int, ctypes.c_void_p)
_put_copy_data = function(waiting, "PQputCopyData", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int)
_flush = function(waiting, "PQflush", ctypes.c_int, ctypes.c_void_p)


class StartRefusedError(SourceError):
    """The server refused to start the stream, with this SQLSTATE."""

    def __init__(self, sqlstate: str, cause: str) -> None:
        super().__init__("DATABASE_LOG_NOT_READABLE", cause=cause)
        self.sqlstate = sqlstate


def open_stream(
    session: Session,
    *,
    slot: str,
    publication: str,
    start: int,
    feedback_seconds: float,
    wait_seconds: float,
    clock: Clock,
) -> ReplicationStream:
    """Open the stream of a slot once its last reader has ended; the server may notice that with a delay.

    Args:
        session: an open session, which the caller closes after the stream.
        slot: the slot.
        publication: the publication.
        start: as in `ReplicationStream`.
        feedback_seconds: as in `ReplicationStream`.
        wait_seconds: how long to wait for another reader.
        clock: waits.

    Raises:
        SourceError: DATABASE_SLOT_IN_USE, or the server refused, or the connection cannot be opened.
    """
    deadline = clock.monotonic() + wait_seconds
    while True:
        try:
            return ReplicationStream(
                session.connection,
                slot=slot,
                publication=publication,
                start=start,
                feedback_seconds=feedback_seconds,
                session=session,
            )
        except StartRefusedError as error:
            if error.sqlstate != _OBJECT_IN_USE:
                raise
        wait_for_slot(session, slot, deadline, clock)


def wait_for_slot(session: Session, slot: str, deadline: float, clock: Clock) -> None:
    """Wait a short interval for a slot that another process reads.

    Raises:
        SourceError: DATABASE_SLOT_IN_USE after the deadline.
    """
    if clock.monotonic() > deadline:
        raise slot_in_use(slot, session.rows(_READER, [slot])[0][0])
    clock.sleep(_POLL_SECONDS)


class ReplicationStream:
    """The stream of a slot from a position on; it also answers the server while its caller is busy.

    A server that shuts down ends all sessions, then waits until each reader of its log has confirmed the whole log. So
    the stream also ends when the session ends.

    Args:
        source: the connection to open.
        slot: the slot.
        publication: the publication.
        start: transactions whose commit record starts before this position are not sent.
        feedback_seconds: how often the server gets a status.
        session: an open session of the same server, which the caller closes after the stream.

    Raises:
        StartRefusedError: the server refused.
        SourceError: the connection cannot be opened.
    """

    def __init__(
        self,
        source: Connection,
        *,
        slot: str,
        publication: str,
        start: int,
        feedback_seconds: float,
        session: Session,
    ) -> None:
        self._source = source
        self._slot, self._publication = slot, publication
        self._connection: Any = open_replication(source)
        self._handle = self._connection.pgconn_ptr
        self.backend = int(self._connection.info.backend_pid)
        """The process of the server that reads the slot; it ends shortly after the connection."""
        self._lock = threading.Lock()
        self._acknowledged = 0
        self._closed = threading.Event()
        self._buffer = ctypes.c_void_p()
        try:
            self._start(start_command(slot, publication, start))
        except BaseException:
            self._connection.close()
            raise
        self._poll = select.poll()
        self._poll.register(_socket(self._handle), select.POLLIN)
        self._session_end = select.poll()
        self._session_end.register(session.raw.fileno(), _CLOSED)  # and whatever else ends a connection
        self._feedback = threading.Thread(target=self._give_feedback, args=[feedback_seconds], daemon=True)
        self._feedback.start()

    def read(self, wait_seconds: float) -> list[bytes]:
        """Return messages in the order of the log; [] if none arrived in time.

        Returns at most some thousand messages or a megabyte, unless a single message is larger. The rest stays in the
        socket buffers, so the server stops sending.

        Raises:
            SourceError: DATABASE_UNREACHABLE.
        """
        messages = self._take()
        if not messages and wait_seconds and self._poll.poll(wait_seconds * 1000):
            messages = self._take()
        return messages

    def send_status(self, *, acknowledged: int = 0, request_reply: bool = False) -> None:
        """Report the acknowledged position, which never decreases, and optionally request a keepalive.

        Raises:
            SourceError: DATABASE_UNREACHABLE.
        """
        with self._lock:
            self._acknowledged = max(self._acknowledged, acknowledged)
            # 0 means "unknown" and changes nothing at the server.
            position = self._acknowledged
            status = _pack_status(b"r", position, position, position, 0, request_reply)
            if _put_copy_data(self._handle, status, len(status)) != 1 or _flush(self._handle) != 0:
                raise self._lost()

    def close(self) -> None:
        """End the stream and close its connection."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._feedback.join()
        with self._lock:
            self._connection.close()

    def _start(self, command: str) -> None:
        result = _exec(self._handle, command.encode())
        try:
            if _result_status(result) == _COPY_BOTH:
                return
            state = _result_field(result, _SQLSTATE)
            raise StartRefusedError((state or b"").decode(), self._message())
        finally:
            _clear(result)

    def _give_feedback(self, seconds: float) -> None:
        """Report the position periodically, so that the server does not time out a slow caller."""
        parts = ceil(seconds / _WATCH_SECONDS)
        for part in cycle(range(parts)):
            if self._closed.wait(seconds / parts):
                return
            if self._session_end.poll(0):
                self._disconnect()
                return
            if part == parts - 1:
                try:
                    self.send_status()
                except SourceError:  # the caller sees it at its next read
                    return

    def _disconnect(self) -> None:
        """Let the server end the stream, even if parts are unread; the caller sees the end at its next read."""
        with socket.socket(fileno=os.dup(_socket(self._handle))) as connected, suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    def _take(self) -> list[bytes]:
        messages: list[bytes] = []
        size, idle = 0, False
        handle, buffer, reference = self._handle, self._buffer, ctypes.byref(self._buffer)
        with self._lock:
            while len(messages) < _MOST_MESSAGES and size < _MOST_BYTES:
                length = _get_copy_data(handle, reference, 1)
                if length > 0:
                    messages.append(ctypes.string_at(buffer.value, length))  # type: ignore[arg-type]
                    _free(buffer)
                    size += length
                    idle = False
                elif length < 0:
                    raise self._ended()
                elif idle:
                    break
                elif not _consume_input(handle):
                    raise self._lost()
                else:
                    idle = True
        return messages

    def _ended(self) -> SourceError:
        """Return the error of a stream that the server ended, by an error or by its shutdown."""
        result = _get_result(self._handle)
        state = None
        if result:
            state = _result_field(result, _SQLSTATE)
            _clear(result)
        if state == _UNDEFINED_OBJECT:
            # The publication did not exist at the position that the server decodes: it was dropped, perhaps recreated.
            return SourceError(
                "DATABASE_POSITION_LOST.PUBLICATION", slot=self._slot, publication=self._publication, lsn="unknown"
            )
        return self._lost()

    def _lost(self) -> SourceError:
        return unreachable(self._source, self._message() or "the server ended the stream")

    def _message(self) -> str:
        text = (_error_message(self._handle) or b"").decode(errors="replace")
        return self._source.hide(one_line(text)).rstrip(". ")


def unreachable(source: Connection, cause: str) -> SourceError:
    """Return the transient error of a stream that ended."""
    return SourceError("DATABASE_UNREACHABLE", address=source.address, connection=source.name, cause=cause)


def start_command(slot: str, publication: str, start: int) -> str:
    """Return the replication command that starts the stream."""
    quoted = '"' + publication.replace('"', '""') + '"'
    literal = "'" + quoted.replace("'", "''") + "'"
    name = slot.replace('"', '""')
    return (
        f'START_REPLICATION SLOT "{name}" LOGICAL {format_lsn(start)}'
        f" (proto_version '1', publication_names {literal})"
    )
