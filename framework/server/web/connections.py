"""Connections of clients that are slow, or many: each has a time for its request, and for reading its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_WAITS = (h11.IDLE, h11.SEND_BODY)


class LimitedConnection(H11Protocol):
    """A connection that is cut when its client keeps it open without need.

    A client has twenty seconds to send a request with its body, and half a minute to read what was sent to it. If there
    are too many connections, a new one takes the place of the oldest that has no whole request, so that clients which
    open connections and send nothing keep nobody out.
    """

    most = 300
    request_seconds = 20.0
    reading_seconds = 30.0
    closing_seconds = 10.0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._requesting: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, unless all places have requests."""
        super().connection_made(transport)
        self._requesting = self.loop.call_later(self.request_seconds, self.cut)
        if len(self.connections) > self.most:
            places = [each for each in self.connections if isinstance(each, LimitedConnection)]
            min(places, key=lambda each: each.deadline).cut()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for timer in (self._requesting, self._reading, self._closing):
            if timer is not None:
                timer.cancel()
        self._requesting = None
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what the client has sent; the time for its request ends with the request."""
        super().handle_events()
        if self.conn.their_state not in _WAITS:
            if self._requesting is not None:
                self._requesting.cancel()
            self._requesting = None
        self._cut_if_closing()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._cut_if_closing()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the first ones of a request begin its time, and later ones do not prolong it."""
        super().data_received(data)
        if self._requesting is None and self.conn.their_state in _WAITS:
            self._requesting = self.loop.call_later(self.request_seconds, self.cut)

    def pause_writing(self) -> None:
        """Wait for a client that reads slowly."""
        super().pause_writing()
        self._reading = self.loop.call_later(self.reading_seconds, self.cut)

    def resume_writing(self) -> None:
        """Go on, because the client has read."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close an unused connection, also of a client that has not read the end of its answer."""
        super().timeout_keep_alive_handler()
        self._cut_if_closing()

    @property
    def deadline(self) -> float:
        """When its time for a request ends; infinite while it has a whole one."""
        return float("inf") if self._requesting is None else self._requesting.when()

    def _cut_if_closing(self) -> None:
        """Have a closed connection end also if its client never reads what was sent."""
        if self._closing is None and self.transport.is_closing():
            self._closing = self.loop.call_later(self.closing_seconds, self.cut)

    def cut(self) -> None:
        """End the connection at once, without what its client has not read."""
        self.transport.abort()
