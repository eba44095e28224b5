"""A server over recorded storages: logs that the record's own code has written, stored graphs, and fake engines."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from framework.declare.specs import DatasetKind, DatasetSpec, ExpectationSpec, FlowSpec, ViolationAction
from framework.foundation.clock import Clock, SystemClock
from framework.foundation.errors import OperationError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset, GraphFlow, Read
from framework.graph.stored_graph import GraphStore
from framework.record import drafts
from framework.record.events import Origin, summarize_error
from framework.record.log import EventLog, claim_log
from framework.server.access.roles import Role
from framework.server.app import application, routes_of
from framework.server.pipelines import PipelineEntry
from framework.server.server import Ports, Server, Settings
from framework.server.serving import Address, Extras, bound
from framework.server.web.connections import LimitedConnection
from framework.server.web.guard import Policy
from framework.server.web.routes import OWN_FACE, Route
from framework.testing.manual_clock import START, ManualClock
from tests.support.served_pipelines import eventually, fake_command, served

URL = "http://127.0.0.1:8642"
FIRST, FAILED, AGAIN = (f"{n}0000000-0000-4000-8000-000000000000" for n in (1, 2, 3))
"""The updates that `record_shop` records: one that completes, and one request whose second attempt completes."""
REQUEST = "9f000000-0000-4000-8000-000000000000"
ORDERS, REVENUE = "main.default.orders", "main.default.revenue"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A server with its client, which has no session and no token."""

    server: Server
    client: TestClient
    policy: Policy
    folder: Path
    tokens: dict[Role, str] = field(default_factory=dict)
    more: tuple[Route, ...] = ()

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of the server."""
        return routes_of(self.policy, self.more)

    def entry(self, name: str = "shop") -> PipelineEntry:
        """A pipeline."""
        return next(each for each in self.server.pipelines() if each.name == name)

    def headers(self, role: Role | None = Role.MANAGE) -> dict[str, str]:
        """The headers of a program with a role; None for nobody."""
        if role is None:
            return {}
        if role not in self.tokens:
            _, self.tokens[role] = self.server.tokens.create(f"ci-{role}", role)
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    def ask(
        self, method: str, path: str, body: Any = None, *, role: Role | None = Role.MANAGE,
        headers: Mapping[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """The response to a request of a program."""
        where = path if path.startswith(("/api", "/.well-known", "/metrics", "/static")) else OWN_FACE + path
        sent = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        return self.client.request(
            method, where, content=sent, headers={**kind, **self.headers(role), **(headers or {})}
        )

    def get(self, path: str, role: Role | None = Role.MANAGE) -> Any:
        """The JSON of a good answer."""
        response = self.ask("GET", path, role=role)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any, status: int = 202, **more: Any) -> Any:
        """The JSON of a good answer to a request that changes something."""
        response = self.ask("POST", path, body, **more)
        assert response.status_code == status, response.text
        return response.json()


@contextmanager
def world_of(
    folder: Path,
    *,
    clock: Clock | None = None,
    ports: Ports | None = None,
    extras: Extras | None = None,
    policy: Policy | None = None,
    peer: str = "127.0.0.1",
) -> Iterator[World]:
    """A server over the pipelines below a folder, with fake engines, until the end of the block."""
    settings = Settings(
        folders=(folder,), state_folder=folder / ".state", cache=folder / ".cache", user="ada", version="0.0.1",
        most_engines=2,
    )  # fmt: skip
    more = extras or Extras()
    server = Server(settings, clock or SystemClock(), ports or Ports(command=fake_command), more.parts)
    policy, routes = policy or Policy(port=8642), tuple(more.routes)
    app = application(server, policy, routes)
    with TestClient(app, base_url=URL, raise_server_exceptions=False, client=(peer, 50_000)) as client:
        yield World(server=server, client=client, policy=policy, folder=folder, more=routes)


@contextmanager
def listening(world: World, connection: type[LimitedConnection] = LimitedConnection) -> Iterator[str]:
    """The address at which a world's application answers over HTTP, until the end of the block."""
    config = uvicorn.Config(world.client.app, log_level="critical", lifespan="off", ws="none", http=connection)
    server = uvicorn.Server(config)
    with bound(Address(port=0)) as found:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [found]}, daemon=True)
        thread.start()
        eventually(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{found.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)


def record_shop(folder: Path, name: str = "shop") -> PipelineEntry:
    """Record three updates and a graph of a new pipeline, an hour between the updates; return the pipeline."""
    entry = served(folder, name)
    storage = LocalStorage(entry.storage.root)
    GraphStore(storage, name).write(_graph(name), {_name("orders"): str(folder / "orders")})
    _version(folder / "orders", 0)
    record_update(storage, name, FIRST, hours=0, rows=3, failed=1)
    record_update(storage, name, FAILED, hours=1, rows=None, request_id=REQUEST)
    record_update(storage, name, AGAIN, hours=2, rows=2, request_id=REQUEST, attempt=2)
    return entry


def record_update(
    storage: LocalStorage, name: str, update_id: str, *, hours: float, rows: int | None, failed: int = 0,
    request_id: str | None = None, attempt: int = 1, filler: int = 0,
) -> None:  # fmt: skip
    """Record an update of `orders`, which fails if `rows` is None, and of `revenue` behind it.

    It starts `hours` after the start of the manual clock. `failed` records fail the expectation `valid`; `filler` is a
    number of further events.
    """
    clock = ManualClock(START)
    clock.sleep(hours * 3600)
    assert claim_log(storage, update_id)
    origin = Origin(pipeline_id="p", pipeline_name=name, update_id=update_id, host="box:77")
    with EventLog(storage, origin, clock) as log:
        cause = "USER_ACTION" if attempt == 1 else "RETRY_ON_FAILURE"
        log.record(drafts.create_update(cause=cause, request_id=request_id, attempt=attempt, user_name="bob"))
        for state in ("INITIALIZING", "RUNNING"):
            clock.sleep(1)
            log.record(drafts.update_progress(state=state))
        log.record(
            drafts.planning_information(
                dataset=ORDERS, flow=ORDERS, technique="INCREMENTAL", reason="There are new files."
            )
        )
        for number in range(filler):
            clock.sleep(0.001)
            progress = 100.0 * number / filler
            log.record(
                drafts.operation_progress(
                    operation="PHASE", status="IN_PROGRESS", dataset=ORDERS, progress_percent=progress
                )
            )
        log.record(drafts.flow_progress(flow=ORDERS, dataset=ORDERS, status="RUNNING"))
        clock.sleep(2)
        _end_flows(log, rows, failed)
        clock.sleep(1)
        log.record(drafts.update_progress(state="FAILED" if rows is None else "COMPLETED"))


def _end_flows(log: EventLog, rows: int | None, failed: int) -> None:
    if rows is None:
        error = OperationError("STORAGE_NOT_READABLE", path="/data/orders", problem="it is gone")
        log.record(
            drafts.flow_progress(
                flow=ORDERS,
                dataset=ORDERS,
                status="FAILED",
                message="Flow orders FAILED.",
                error=summarize_error(error, fatal=True),
            )
        )
        return
    quality = drafts.data_quality(
        dropped_records=0,
        expectations=[
            drafts.ExpectationRecord(name="valid", dataset=ORDERS, passed_records=rows, failed_records=failed)
        ],
    )
    log.record(
        drafts.flow_progress(
            flow=ORDERS, dataset=ORDERS, status="COMPLETED", metrics={"num_output_rows": rows}, quality=quality
        )
    )
    log.record(
        drafts.flow_progress(
            flow=REVENUE, dataset=REVENUE, status="SKIPPED", message="Flow revenue is SKIPPED: nothing new."
        )
    )


def _name(table: str) -> QualifiedName:
    return QualifiedName(catalog="main", schema="default", table=table)


def _graph(pipeline: str) -> DataflowGraph:
    """`revenue`, a materialized view, reads `orders`, a streaming table with an expectation, which reads a folder."""
    valid = ExpectationSpec(name="valid", condition="n > 0", action=ViolationAction.WARN)
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    orders = GraphDataset(
        spec=DatasetSpec(name=_name("orders"), kind=DatasetKind.TABLE, expectations=(valid,)),
        kind=DatasetKind.STREAMING_TABLE, schema=schema,
    )  # fmt: skip
    revenue = replace(
        orders, spec=DatasetSpec(name=_name("revenue"), kind=DatasetKind.MATERIALIZED_VIEW),
        kind=DatasetKind.MATERIALIZED_VIEW,
    )  # fmt: skip
    reads: Sequence[tuple[str, Read]] = (
        ("orders", Read(text="delta.`/landing`", streaming=True, path="/landing")),
        ("revenue", Read(text="orders", streaming=False, dataset=_name("orders"))),
    )
    return DataflowGraph(
        pipeline=pipeline, datasets=(orders, revenue),
        flows=tuple(
            GraphFlow(spec=FlowSpec(name=_name(flow), target=_name(flow)), reads=(read,), streaming=read.streaming)
            for flow, read in reads
        ),
    )  # fmt: skip


def _version(table: Path, version: int) -> None:
    """Write a commit of a Delta table."""
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    info = {"timestamp": 1767225600000, "operation": "WRITE", "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numOutputRows": "3"}}  # fmt: skip
    (table / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
