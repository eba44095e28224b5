"""A server for the tests of the page: answers from recorded values, on the loopback interface, without Spark."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from framework import server as server_room
from tests.page.worlds import Json, World, ago, uid

STATIC = Path(server_room.__file__).parent / "page" / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css"}
_LEVELS = ("METRICS", "INFO", "WARN", "ERROR")


def policy() -> str:
    """The content security policy that the server sends with the page."""
    text = (STATIC / "index.html").read_text("utf-8")
    maps = re.findall(r'<script type="importmap">(.*?)</script>', text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in maps]
    scripts = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


class FakeServer:
    """Answers requests from a world; `posts` has what was asked to change."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.posts: list[tuple[str, Json]] = []
        self.gets: list[str] = []
        self.signed_in = True
        self.url = ""
        self.refusals: dict[str, tuple[int, str, str, str]] = {}
        self.asked_streams: list[str] = []
        self._queues: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end_streams(self) -> None:
        """End all streams, as a server that stops."""
        self._send("")

    @property
    def streams(self) -> int:
        """The streams that are read now."""
        return len(self._queues)

    def wait_for_stream(self, topic: str, *, asked: int = 1) -> None:
        """Wait until this many streams with a topic, or with the pipeline of that name, have been asked for."""
        for _ in range(500):
            names = [each for each in self.asked_streams if topic in each or uid(topic) in each]
            if len(names) >= asked and self._queues:
                return
            threading.Event().wait(0.01)
        raise AssertionError(self.asked_streams)

    def publish(self, kind: str, payload: Json) -> None:
        """Send a message to all streams."""
        self._send(f"event: {kind}\ndata: {json.dumps(payload)}\n\n")

    def _send(self, text: str) -> None:
        for queue in tuple(self._queues):
            assert self._loop is not None
            self._loop.call_soon_threadsafe(queue.put_nowait, text)

    def app(self) -> Starlette:
        """The application: the page's files, and the answers."""
        methods = ["GET", "POST", "DELETE"]
        return Starlette(
            routes=[
                Route("/api/sluice/v1/stream", self._stream),
                Route("/api/sluice/v1/{path:path}", self._answer, methods=methods),
                Route("/static/{path:path}", self._static),
                Route("/{path:path}", self._index),
            ]
        )

    async def _index(self, request: Request) -> Response:
        del request
        text = (STATIC / "index.html").read_text("utf-8")
        return Response(text, media_type="text/html", headers={"Content-Security-Policy": policy()})

    async def _static(self, request: Request) -> Response:
        file = STATIC / request.path_params["path"]
        if not file.is_file():
            return Response(status_code=404)
        body = gzip.compress(file.read_bytes(), 6)
        headers = {"Content-Encoding": "gzip", "Cache-Control": "no-cache"}
        return Response(body, media_type=_TYPES.get(file.suffix, "image/svg+xml"), headers=headers)

    async def _stream(self, request: Request) -> Response:
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._queues.add(queue)
        self.asked_streams.append(request.query_params["topics"])
        snapshot = json.dumps({"pipelines": self.world.rows, "machine": machine(self.world)})

        async def messages() -> AsyncIterator[str]:
            try:
                yield f"id: b-1\nevent: snapshot\ndata: {snapshot}\n\n"
                while text := await queue.get():
                    yield text
            finally:
                self._queues.discard(queue)

        return StreamingResponse(messages(), media_type="text/event-stream")

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        if not self.signed_in and path != "session":
            return _fault(401, "UNAUTHENTICATED", "No session.")
        if request.method == "GET":
            self.gets.append(path)
            return self._get(path.split("/"), request)
        body = json.loads(await request.body() or b"{}")
        self.posts.append((path, body))
        if path in self.refusals:
            status, condition, message, remedy = self.refusals[path]
            details = [{"@type": "sluice", "condition": condition, "remedy": remedy}]
            return JSONResponse({"error_code": "X", "message": message, "details": details}, status_code=status)
        return self._post(path.split("/"), body)

    def _get(self, parts: list[str], request: Request) -> Response:
        match parts:
            case ["pipelines"]:
                return JSONResponse({"pipelines": self.world.rows, "faults": self.world.faults})
            case ["whoami"]:
                return JSONResponse({"user": "ada", "role": self.world.role, "via": "session", "token": None})
            case ["machine"]:
                return JSONResponse(machine(self.world))
            case ["schedules" | "alerts" | "tokens" as name]:
                return JSONResponse({name: getattr(self.world, name)})
            case ["pipelines", name, *rest] if any(each["name"] == name for each in self.world.rows):
                found = self._of_pipeline(name, rest, request)
                return (
                    JSONResponse(found)
                    if found is not None
                    else _fault(404, "RESOURCE_DOES_NOT_EXIST", "No such thing.")
                )
        return _fault(404, "RESOURCE_DOES_NOT_EXIST", f"No {'/'.join(parts)}.")

    def _of_pipeline(self, name: str, rest: list[str], request: Request) -> Json | None:
        world = self.world
        simple: dict[str, Callable[[], Json | None]] = {
            "": lambda: self._row(name),
            "graph": lambda: world.graphs.get(name),
            "lag": lambda: {"read_at": ago(seconds=9), "flows": world.lags.get(name, [])},
            "doctor": lambda: world.doctors.get(name, {"examined_at": None, "examination": None, "job": None}),
            "updates": lambda: {"requests": requests(world.updates.get(name, [])), "before": None},
            "grid": lambda: grid(world, name),
            "events": lambda: events(world.events.get(name, []), request),
            "chunks": lambda: world.chunks.get(request.query_params["table"]),
        }
        match rest:
            case ["updates", update, *more]:
                return self._update(name, update, more)
            case ["datasets", dataset]:
                return dataset_answer(world, name, dataset)
        found = simple.get("/".join(rest))
        return None if found is None else found()

    def _row(self, name: str) -> Json:
        row = next(each for each in self.world.rows if each["name"] == name)
        return {**row, "spec": {"file": row["spec_file"], "configuration": {}}}

    def _update(self, name: str, update: str, more: list[str]) -> Json | None:
        found = next((each for each in self.world.updates.get(name, []) if each["update_id"] == update), None)
        if found is None or more == ["log"]:
            return found and {"text": "WARN Utils: a warning\nKilled\n", "is_cut": False}
        states = self.world.graphs[name]["states"].values()
        request = next(each for each in requests(self.world.updates[name]) if found in each["attempts"])
        return {
            **found,
            "request": request,
            "flows": [{**each, "spans": spans(each, place, found)} for place, each in enumerate(states)],
            "plan": [
                {"dataset": each["dataset"], "flow": each["flow"], "technique": "APPEND", "reason": "new data"}
                for each in states
            ],
            "options": {"refresh_selection": [], "full_refresh": False},
        }

    def _post(self, parts: list[str], body: Json) -> Response:
        match parts:
            case ["session"]:
                self.signed_in = body.get("code") == "good"
                return (
                    JSONResponse({"user": "ada"}) if self.signed_in else _fault(401, "UNAUTHENTICATED", "It was used.")
                )
            case ["pipelines", name, "jobs", kind]:
                found = self.world.jobs.get((name, kind))
                return _job(found) if found is not None else _fault(501, "NOT_IMPLEMENTED", f"{kind} is not here.")
            case ["pipelines", name, "doctor", "ways"]:
                return _job(self.world.jobs.get((name, "doctor/ways")))
            case ["pipelines", name, "updates"]:
                accepted = {"update_id": uid(name, 25), "request_id": uid(name, 1), "state": "STARTING", "place": None}
                return JSONResponse(accepted, status_code=202)
            case ["tokens"]:
                return JSONResponse({"id": "t2", "name": body["name"], "token": "slk_t2_secret"})
        return JSONResponse({}, status_code=202)


def _job(result: Any) -> Response:
    return JSONResponse({"state": "DONE", "result": result} if result is None else result)


def _fault(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error_code": code, "message": message, "details": []}, status_code=status)


def machine(world: World) -> Json:
    """The machine of the server."""
    return {
        "version": "0.1.0", "boot": "b", "host": "etl-1", "folders": ["/home/ada/data"],
        "engines": {"running": 2, "queued": 1, "most": 6},
        "memory": {"total_bytes": 24_000_000_000, "available_bytes": 18_900_000_000}, "reader_of": None,
        "features": world.features,
    }  # fmt: skip


def requests(updates: list[Json]) -> list[Json]:
    """The updates folded into requests, newest first."""
    found: dict[str, list[Json]] = {}
    for each in updates:
        found.setdefault(each["request_id"], []).append(each)
    return [
        {"request_id": key, "outcome": attempts[-1]["state"], "attempts": attempts,
         "created_at": attempts[0]["created_at"], "ended_at": attempts[-1]["ended_at"],
         "seconds": sum(each["seconds"] or 0 for each in attempts)}
        for key, attempts in reversed(found.items())
    ]  # fmt: skip


def spans(flow: Json, place: int, update: Json) -> list[Json]:
    """One span of a flow within its update."""
    if flow["seconds"] is None:
        return []
    from datetime import datetime, timedelta

    start = datetime.fromisoformat(update["created_at"]) + timedelta(seconds=1.5 * (place % 7))
    end = None if flow["state"] == "RUNNING" else (start + timedelta(seconds=flow["seconds"])).isoformat()
    return [{"started_at": start.isoformat(), "ended_at": end, "state": flow["state"]}]


def grid(world: World, name: str) -> Json:
    """The grid of a pipeline."""
    updates = world.updates.get(name, [])
    flows = list(world.graphs.get(name, {}).get("states", {}))[:200]
    words = ("COMPLETED", "COMPLETED", "COMPLETED", "SKIPPED", "COMPLETED")
    cells = [
        [
            None if (row + column) % 11 == 5 else
            {"state": "FAILED" if update["state"] == "FAILED" and row == 1 else words[(row + column) % 5],
             "seconds": (row * 3 + column) % 9 + 0.5, "rows": 10 ** (row % 6), "reason": ""}
            for column, update in enumerate(updates)
        ]
        for row in range(len(flows))
    ]  # fmt: skip
    return {"updates": updates, "flows": flows, "cells": cells}


def events(log: list[Json], request: Request) -> Json:
    """A page of the event log with the filters of the request."""
    query = request.query_params
    floor = _LEVELS.index(query.get("level", "METRICS"))
    fits = [
        each
        for each in log
        if _LEVELS.index(each["level"]) >= floor
        and query.get("text", "").lower() in each["message"].lower()
        and query.get("type", each["event_type"]) == each["event_type"]
        and all(
            query.get(name, each["origin"][f"{name}_name"]) == each["origin"][f"{name}_name"]
            for name in ("dataset", "flow")
        )
    ]
    end = len(fits)
    for mark, shift in (("before", 0), ("at", 1)):
        if mark in query:
            end = next(place for place, each in enumerate(fits) if each["id"] == query[mark]) + shift
    limit = int(query.get("limit", 200))
    start = max(0, end - limit)
    return {"events": fits[start:end], "before": fits[start]["id"] if start else None}


def dataset_answer(world: World, pipeline: str, name: str) -> Json | None:
    """The answer about one dataset."""
    known = world.graphs.get(pipeline, {}).get("graph", {"datasets": [], "flows": []})
    found = next((each for each in known["datasets"] if each["name"] == name), None)
    if found is None:
        return None
    flows = [each for each in known["flows"] if each["target"] == name]
    more = {
        "flows": flows,
        "reads": [read["name"] for each in flows for read in each["reads"]],
        "read_by": [each["target"] for each in known["flows"] if any(read["name"] == name for read in each["reads"])],
        "folder": "/tables/t",
        "versions": [],
        "quality": [],
    }
    return {**found, **more, **world.datasets.get(f"{pipeline} {name}", {})}


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """Serve on a free port of the loopback interface, in a thread that ends with the block."""
    config = uvicorn.Config(
        server.app(), host="127.0.0.1", port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
    )
    runner = uvicorn.Server(config)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    for _ in range(500):
        if runner.started:
            break
        threading.Event().wait(0.01)
    server.url = f"http://127.0.0.1:{runner.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        server.end_streams()
        runner.should_exit = True
        thread.join(5)
