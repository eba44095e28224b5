"""Server-sent events: messages by topic, numbered, kept for reconnects, and never buffered for slow readers."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from framework.foundation.secrets.known_secrets import hide_known_values

HOME = "home"
_NUMBER = re.compile(r"[0-9]{1,18}")
_KEPT_MESSAGES = 2_000
_MOST_WAITING = 1_000
_MOST_STREAMS = 50
_MOST_OF_OWNER = 10
_HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message of the stream: who wants it, its type, and its payload as JSON."""

    number: int
    topics: frozenset[str]
    type: str
    data: str


class TooManyStreams(Exception):  # noqa: N818 - a state of the hub, which the edge answers with 429
    """The hub has as many streams as it serves."""


class _Stream:
    def __init__(self, topics: frozenset[str], owner: str) -> None:
        self.topics = topics
        self.owner = owner
        self.queue: asyncio.Queue[Message] = asyncio.Queue(_MOST_WAITING)
        self.is_cut = False


class Hub:
    """Passes messages to the streams of browsers; `publish` may be called from any thread.

    A stream that does not read a thousand messages in time ends, and its browser connects again: it then gets what it
    has missed if that is still kept, else a snapshot of the present state.

    Args:
        heartbeat_seconds: how often a stream without messages sends a comment, and each one asks for its right to read.
    """

    def __init__(self, *, heartbeat_seconds: float = _HEARTBEAT_SECONDS) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self.boot = uuid.uuid4().hex[:8]
        self._lock = threading.Lock()
        self._number = 0
        self._kept: deque[Message] = deque(maxlen=_KEPT_MESSAGES)
        self._streams: set[_Stream] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = asyncio.Event()
        self._listeners: tuple[Callable[[Message], None], ...] = ()

    def hear(self, listener: Callable[[Message], None]) -> None:
        """Call a function with each message from now on, in the thread that sends it."""
        self._listeners += (listener,)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    def publish(self, topics: Iterable[str], type: str, payload: Any) -> None:
        """Send a message to all streams with one of the topics."""
        data = json.dumps(hide_known_values(payload), default=str, separators=(",", ":"))
        with self._lock:
            self._number += 1
            message = Message(number=self._number, topics=frozenset(topics), type=type, data=data)
            self._kept.append(message)
            loop = self._loop
        for listener in self._listeners:
            listener(message)
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._deliver, message)

    def close(self) -> None:
        """End all streams, so that the server can end; called in the server's loop."""
        self._closed.set()

    async def stream(
        self, topics: Iterable[str], last_id: str | None, snapshot: Callable[[], Any], is_allowed: Callable[[], bool],
        owner: str = "",
    ) -> AsyncGenerator[bytes]:  # fmt: skip
        """Yield the messages of topics as server-sent events.

        Args:
            topics: pipeline ids, or `home` for what concerns all.
            last_id: the id of the last message that the client has, for a reconnect.
            snapshot: the present state, for a client without it.
            is_allowed: whether the client may still read; asked every 15 seconds.
            owner: whose stream it is.

        Raises:
            TooManyStreams: 50 streams are open, or 10 of this owner.
        """
        self._loop = asyncio.get_running_loop()
        own = sum(each.owner == owner for each in self._streams)
        if len(self._streams) >= _MOST_STREAMS or own >= _MOST_OF_OWNER:
            raise TooManyStreams
        stream = _Stream(frozenset(topics), owner)
        self._streams.add(stream)
        try:
            missed, number = self._missed(stream.topics, last_id)
            if missed is None:
                yield _event(
                    f"{self.boot}-{number}",
                    "snapshot",
                    json.dumps(hide_known_values(await _in_thread(snapshot)), default=str),
                )
            for each in missed or ():
                yield self._text(each)
            asked = asyncio.get_running_loop().time()
            while not stream.is_cut and not self._closed.is_set():
                message = await self._next(stream)
                now = asyncio.get_running_loop().time()
                if message is None or now - asked >= self._heartbeat_seconds:
                    asked = now
                    if not await _in_thread(is_allowed):
                        return
                if message is None:
                    yield b":\n\n"
                elif message.number > number:
                    yield self._text(message)
        finally:
            self._streams.discard(stream)

    async def _next(self, stream: _Stream) -> Message | None:
        """Return the next message; None after fifteen seconds without one, or at the end of the server."""
        waiting = asyncio.ensure_future(stream.queue.get())
        closing = asyncio.ensure_future(self._closed.wait())
        try:
            done, _ = await asyncio.wait(
                (waiting, closing), timeout=self._heartbeat_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return waiting.result() if waiting in done else None
        finally:
            waiting.cancel()
            closing.cancel()

    def _missed(self, topics: frozenset[str], last_id: str | None) -> tuple[list[Message] | None, int]:
        """Return the messages after an id, and the number of the last message; None if they are not all kept."""
        boot, _, number = (last_id or "").partition("-")
        with self._lock:
            kept, newest = list(self._kept), self._number
        if boot != self.boot or not _NUMBER.fullmatch(number) or int(number) > newest:
            return None, newest
        first = kept[0].number if kept else newest + 1
        if int(number) < first - 1:
            return None, newest
        return [each for each in kept if each.number > int(number) and each.topics & topics], newest

    def _deliver(self, message: Message) -> None:
        for stream in self._streams:
            if not message.topics & stream.topics:
                continue
            try:
                stream.queue.put_nowait(message)
            except asyncio.QueueFull:
                stream.is_cut = True

    def _text(self, message: Message) -> bytes:
        return _event(f"{self.boot}-{message.number}", message.type, message.data)


def _event(id: str, type: str, data: str) -> bytes:
    """Return one event; JSON has no line breaks, so that its data is one line."""
    return f"id: {id}\nevent: {type}\ndata: {data}\n\n".encode()


async def _in_thread(function: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, function)
