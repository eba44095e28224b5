"""Updates are started, watched and stopped over the API; each of them runs in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.foundation.files.local_storage import LocalStorage
from framework.server.access.roles import Role
from framework.server.databricks.shapes import run_id_of
from framework.server.engines.run_records import RunRecord, RunRecords
from framework.server.server import Ports
from tests.support.served_pipelines import eventually, fake_command, root_of, runs_of, served
from tests.support.server_world import World, world_of

SHOP = "/pipelines/shop"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A server over a pipeline without updates, whose engine is a stand-in."""
    served(tmp_path / "shop")
    with world_of(tmp_path) as made:
        yield made


def wait(world: World) -> None:
    """Let the engine wait until it is stopped."""
    (root_of(world.entry()) / "engine-wait").touch()


def row(world: World, update_id: str) -> Any:
    """The row of an update, as it is now."""
    world.server.look()
    return world.get(f"{SHOP}/updates/{update_id}")


def test_an_update_is_started_and_its_end_is_seen(world: World) -> None:
    """Who asked and why is recorded, the caller's own selections are in the answer, and its output is kept."""
    body = {"refresh_selection": ["orders"], "sluice": {"reason": "TICKET-7"}}
    started = world.post(f"{SHOP}/updates", body, role=Role.OPERATE)
    update = started["update_id"]
    assert ("STARTING", None) == (started["state"], started["place"])
    records = RunRecords(LocalStorage(world.entry().storage.root))
    eventually(lambda: not (records.read(update) or RunRecord(update_id="", request_id="", pipeline="")).is_open,
               world.server.look)  # fmt: skip
    found = row(world, update)
    assert "COMPLETED" == found["state"]
    assert ("server", True, "API_CALL") == (found["started_by"], found["log"], found["cause"])
    assert {"text": "", "is_cut": False} == world.get(f"{SHOP}/updates/{update}/log", role=Role.READ)
    record = records.read(update)
    assert record is not None
    assert ("ci-operate", "TICKET-7", "COMPLETED", 0) == (record.user, record.reason, record.outcome, record.exit_code)
    assert "--refresh=orders" not in record.argv  # the stand-in has arguments of its own


def test_the_running_update_is_the_activity_and_is_stopped_with_a_reason(world: World) -> None:
    """STARTING, RUNNING, STOPPING, IDLE; the outcome is another value than the activity."""
    wait(world)
    update = world.post(f"{SHOP}/updates", {})["update_id"]
    assert world.get(SHOP)["activity"] in {"STARTING", "RUNNING"}
    eventually(lambda: world.get(SHOP)["activity"] == "RUNNING", world.server.look)
    assert update == world.get(SHOP)["update"]["update_id"]
    assert 1 == world.get("/machine")["engines"]["running"]
    report = world.post(f"{SHOP}/stop", {"reason": "wrong data"})
    assert (update, "STOPPING") == (report["update_id"], report["state"])
    eventually(lambda: row(world, update)["state"] == "CANCELED")
    assert ("IDLE", "CANCELED", None) == (
        world.get(SHOP)["activity"],
        world.get(SHOP)["last"]["state"],
        world.get(SHOP)["attention"],
    )
    text = (root_of(world.entry()) / "requests" / f"stop-{update}.json").read_text()
    assert ["wrong data", "ci-manage"] == [each for each in ("wrong data", "ci-manage") if each in text]


def test_a_second_update_is_refused_with_the_first_ones_name_or_waits(world: World) -> None:
    """409 with the condition and a way out; with `queue` it waits in its place, and can be cancelled there."""
    wait(world)
    first = world.post(f"{SHOP}/updates", {})["update_id"]
    eventually(lambda: row(world, first)["state"] == "RUNNING")
    refused = world.ask("POST", f"{SHOP}/updates", {})
    (detail,) = refused.json()["details"]
    assert (409, "RESOURCE_CONFLICT", "UPDATE_ALREADY_RUNNING") == (
        refused.status_code,
        refused.json()["error_code"],
        detail["condition"],
    )
    assert first in refused.json()["message"]
    second = world.post(f"{SHOP}/updates", {"sluice": {"queue": True}})
    assert ("WAITING_FOR_RESOURCES", 1) == (second["state"], second["place"])
    assert "WAITING_FOR_RESOURCES" == row(world, second["update_id"])["state"]
    world.post(f"{SHOP}/stop", {"update_id": second["update_id"]})
    assert "CANCELED" == row(world, second["update_id"])["state"]
    world.post(f"{SHOP}/stop", {})
    eventually(lambda: row(world, first)["state"] == "CANCELED")
    assert [first] == runs_of(world.entry())


def test_a_request_that_is_sent_twice_with_its_key_runs_once(world: World) -> None:
    """A client that lost the answer gets it again."""
    headers = {"Idempotency-Key": "nightly-2026-11-28"}
    both = [world.post(f"{SHOP}/updates", {}, headers=headers)["update_id"] for _ in range(2)]
    eventually(lambda: row(world, both[0])["state"] == "COMPLETED")
    assert (1, both[:1]) == (len(set(both)), runs_of(world.entry()))
    assert 400 == world.ask("POST", f"{SHOP}/updates", {}, headers={"Idempotency-Key": "x" * 201}).status_code


@pytest.mark.parametrize(
    "body",
    [
        {"refresh": []},
        {"refresh_selection": "orders"},
        {"full_refresh": "true"},
        {"development": True},
        {"replace_where_overrides": []},
        {"rewind_spec": {}},
        {"cause": "BECAUSE"},
        {"sluice": {"keep": True}},
        {"sluice": []},
        {"parameters": {"a": 1}},
    ],
)
def test_a_field_that_is_not_honoured_starts_nothing(world: World, body: dict[str, Any]) -> None:
    """400 with the name of the field; never a good answer for what was ignored."""
    response = world.ask("POST", f"{SHOP}/updates", body)
    assert (400, []) == (response.status_code, runs_of(world.entry()))
    assert next(iter(body)) in response.text


def test_an_engine_that_does_not_start_says_why(world: World) -> None:
    """The error of its output is the error of the update, and its log is there."""
    (root_of(world.entry()) / "engine-refuse").touch()
    update = world.post(f"{SHOP}/updates", {})["update_id"]
    eventually(lambda: row(world, update)["state"] == "FAILED")
    found = row(world, update)
    assert "[PIPELINE_SPEC_MISSING_REQUIRED_FIELD] The spec is gone.\n  -> Put it back." == found["error"]
    assert world.get(f"{SHOP}/updates/{update}/log")["text"].startswith("noise\n[PIPELINE_SPEC_MISSING_REQUIRED_FIELD]")


def test_a_key_belongs_to_its_caller_its_route_and_its_body(world: World) -> None:
    """The first answer is given to nobody else, and never for another body; the same request again has it."""
    pipeline, entry = f"/api/2.0/pipelines/{world.entry().pipeline_id}/updates", world.entry()
    key = {"Idempotency-Key": "night"}
    body = {"sluice": {"queue": True, "reason": "a"}}
    first = world.post(f"{SHOP}/updates", body, headers=key)["update_id"]
    assert first == world.post(f"/pipelines/{entry.pipeline_id}/updates", body, headers=key)["update_id"]
    other = world.ask("POST", f"{SHOP}/updates", {"sluice": {"queue": True, "reason": "b"}}, headers=key)
    assert (409, "SERVE_KEY_USED") == (other.status_code, other.json()["details"][0]["condition"])
    task: dict[str, Any] = {"pipeline_task": {"pipeline_id": entry.pipeline_id}, "idempotency_token": "night"}
    eventually(lambda: row(world, first)["state"] == "COMPLETED")
    run = world.post("/api/2.2/jobs/runs/submit", task, status=200)["run_id"]
    assert run == world.post("/api/2.1/jobs/runs/submit", task, status=200)["run_id"]
    more = {**task, "pipeline_task": {**task["pipeline_task"], "full_refresh": True}}
    assert 409 == world.ask("POST", "/api/2.2/jobs/runs/submit", more).status_code
    ids = [
        world.post(f"{SHOP}/updates", body, headers=key, role=Role.OPERATE)["update_id"],
        world.post(pipeline, body, headers=key, status=200)["update_id"],
    ]
    assert 4 == len({first, *ids, run})


_WRONG_BODIES = (
    b'{"full_refresh": false, "full_refresh": true}',
    b'{"sluice": {"queue": true, "queue": false}}',
    b'{"parameters": {"x": NaN}}',
    b'{"parameters": {"x": -Infinity}}',
    b'{"parameters": {"x": 1e999}}',
    b'{"parameters": ' + b"1" * 6000 + b"}",
    b'{"sluice": {"reason": "' + b"x" * 1001 + b'"}}',
    b'{"parameters": {"x": "' + b"x" * 10_001 + b'"}}',
    b'{"refresh_selection": ["' + b"x" * 10_001 + b'"]}',
    b'{"refresh_selection": [' + b'"x",' * 1000 + b'"x"]}',
)


@pytest.mark.parametrize("content", _WRONG_BODIES)
def test_a_body_that_is_ambiguous_or_has_no_bounds_starts_nothing(world: World, content: bytes) -> None:
    """Two fields of one name, numbers that are none, and texts longer than a command line takes."""
    for path in (f"{SHOP}/updates", f"/api/2.0/pipelines/{world.entry().pipeline_id}/updates"):
        headers = {**world.headers(), "Content-Type": "application/json"}
        url = path if path.startswith("/api") else f"/api/sluice/v1{path}"
        answer = world.client.post(url, content=content, headers=headers)
        assert (400, "INVALID_PARAMETER_VALUE") == (answer.status_code, answer.json()["error_code"])
        assert len(answer.content) < 2_000
    assert [] == runs_of(world.entry())


@pytest.mark.parametrize("file", ["engine-refuse", "engine-crash"])
def test_who_may_not_read_rows_sees_no_output_of_a_process(world: World, file: str) -> None:
    """What the project prints may be rows: no answer of a face, and no message, has them; `read` has the output."""
    sent: list[str] = []
    world.server.hub.hear(lambda message: sent.append(message.data))
    (root_of(world.entry()) / file).touch()
    update = world.post(f"{SHOP}/updates", {})["update_id"]
    eventually(lambda: row(world, update)["state"] == "FAILED")
    entry, run = world.entry(), run_id_of(update)
    theirs = f"/api/2.0/pipelines/{entry.pipeline_id}"
    paths = ("/pipelines", SHOP, f"{SHOP}/updates", f"{SHOP}/updates/{update}", f"{SHOP}/grid", theirs,
             f"/api/2.2/jobs/runs/get?run_id={run}", f"/api/2.2/jobs/runs/get-output?run_id={run}",
             f"{theirs}/updates", f"{theirs}/updates/{update}")  # fmt: skip
    texts = [world.ask("GET", path, role=Role.VIEW).text for path in paths] + sent
    assert [] == [text for text in texts if "4111" in text]
    assert row(world, update)["error"]
    answers = [world.ask("GET", f"{SHOP}/updates/{update}/log", role=role) for role in (Role.VIEW, Role.READ)]
    assert ([403, 200], True) == ([each.status_code for each in answers], "4111" in answers[1].text)


def test_what_happens_is_sent_to_those_who_listen(world: World) -> None:
    """The states of an update in their order, its events, and the pipeline's row, without asking again."""
    sent: list[tuple[str, Any]] = []
    world.server.hub.hear(lambda message: sent.append((message.type, json.loads(message.data))))
    update = world.post(f"{SHOP}/updates", {})["update_id"]
    eventually(lambda: row(world, update)["state"] == "COMPLETED")
    states = [each["state"] for kind, each in sent if kind == "update"]
    assert ["CREATED", "COMPLETED"] == list(dict.fromkeys(each for each in states if each != "RUNNING"))
    activities = [each["activity"] for kind, each in sent if kind == "pipeline"]
    assert ("STARTING", "IDLE") == (activities[0], activities[-1])
    kinds = [each["event"]["event_type"] for kind, each in sent if kind == "event"]
    assert ["create_update", "update_progress", "update_progress"] == kinds


def test_two_servers_of_one_storage_never_start_the_same_update(world: World, tmp_path: Path) -> None:
    """The second shows all of it, starts nothing, and names the first."""
    wait(world)
    update = world.post(f"{SHOP}/updates", {})["update_id"]
    with world_of(tmp_path, ports=Ports(command=fake_command)) as second:
        second.tokens.update(world.tokens)
        eventually(lambda: second.get(SHOP)["activity"] == "RUNNING", second.server.look)
        refused = second.ask("POST", f"{SHOP}/updates", {"sluice": {"queue": True}})
        assert (409, "SERVE_STORAGE_TAKEN") == (refused.status_code, refused.json()["details"][0]["condition"])
        assert second.get("/machine")["reader_of"].startswith("process ")
        second.post(f"{SHOP}/stop", {"reason": "from the second"})
        eventually(lambda: row(world, update)["state"] == "CANCELED")
        eventually(lambda: second.get(f"{SHOP}/updates/{update}")["state"] == "CANCELED", second.server.look)
    assert [update] == runs_of(world.entry())


def test_a_storage_that_cannot_be_written_is_an_answer_with_its_cause(world: World) -> None:
    """503 with the path; the server goes on."""
    runs = root_of(world.entry()) / "runs"
    runs.write_text("a file in the place of the folder")
    response = world.ask("POST", f"{SHOP}/updates", {})
    assert (503, "TEMPORARILY_UNAVAILABLE") == (response.status_code, response.json()["error_code"])
    assert "STORAGE_NOT_" in json.dumps(response.json())
    runs.unlink()
    assert world.post(f"{SHOP}/updates", {})["update_id"]
