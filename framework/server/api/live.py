"""The stream of changes, as server-sent events."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from framework.server.access.roles import Caller, Role
from framework.server.server import Server
from framework.server.stream import HOME, TooManyStreams
from framework.server.web.faults import WebFault
from framework.server.web.routes import Call, Route

_PROXY_SECONDS = 300.0
"""After so long a stream of a user of the proxy ends, and the browser asks the proxy for another one."""


async def _stream(call: Call) -> Response:
    seen = {each.pipeline_id for each in call.pipelines()}
    wanted = {each for each in (call.query.get("topics") or HOME).split(",") if each}
    topics = {each for each in wanted if each in seen}
    # A caller that sees only some pipelines follows each of them, because `home` has all.
    if HOME in wanted:
        topics |= {HOME} if not call.caller.pipelines else seen
    server, caller = call.server, call.caller
    until = server.clock.monotonic() + _PROXY_SECONDS if caller.via == "proxy" else None

    def snapshot() -> dict[str, Any]:
        return {
            "pipelines": [server.row(each).to_json() for each in server.pipelines() if caller.may_see(each.name)],
            "machine": server.machine(),
        }

    last = call.request.headers.get("last-event-id")
    messages = server.hub.stream(
        topics, last, snapshot, lambda: _may_still_read(call, server, caller, until), caller.identity
    )
    try:
        first = await anext(messages)
    except TooManyStreams:
        raise WebFault(
            429,
            "REQUEST_LIMIT_EXCEEDED",
            "The server, or this caller, has as many streams as it serves: close another page.",
        ) from None

    async def content() -> Any:
        yield first
        async for message in messages:
            yield message

    return EventStream(content(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


class EventStream(StreamingResponse):
    """A stream whose reader has half a minute for each message; one that reads no more frees its place."""

    slowest_seconds = 30.0

    async def stream_response(self, send: Send) -> None:
        """Send all messages."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self.slowest_seconds):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


def _may_still_read(call: Call, server: Server, caller: Caller, until: float | None) -> bool:
    """Whether a stream goes on: a token may have been revoked, a session may have ended."""
    if caller.via == "token":
        text = call.request.headers.get("authorization", "").partition(" ")[2].strip()
        return server.tokens.caller(text) is not None
    if until is not None:
        return server.clock.monotonic() < until
    return any(server.sessions.caller(cookie) is not None for cookie in call.request.cookies.values())


LIVE_ROUTES = (
    Route(method="GET", path="/stream", role=Role.VIEW, handler=_stream, query=("topics",),
          summary="Changes of all pipelines (`home`) or of some, as server-sent events."),
)  # fmt: skip
"""The route of the stream."""
