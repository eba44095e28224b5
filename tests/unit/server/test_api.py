"""The answers of our own routes, from storages that the record's own code has written."""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.files.local_storage import LocalStorage
from framework.graph.stored_graph import GraphStore
from framework.server.access.roles import Role
from framework.server.web.routes import OWN_FACE
from tests.support.served_pipelines import eventually, root_of, served, write_spec
from tests.support.server_world import (
    AGAIN,
    FAILED,
    FIRST,
    ORDERS,
    REQUEST,
    REVENUE,
    World,
    record_shop,
    record_update,
    world_of,
)

SHOP = "/pipelines/shop"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server over the recorded pipeline `shop`."""
    record_shop(tmp_path / "shop")
    with world_of(tmp_path) as made:
        yield made


def chosen(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """Some fields of a row."""
    return tuple(row[each] for each in names)


def test_home_has_what_each_pipeline_does_and_how_it_ended(world: World, tmp_path: Path) -> None:
    """Attempts of one request count once; a pipeline without updates is idle; a spec that can't be used is a fault."""
    served(tmp_path / "empty", "empty")
    write_spec(tmp_path / "broken", "broken", "colour: red\n")
    world.server.find()
    found = world.get("/pipelines")
    empty, shop = found["pipelines"]
    assert ("empty", "IDLE", None, None, []) == chosen(empty, "name", "activity", "update", "last", "recent")
    assert ("IDLE", None, None) == chosen(shop, "activity", "update", "attention")
    assert (AGAIN, "COMPLETED", 2) == chosen(shop["last"], "update_id", "state", "attempt")
    assert [("COMPLETED", 1, 5.0), ("COMPLETED", 2, 3605.0)] == [
        chosen(each, "outcome", "attempts", "seconds") for each in shop["recent"]
    ]
    (fault,) = found["faults"]
    assert str(tmp_path / "broken" / "pipeline.yml") == fault["file"]
    assert "colour" in fault["what"]


def test_a_pipeline_is_found_by_its_id_and_by_its_name(world: World) -> None:
    """Its settings are in the answer, without the values of secrets; an unknown one is 404."""
    by_name = world.get(SHOP)
    assert by_name == world.get(f"/pipelines/{by_name['pipeline_id']}")
    assert ["transformations/**"] == by_name["spec"]["libraries"]
    missing = world.ask("GET", "/pipelines/none")
    assert (404, "RESOURCE_DOES_NOT_EXIST") == (missing.status_code, missing.json()["error_code"])


def test_a_name_of_two_pipelines_is_none(world: World, tmp_path: Path) -> None:
    """Only their ids tell them apart."""
    served(tmp_path / "other", "shop")
    world.server.find()
    assert 404 == world.ask("GET", SHOP).status_code
    ids = [each["pipeline_id"] for each in world.get("/pipelines")["pipelines"]]
    assert 2 == len({world.get(f"/pipelines/{each}")["storage"] for each in ids})


def test_requests_have_their_attempts_and_are_paged_backwards(world: World) -> None:
    """The newest request first; the cursor leads to the older ones, and the last page has none."""
    first = world.get(f"{SHOP}/updates?limit=1")
    (request,) = first["requests"]
    assert (REQUEST, "COMPLETED", 3605.0) == chosen(request, "request_id", "outcome", "seconds")
    assert [(FAILED, 1, "FAILED"), (AGAIN, 2, "COMPLETED")] == [
        chosen(each, "update_id", "attempt", "state") for each in request["attempts"]
    ]
    second = world.get(f"{SHOP}/updates?limit=1&before={first['before']}")
    assert ([FIRST], None) == ([each["request_id"] for each in second["requests"]], second["before"])
    assert 404 == world.ask("GET", f"{SHOP}/updates?before=none").status_code


def test_an_update_has_its_flows_in_time_its_plan_and_who_started_it(world: World) -> None:
    """The spans of a flow are those of its events; the reason of each step is that of the planner."""
    found = world.get(f"{SHOP}/updates/{FIRST}")
    assert ("bob", "box", 77, "other", "REFRESH", 5.0) == chosen(
        found, "user", "host", "pid", "started_by", "kind", "seconds"
    )
    orders, revenue = found["flows"]
    span = {"started_at": "2026-01-01T00:00:02.000Z", "ended_at": "2026-01-01T00:00:04.000Z", "state": "COMPLETED"}
    assert (ORDERS, 3, 1, [span]) == chosen(orders, "flow", "rows_written", "records_failed", "spans")
    assert ("SKIPPED", "nothing new", []) == chosen(revenue, "state", "reason", "spans")
    planned = {"dataset": ORDERS, "flow": ORDERS, "technique": "INCREMENTAL", "reason": "There are new files."}
    assert [planned] == found["plan"]
    assert found["options"]["full_refresh"] is False


def test_a_failed_update_has_its_error(world: World) -> None:
    """The text of the first error, which names the condition and the way out."""
    found = world.get(f"{SHOP}/updates/{FAILED}")
    assert found["error"].startswith("[STORAGE_NOT_READABLE] /data/orders cannot be read: it is gone.")
    board = world.get(f"{SHOP}/updates/{FAILED}/board")
    assert ("FAILED", ["FAILED"]) == (board["state"], [each["state"] for each in board["flows"]])
    assert 404 == world.ask("GET", f"{SHOP}/updates/none").status_code
    assert 404 == world.ask("GET", f"{SHOP}/updates/{FAILED}/log").status_code


def test_the_grid_has_a_cell_for_each_flow_and_update(world: World) -> None:
    """A flow that an update did not have has no cell there."""
    grid = world.get(f"{SHOP}/grid")
    assert [FIRST, FAILED, AGAIN] == [each["update_id"] for each in grid["updates"]]
    assert [ORDERS, REVENUE] == grid["flows"]
    assert [
        [("COMPLETED", 3, 2.0), ("FAILED", None, 2.0), ("COMPLETED", 2, 2.0)],
        [("SKIPPED", None, None), None, ("SKIPPED", None, None)],
    ] == [
        [None if cell is None else chosen(cell, "state", "rows", "seconds") for cell in cells]
        for cells in grid["cells"]
    ]
    assert [[AGAIN]] == [[each["update_id"]] for each in world.get(f"{SHOP}/grid?limit=1")["updates"]]


def test_events_are_paged_backwards_to_the_first_one(world: World) -> None:
    """The pages together have each event once, in the order of the log."""
    pages, before = [], ""
    while True:
        page = world.get(f"{SHOP}/events?limit=4{before}")
        pages.append(
            [(each["origin"]["update_id"], each["sequence"]["data_plane_id"]["seq_no"]) for each in page["events"]]
        )
        if page["before"] is None:
            break
        before = f"&before={page['before']}"
    read = [each for page in reversed(pages) for each in page]
    assert sorted(read) == read
    assert [8, 7, 8] == [sum(update == each for update, _ in read) for each in (FIRST, FAILED, AGAIN)]
    assert {4} == {len(page) for page in pages[:-1]}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("level=ERROR", 2),
        ("level=warn", 4),
        ("type=update_progress", 9),
        ("dataset=revenue", 2),
        (f"flow={ORDERS}&type=flow_progress", 6),
        (f"update_id={FIRST}", 8),
        ("text=nothing+new", 2),
        ("text=cannot+be+read", 1),
    ],
)
def test_events_are_filtered(world: World, query: str, count: int) -> None:
    """By level and above, type, dataset, flow, update, and a text in message, names or error."""
    assert count == len(world.get(f"{SHOP}/events?{query}")["events"])


@pytest.mark.parametrize(
    "query",
    ["level=LOUD", "type=none", "limit=0", "limit=1001", "limit=x", "colour=red", "before=none", "limit=%D9%A1"],
)
def test_a_wrong_query_of_events_is_an_error(world: World, query: str) -> None:
    """What would be ignored is refused."""
    assert world.ask("GET", f"{SHOP}/events?{query}").status_code in {400, 404}


def test_the_graph_has_places_and_states(world: World) -> None:
    """Each dataset, source and edge is placed; the states are those of the newest update."""
    found = world.get(f"{SHOP}/graph")
    nodes = {each["id"]: each for each in found["layout"]["nodes"]}
    assert {ORDERS, REVENUE, "external delta.`/landing`"} == set(nodes)
    assert [("external delta.`/landing`", ORDERS, "stream"), (ORDERS, REVENUE, "batch")] == [
        chosen(each, "from", "to", "kind") for each in found["layout"]["edges"]
    ]
    assert nodes[ORDERS]["x"] < nodes[REVENUE]["x"] < found["layout"]["width"]
    assert {ORDERS: "COMPLETED", REVENUE: "SKIPPED"} == {name: flow["state"] for name, flow in found["states"].items()}


def test_without_a_stored_graph_the_answer_says_how_to_get_one(world: World, tmp_path: Path) -> None:
    """No update and no `validate` has run yet."""
    served(tmp_path / "empty", "empty")
    world.server.find()
    for path in ("graph", "datasets", "datasets/orders"):
        response = world.ask("GET", f"/pipelines/empty/{path}")
        (detail,) = response.json()["details"]
        assert (404, "GRAPH_NOT_STORED") == (response.status_code, detail["condition"])
        assert "sluice validate" in detail["remedy"]


def test_datasets_have_their_state_versions_and_quality(world: World, tmp_path: Path) -> None:
    """The counts of expectations are those of the event log, by update; the versions are those of the Delta log."""
    orders, revenue = world.get(f"{SHOP}/datasets")["datasets"]
    assert ("streaming_table", 1, 1, "COMPLETED", 2, "2026-01-01T02:00:04.000Z") == chosen(
        orders, "kind", "columns", "expectations", "state", "rows_written", "updated_at"
    )
    assert ("SKIPPED", None, None) == chosen(revenue, "state", "rows_written", "updated_at")
    found = world.get(f"{SHOP}/datasets/orders")
    assert (["delta.`/landing`"], [REVENUE], str(tmp_path / "shop" / "orders")) == chosen(
        found, "reads", "read_by", "folder"
    )
    assert [(0, "2026-01-01T00:00:00.000Z", "WRITE", {"numOutputRows": "3"})] == [
        chosen(each, "version", "timestamp", "operation", "metrics") for each in found["versions"]
    ]
    (quality,) = found["quality"]
    assert [(FIRST, 3, 1), (AGAIN, 2, 0)] == [
        chosen(each, "update_id", "passed", "failed") for each in quality["points"]
    ]


@pytest.mark.parametrize(
    "name", ["none", "..%2F..%2Fetc%2Fpasswd", "%2E%2E", "orders%00", "main.default", "%F0%9F%92%A5"]
)
def test_names_that_are_no_dataset_are_not_found(world: World, name: str) -> None:
    """A name is compared with those of the graph; it is never a path."""
    assert 404 == world.ask("GET", f"{SHOP}/datasets/{name}").status_code


def test_a_storage_that_cannot_be_used_is_a_fault_of_its_row(world: World, tmp_path: Path) -> None:
    """The other pipelines go on, the last known state stays, and a repair ends the fault."""
    record_shop(tmp_path / "other", "other")
    world.server.find()
    record = root_of(world.entry()) / "update.lock"
    holder = record.open("w")
    holder.write('{"format": 99}')
    holder.flush()
    fcntl.flock(holder, fcntl.LOCK_EX)
    world.server.look()
    other, shop = world.get("/pipelines")["pipelines"]
    assert (None, "STORED_FORMAT_UNKNOWN") == (other["fault"], shop["fault"]["condition"])
    assert AGAIN == shop["last"]["update_id"]
    holder.close()
    record.write_text("")
    world.server.look()
    assert world.get(SHOP)["fault"] is None


def test_a_damaged_line_of_the_log_is_left_out(world: World) -> None:
    """A write that a crash cut off is no reason to show nothing."""
    log = root_of(world.entry()) / "events" / f"{FIRST}.jsonl"
    log.write_text(log.read_text() + '{"id": "half')
    assert 8 == len(world.get(f"{SHOP}/events?update_id={FIRST}")["events"])


def test_a_long_log_is_read_in_pages(tmp_path: Path) -> None:
    """Opening the log gives the last 200 events, whatever its length."""
    entry = record_shop(tmp_path / "shop")
    storage = LocalStorage(entry.storage.root)
    big = "40000000-0000-4000-8000-000000000000"
    record_update(storage, "shop", big, hours=3, rows=1, filler=5_000)
    with world_of(tmp_path) as world:
        page = world.get(f"{SHOP}/events")
        assert (200, big) == (len(page["events"]), page["events"][0]["origin"]["update_id"])
        older = world.get(f"{SHOP}/events?limit=1000&before={page['before']}")
        assert 1000 == len(older["events"])


def test_an_update_of_a_terminal_appears_while_it_runs(world: World) -> None:
    """Its lock says that it runs; without the lock and without an end it is LOST, with the reason."""
    storage = LocalStorage(world.entry().storage.root)
    run = "50000000-0000-4000-8000-000000000000"
    holder = {"format": 1, "host": "box", "pid": 77, "update_id": run, "since": "now"}
    with (root_of(world.entry()) / "update.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(json.dumps(holder))
        lock.flush()
        record_update(storage, "shop", run, hours=4, rows=1)
        events = root_of(world.entry()) / "events" / f"{run}.jsonl"
        lines = events.read_text().splitlines(keepends=True)
        events.write_text("".join(lines[:3]))
        eventually(lambda: world.get(SHOP)["activity"] == "RUNNING", world.server.look)
        assert (run, "bob", "other") == chosen(world.get(SHOP)["update"], "update_id", "user", "started_by")
    eventually(lambda: world.get(SHOP)["activity"] == "IDLE", world.server.look)
    lost = world.get(SHOP)["last"]
    assert (run, "LOST", "Its process ended without a word: it was killed, or its machine failed.") == chosen(
        lost, "update_id", "state", "error"
    )
    assert lost["error"] == world.get(SHOP)["attention"]


def test_who_asks_the_machine_and_health(world: World) -> None:
    """The caller with the role, the engines with their limit, and health without a role."""
    me = world.get("/whoami", role=Role.VIEW)
    assert ("ci-view", "view", "token") == chosen(me, "user", "role", "via")
    machine = world.get("/machine")
    assert ({"running": 0, "queued": 0, "most": 2}, None) == chosen(machine, "engines", "reader_of")
    assert {"jobs.rows.limit", "tokens", "doctor.ways"} <= set(machine["features"])
    assert {"status": "ok", "version": "0.0.1"} == world.get("/health", role=None)


def test_a_deleted_pipeline_and_a_new_one_are_found(world: World, tmp_path: Path) -> None:
    """Without a restart; the server looks for specs twice a minute."""
    (tmp_path / "shop" / "pipeline.yml").unlink()
    served(tmp_path / "new", "new")
    world.server.find()
    assert ["new"] == [each["name"] for each in world.get("/pipelines")["pipelines"]]
    assert 404 == world.ask("GET", SHOP).status_code


def test_two_pipelines_of_one_storage_do_not_mix(world: World, tmp_path: Path) -> None:
    """Updates and events are those of the pipeline that the event names."""
    storage = LocalStorage(world.entry().storage.root)
    write_spec(tmp_path / "twin", "twin", f"storage: {storage.root}\n")
    record_update(storage, "twin", "60000000-0000-4000-8000-000000000000", hours=5, rows=1)
    world.server.find()
    world.server.look()
    assert [1, 2] == [len(world.get(f"/pipelines/{each}/updates")["requests"]) for each in ("twin", "shop")]
    assert 8 == len(world.get("/pipelines/twin/events?limit=1000")["events"])
    assert GraphStore(storage, "twin").read() is None


def test_the_description_of_the_api_is_made_from_its_routes(world: World) -> None:
    """Each route of our own with its role, the parameters of its path, and its query."""
    found = world.get("/openapi.json")
    own = [each for each in world.routes if each.full_path.startswith(OWN_FACE)]
    described = {(method.upper(), path): more for path, each in found["paths"].items() for method, more in each.items()}
    assert {(each.method, each.full_path) for each in own} == set(described)
    for route in own:
        operation = described[route.method, route.full_path]
        named = {(each["in"], each["name"]) for each in operation["parameters"]}
        expected = {("path", each) for each in re.findall(r"\{(\w+)\}", route.path)}
        assert (str(route.role), expected | {("query", each) for each in route.query}) == (
            operation["x-sluice-role"],
            named,
        )
