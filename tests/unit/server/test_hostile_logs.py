"""A log in which other programs, crashes and disks have left anything: each page of the pipeline still answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.operations.alerting.explaining import first_way
from framework.server.serving import Extras
from framework.server.signals.routes import Signals
from tests.support.fake_engine import event_line
from tests.support.server_world import AGAIN, ORDERS, World, record_shop, world_of

_DEEP = "[" * 100_000


def changed(path: tuple[Any, ...], value: str, kind: str = "flow_progress") -> str:
    """An event with one value replaced by a text of JSON."""
    details: dict[str, dict[str, Any]] = {
        "flow_progress": {"status": "RUNNING", "metrics": {"num_output_rows": 1}},
        "update_progress": {"state": "RUNNING"},
        "create_update": {"cause": "API_CALL"},
    }
    event = json.loads(event_line(AGAIN, 900, kind, details[kind], dataset=ORDERS, at="2026-01-01T12:30:00.000Z"))
    place = event
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = "THE VALUE"
    return json.dumps(event).replace('"THE VALUE"', value)


_OF_EVENTS = [
    changed((name,), value)
    for name in ("id", "sequence", "origin", "timestamp", "message", "level", "error", "details", "event_type")
    for value in ("null", "5", "NaN", "1e999", "[]", "{}", '"x"', '"\\ud800"', "true")
]
_OF_DETAILS = [
    changed(("details", kind, name), value, kind)
    for kind, name in (
        ("flow_progress", "status"), ("flow_progress", "metrics"), ("flow_progress", "data_quality"),
        ("update_progress", "state"), ("create_update", "attempt"), ("create_update", "request_id"),
        ("create_update", "refresh_selection"), ("create_update", "cause"), ("create_update", "user_name"),
    )
    for value in ("null", "5", "NaN", "[1]", "[{}]", "{}", '"x"', '"\\ud800"', "9" * 400)
]  # fmt: skip
_OF_COUNTS = [
    changed(("details", "flow_progress", "metrics"), f'{{"{name}": {value}}}')
    for name in ("num_output_rows", "backlog_seconds", "num_quarantined_rows", "interval_seconds")
    for value in ("null", '"x"', "NaN", "-Infinity", "1e999", "9" * 400, "[]", "true", "-1")
] + [
    changed(("details", "flow_progress", "data_quality"), value)
    for value in (
        '{"dropped_records": "x", "expectations": []}', '{"dropped_records": 1}',
        '{"dropped_records": 1, "expectations": [{"name": "valid"}]}',
        '{"dropped_records": 1, "expectations": [{"name": "valid", "passed_records": NaN, "failed_records": 1}]}',
    )
]  # fmt: skip
_OF_LINES = [
    event_line(AGAIN, 902, "create_update", {}), event_line(AGAIN, 903, "update_progress", {}),
    event_line(AGAIN, 904, "flow_progress", {}, dataset=ORDERS), event_line(AGAIN, 905, "planning_information", {}),
    "", "5", "null", '"x"', "[]", "{}", "{", "\x00", "\u2028", _DEEP, '{"a":' * 50_000,
    changed(("timestamp",), '"2026-13-45T99:99:99Z"'), changed(("timestamp",), '"2026-01-01"'),
    changed(("timestamp",), '"2026-01-01T00:00:00"'), changed(("timestamp",), '"0000-01-01T00:00:00Z"'),
    changed(("sequence", "data_plane_id", "seq_no"), str(2**63)), changed(("origin", "update_id"), "5"),
    changed(("origin", "flow_name"), "[]"), changed(("origin", "colour"), '"red"'),
    changed(("message",), '"a\\u0000b"'),
    changed(("origin", "update_id"), '"not-a-uuid"', "create_update"),
    changed(("origin", "host"), '":::"', "create_update"),
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server over the recorded pipeline, with all its parts."""
    record_shop(tmp_path / "shop")
    signals = Signals(first_way)
    with world_of(tmp_path, extras=Extras(parts=signals.parts, routes=signals.routes)) as made:
        yield made


def answers(world: World) -> dict[str, int]:
    """The status of each page that reads the log; each answer is JSON, or text."""
    theirs = f"/api/2.0/pipelines/{world.entry().pipeline_id}"
    paths = (
        "/pipelines", "/pipelines/shop", "/pipelines/shop/updates", f"/pipelines/shop/updates/{AGAIN}",
        f"/pipelines/shop/updates/{AGAIN}/board", "/pipelines/shop/grid", "/pipelines/shop/graph",
        "/pipelines/shop/events?limit=1000", "/pipelines/shop/datasets", "/pipelines/shop/datasets/orders", "/metrics",
        "/alerts", "/schedules", "/api/2.0/pipelines", theirs, f"{theirs}/updates", f"{theirs}/events?max_results=250",
        f"{theirs}/events?max_results=250&order_by=timestamp", "/api/2.2/jobs/runs/get?run_id=1",
    )  # fmt: skip
    found = {}
    for path in paths:
        answer = world.ask("GET", path)
        found[path] = answer.status_code
        if path != "/metrics":
            json.loads(answer.content.decode("utf-8"), parse_constant=pytest.fail)
    return found


@pytest.mark.parametrize(
    "lines", [_OF_EVENTS, _OF_DETAILS, _OF_COUNTS, _OF_LINES], ids=["events", "details", "counts", "lines"]
)
@pytest.mark.parametrize("is_live", [False, True])
def test_no_line_of_a_log_takes_a_page_away(tmp_path: Path, lines: list[str], *, is_live: bool) -> None:
    """Whether it was there before the server, or came later; good events around it are shown, and messages are JSON."""
    record_shop(tmp_path / "shop")
    log = tmp_path / "shop" / ".sluice" / "shop" / "events" / f"{AGAIN}.jsonl"
    good = event_line(AGAIN, 901, "flow_progress", {"status": "RUNNING"}, dataset=ORDERS, message="after all")
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass") + b"\xff\xfe\n" + good.encode()
    if not is_live:
        log.write_bytes(log.read_bytes() + content)
    signals = Signals(first_way)
    with world_of(tmp_path, extras=Extras(parts=signals.parts, routes=signals.routes)) as world:
        sent: list[str] = []
        world.server.hub.hear(lambda message: sent.append(message.data))
        world.ask("GET", "/metrics")
        if is_live:
            log.write_bytes(log.read_bytes() + content)
            world.server.look()
        found = answers(world)
        assert {"/api/2.2/jobs/runs/get?run_id=1": 404} == {path: each for path, each in found.items() if each != 200}
        assert "after all" in world.ask("GET", "/pipelines/shop/events?text=after").text
        for text in sent:
            json.loads(text, parse_constant=pytest.fail)


def test_a_line_without_an_end_is_read_when_it_has_one(world: World) -> None:
    """What is written so far is no event; the rest of it may come."""
    log = Path(world.entry().storage.root) / "events" / f"{AGAIN}.jsonl"
    line = event_line(AGAIN, 901, "flow_progress", {"status": "RUNNING"}, dataset=ORDERS, message="in two parts")
    heard: list[str] = []
    world.server.hub.hear(lambda message: heard.append(message.data))
    for part in (line[:40], line[40:]):
        assert not [each for each in heard if "in two parts" in each]
        with log.open("a") as file:
            file.write(part)
        world.server.look()
    assert [True] == ["in two parts" in each for each in heard if '"event"' in each]


def test_what_a_user_did_is_no_update(world: World) -> None:
    """Commands write a log of their own for it, without an update."""
    own = "77777777-0000-4000-8000-000000000000"
    before = world.get("/pipelines/shop/updates")
    log = Path(world.entry().storage.root) / "events" / f"{own}.jsonl"
    log.write_text(event_line(own, 1, "user_action", {"action": "PRUNE"}))
    world.server.look()
    assert before == world.get("/pipelines/shop/updates")
