"""The stream of changes: what a browser gets, what it missed, and when its stream ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from framework.foundation.secrets.known_secrets import remember_secrets
from framework.server.api.live import EventStream
from framework.server.stream import HOME, Hub, TooManyStreams

Heard = tuple[str, str, Any]


def allowed() -> bool:
    """A caller who may read."""
    return True


def parsed(message: bytes) -> Heard:
    """The id, the type and the payload of a message."""
    lines = [line.partition(": ")[2] for line in message.decode().strip().split("\n")]
    return lines[0], lines[1], json.loads(lines[2])


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story in a loop of its own; the thread of a worker that has a browser has a loop already."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(story())).result()


async def heard(stream: AsyncIterator[bytes], count: int) -> list[Heard]:
    """The next messages of a stream."""
    return [parsed(await asyncio.wait_for(anext(stream), 5)) for _ in range(count)]


def stream_of(
    hub: Hub, last_id: str | None = None, topics: tuple[str, ...] = (HOME, "p"), owner: str = "ada"
) -> AsyncGenerator[bytes]:
    """A stream whose snapshot is `now`."""
    return hub.stream(topics, last_id, lambda: "now", allowed, owner)


def test_a_new_stream_has_the_present_state_and_then_the_changes_of_its_topics() -> None:
    """In the order in which they were sent, also from another thread; other topics are left out."""

    async def story() -> None:
        hub = Hub()
        hub.publish([HOME], "pipeline", "before")
        stream = stream_of(hub)
        assert [(f"{hub.boot}-1", "snapshot", "now")] == await heard(stream, 1)
        await asyncio.to_thread(hub.publish, [HOME], "pipeline", 1)
        await asyncio.to_thread(hub.publish, ["other"], "pipeline", 2)
        await asyncio.to_thread(hub.publish, ["p"], "flow", {"text": "a\nb"})
        assert [("pipeline", 1), ("flow", {"text": "a\nb"})] == [each[1:] for each in await heard(stream, 2)]

    run(story)


def test_a_browser_that_connects_again_gets_what_it_missed() -> None:
    """By the id of its last message, once each; of another server, or of long ago, the present state."""

    async def story() -> None:
        hub = Hub()
        for number in range(5):
            hub.publish(["p"], "flow", number)
        assert [3, 4] == [each[2] for each in await heard(stream_of(hub, f"{hub.boot}-3"), 2)]
        for last in ("other-3", f"{hub.boot}-x", f"{hub.boot}-99", "", "-", f"{hub.boot}-"):
            assert ["snapshot"] == [each[1] for each in await heard(stream_of(hub, last), 1)], last
        for number in range(3_000):
            hub.publish(["p"], "flow", number)
        assert ["snapshot"] == [each[1] for each in await heard(stream_of(hub, f"{hub.boot}-3"), 1)]

    run(story)


def test_nothing_between_the_snapshot_and_the_stream_is_lost_or_repeated() -> None:
    """A change while the snapshot is made comes after it."""

    async def story() -> None:
        hub = Hub()

        def snapshot() -> str:
            hub.publish(["p"], "flow", "meanwhile")
            return "now"

        stream = hub.stream(["p"], None, snapshot, allowed)
        assert ["now", "meanwhile"] == [each[2] for each in await heard(stream, 2)]
        hub.publish(["p"], "flow", "after")
        assert ["after"] == [each[2] for each in await heard(stream, 1)]

    run(story)


def test_a_slow_reader_is_cut_and_the_others_hear_all() -> None:
    """Nothing is kept for it without limit; it connects again and gets the present state."""

    async def story() -> None:
        hub = Hub()
        slow, quick = stream_of(hub), stream_of(hub)
        await heard(slow, 1)
        await heard(quick, 1)
        for number in range(1_500):
            hub.publish(["p"], "flow", number)
            assert [number] == [each[2] for each in await heard(quick, 1)]
        rest = [parsed(each)[2] async for each in slow]
        assert list(range(len(rest))) == rest
        assert len(rest) <= 1_000
        assert 1 == hub.streams

    run(story)


def test_streams_are_limited_and_a_closed_one_frees_its_place() -> None:
    """The fifty-first is refused, before anything is sent."""

    async def story() -> None:
        hub = Hub()
        opened = [stream_of(hub, owner=str(number % 5)) for number in range(50)]
        for each in opened:
            await heard(each, 1)
        with pytest.raises(TooManyStreams):
            await anext(stream_of(hub))
        await opened[0].aclose()
        assert ["snapshot"] == [each[1] for each in await heard(stream_of(hub), 1)]

    run(story)


def test_one_caller_leaves_streams_for_others() -> None:
    """The eleventh of a session or token is refused; another one has its own."""

    async def story() -> None:
        hub = Hub()
        kept = [stream_of(hub) for _ in range(10)]
        for each in kept:
            await heard(each, 1)
        with pytest.raises(TooManyStreams):
            await anext(stream_of(hub))
        assert ["snapshot"] == [each[1] for each in await heard(stream_of(hub, owner="bob"), 1)]

    run(story)


@pytest.mark.parametrize("closes", [True, False])
def test_a_stream_ends_with_the_server_and_with_the_right_to_read(closes: bool) -> None:  # noqa: FBT001 - a case
    """A revoked token reads nothing more after the next heartbeat."""

    async def story() -> None:
        hub, right = Hub(heartbeat_seconds=0.05), {"may read"}
        stream = hub.stream(["p"], None, lambda: "now", lambda: bool(right))
        await heard(stream, 1)
        assert b":\n\n" == await asyncio.wait_for(anext(stream), 5)
        if closes:
            hub.close()
        else:
            right.clear()
        rest = [each async for each in stream]
        assert {b":\n\n"} >= set(rest)
        assert 0 == hub.streams

    run(story)


def test_a_busy_stream_ends_with_the_right_to_read() -> None:
    """Also if there is always a message before the heartbeat."""

    async def story() -> None:
        hub, right = Hub(heartbeat_seconds=0.05), {"may read"}
        stream = hub.stream(["p"], None, lambda: "now", lambda: bool(right))
        await heard(stream, 1)
        right.clear()
        count = 0
        for _ in range(200):
            hub.publish(["p"], "flow", count)
            await asyncio.sleep(0.005)
            try:
                await asyncio.wait_for(anext(stream), 5)
            except StopAsyncIteration:
                break
            count += 1
        assert count < 100

    run(story)


def test_a_message_has_no_known_secret() -> None:
    """Neither in a change nor in the present state."""
    secret = "planted-in-the-stream"  # noqa: S105 - it is planted
    remember_secrets(secret)

    async def story() -> None:
        hub = Hub()
        stream = hub.stream(["p"], None, lambda: {"text": f"password={secret}"}, allowed)
        hub.publish(["p"], "flow", {"text": f"x{secret}"})
        found = [await asyncio.wait_for(anext(stream), 5)]
        hub.publish(["p"], "flow", {"text": f"y{secret}"})
        found.append(await asyncio.wait_for(anext(stream), 5))
        assert [] == [each for each in found if secret.encode() in each]

    run(story)


def test_a_connection_that_takes_nothing_more_frees_its_place() -> None:
    """The reader's buffers are full: its stream ends after the time for one message."""

    async def story() -> None:
        hub = Hub()
        response = EventStream(stream_of(hub))
        response.slowest_seconds = 0.05
        taken = []

        async def send(message: Any) -> None:
            taken.append(message)
            if len(taken) > 1:
                await asyncio.Event().wait()

        await asyncio.wait_for(response.stream_response(send), 5)
        await response.body_iterator.aclose()  # type: ignore[attr-defined]
        assert (2, 0) == (len(taken), hub.streams)

    run(story)
