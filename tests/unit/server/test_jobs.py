"""Jobs run a command of `sluice` as a child process, one at a time, and keep what it printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from framework.server.access.roles import Role
from framework.server.server import Ports
from framework.server.workbench.kinds import KINDS
from tests.support import fake_sluice
from tests.support.served_pipelines import eventually, fake_command, served
from tests.support.server_world import World, world_of

SHOP = "/pipelines/shop"
NOW = {"Prefer": "wait=20"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server whose jobs are stand-ins."""
    folder = tmp_path_factory.mktemp("served")
    served(folder / "shop")
    program = (sys.executable, "-S", str(Path(fake_sluice.__file__)))
    with world_of(folder, ports=Ports(command=fake_command, program=program)) as made:
        yield made


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    """The server; what a failed test has left in the folder is deleted."""
    yield shared
    for name in ("job-wait", "job-fail"):
        (shared.folder / "shop" / name).unlink(missing_ok=True)


def done(world: World, kind: str, body: dict[str, Any], **more: Any) -> Any:
    """A job that has ended."""
    return world.post(f"{SHOP}/jobs/{kind}", body, headers=NOW, **more)


def arguments(world: World, kind: str, body: dict[str, Any]) -> list[str]:
    """The arguments that a kind of job gives to its command, without the spec and the format."""
    found: list[str] = done(world, kind, body)["result"]["arguments"]
    return [each for each in found if not each.startswith("--spec=") and each not in {"-o", "json"}]


def test_a_job_has_the_output_of_its_command(world: World) -> None:
    """It runs in the pipeline's folder, with its spec; the answer comes at once if the caller waits."""
    job = done(world, "lag", {}, role=Role.OPERATE)
    assert ("lag", "DONE", 0, None, None) == tuple(
        job[each] for each in ("kind", "state", "exit_code", "error", "place")
    )
    folder = str(world.folder / "shop")
    assert {"arguments": ["lag", f"--spec={folder}/pipeline.yml", "-o", "json"], "folder": folder} == job["result"]
    assert job == world.get(f"/jobs/{job['job']}", role=Role.VIEW)


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("rows", {"dataset": "orders", "limit": 5}, ["show", "--rows=5", "--", "orders"]),
        ("rows", {"dataset": "--help"}, ["show", "--rows=100", "--", "--help"]),
        (
            "plan",
            {"refresh_selection": ["a", "b"], "full_refresh_selection": ["c"], "keep_history": True},
            ["plan", "--refresh=a", "--refresh=b", "--full-refresh=c", "--keep-history"],
        ),
        (
            "checkpoints-reset",
            {"flow": "orders", "start": "startingVersion=3"},
            ["checkpoints", "reset", "--from=startingVersion=3", "--", "orders"],
        ),
    ],
)
def test_a_request_becomes_arguments_that_are_no_other_options(
    world: World, kind: str, body: dict[str, Any], expected: list[str]
) -> None:
    """Each value stays with its option, and a name behind `--` is a name, whatever it begins with."""
    if KINDS[kind].prints_json:
        assert expected == arguments(world, kind, body)
        return
    command = KINDS[kind].command("S", body)
    assert (*expected[:2], "--spec=S", *expected[2:]) == command


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("rows", {}),
        ("rows", {"dataset": "x", "limit": 1001}),
        ("rows", {"dataset": "x", "limit": True}),
        ("rows", {"dataset": ["x"]}),
        ("rows", {"dataset": "x", "where": "1=1"}),
        ("lag", {"flow": "x"}),
        ("plan", {"refresh_selection": "x"}),
        ("plan", {"full_refresh": "yes"}),
        ("quarantine-rows", {"flow": "x", "limit": 0}),
        ("rewind", {"to": {}, "dry_run": True}),
        ("quarantine-replay", {"flow": " ", "dry_run": True}),
    ],
)
def test_a_wrong_request_is_no_job(world: World, kind: str, body: dict[str, Any]) -> None:
    """400 with the field; no process is started."""
    response = world.ask("POST", f"{SHOP}/jobs/{kind}", body)
    assert (400, "UPDATE_REQUEST_INVALID") == (response.status_code, response.json()["details"][0]["condition"])


def test_unknown_kinds_and_jobs_are_not_found(world: World) -> None:
    """A way out has its own route, because it is for a finding."""
    assert 404 == world.ask("POST", f"{SHOP}/jobs/none", {}).status_code
    assert 400 == world.ask("POST", f"{SHOP}/jobs/way", {}).status_code
    assert 404 == world.ask("GET", "/jobs/none").status_code


def test_jobs_run_one_after_the_other_and_can_be_cancelled(world: World) -> None:
    """One that waits shows its place; cancelling the running one starts the next."""
    (world.folder / "shop" / "job-wait").touch()
    first, second, third = (world.post(f"{SHOP}/jobs/lag", {})["job"] for _ in range(3))
    eventually(lambda: world.get(f"/jobs/{first}")["state"] == "RUNNING")
    assert [1, 2] == [world.get(f"/jobs/{each}")["place"] for each in (second, third)]
    assert "CANCELED" == world.ask("DELETE", f"/jobs/{third}").json()["state"]
    assert "CANCELED" == world.ask("DELETE", f"/jobs/{first}").json()["state"]
    eventually(lambda: world.get(f"/jobs/{second}")["state"] == "RUNNING")
    (world.folder / "shop" / "job-wait").unlink()
    eventually(lambda: world.get(f"/jobs/{second}")["state"] == "DONE")
    assert ["CANCELED", "CANCELED"] == [world.get(f"/jobs/{each}")["state"] for each in (first, third)]


def test_a_failed_job_has_condition_problem_and_remedy(world: World) -> None:
    """As the command printed them."""
    (world.folder / "shop" / "job-fail").touch()
    job = done(world, "rows", {"dataset": "x"})
    error = {"condition": "DATASET_NOT_FOUND", "what": "There is no dataset x.", "remedy": "Correct the name."}
    assert ("FAILED", error, None) == (job["state"], job["error"], job["result"])


def test_the_result_of_a_job_needs_the_role_of_its_kind(world: World) -> None:
    """Rows are not for those who may only see states, whoever asked for them."""
    job = done(world, "rows", {"dataset": "orders"}, role=Role.READ)["job"]
    assert [403, 200] == [world.ask("GET", f"/jobs/{job}", role=each).status_code for each in (Role.VIEW, Role.READ)]
    assert 403 == world.ask("DELETE", f"/jobs/{job}", role=Role.VIEW).status_code


def test_those_who_wait_for_jobs_leave_threads_for_others(world: World) -> None:
    """The server has forty threads for requests; of many who wait for a job only some are kept waiting."""
    (world.folder / "shop" / "job-wait").touch()
    with ThreadPoolExecutor(60) as clients:
        asked = [
            clients.submit(world.ask, "POST", f"{SHOP}/jobs/lag", {}, headers={"Prefer": "wait=30"}) for _ in range(60)
        ]
        assert 200 == world.ask("GET", SHOP).status_code
        (world.folder / "shop" / "job-wait").unlink()
        assert {202} == {each.result().status_code for each in asked}


@pytest.mark.parametrize("prefer", ["wait=", "wait=-1", "wait=1e9", "wait=" + "9" * 6000, "respond-async"])
def test_a_preference_that_is_none_is_not_waited_for(world: World, prefer: str) -> None:
    """It is a wish, so that a server may ignore it."""
    assert 202 == world.ask("POST", f"{SHOP}/jobs/lag", {}, headers={"Prefer": prefer}).status_code


def test_a_way_out_is_done_for_the_finding_that_was_seen(world: World) -> None:
    """By the digest of the finding; with who and why. Without an examination, or with another one, 409."""
    ask = {"finding": 1, "way": 1, "dry_run": True, "reason": "TICKET-7", "expect": "x"}
    assert 409 == world.ask("POST", f"{SHOP}/doctor/ways", ask).status_code
    assert {"examined_at": None, "examination": None, "job": None} == world.get(f"{SHOP}/doctor")
    job = done(world, "doctor", {}, role=Role.OPERATE)
    examination = world.get(f"{SHOP}/doctor", role=Role.VIEW)["examination"]
    assert ("DONE", job["result"]) == (job["state"], examination)
    (finding,) = examination["findings"]
    assert 409 == world.ask("POST", f"{SHOP}/doctor/ways", ask).status_code
    seen = {**ask, "expect": finding["digest"]}
    expect = "--expect=sluice checkpoints reset orders"
    for dry_run, end in ((True, "--dry-run"), (False, "--yes")):
        way = world.post(f"{SHOP}/doctor/ways", {**seen, "dry_run": dry_run}, headers=NOW)
        assert ["doctor", "--apply=1", end, expect, "--reason=ci-manage: TICKET-7", "--", "main.default.orders"] == [
            each for each in way["result"]["arguments"] if not each.startswith("--spec=") and each not in {"-o", "json"}
        ]
    assert 409 == world.ask("POST", f"{SHOP}/doctor/ways", {**seen, "finding": 2}).status_code
    for wrong in ({"dry_run": "no"}, {"way": 2}, {"way": True}, {"reason": 1}):
        assert 400 == world.ask("POST", f"{SHOP}/doctor/ways", {**seen, **wrong}).status_code


@pytest.mark.parametrize("kind", ["lag", "checkpoints", "backups", "ingest-status", "doctor"])
def test_who_may_only_look_starts_no_code_of_the_project(world: World, kind: str) -> None:
    """Commands load its modules and start Spark; what they found is for all who see the pipeline."""
    assert [403, 403] == [
        world.ask("POST", f"{SHOP}/jobs/{kind}", {}, role=each).status_code for each in (Role.VIEW, Role.READ)
    ]
    job = done(world, kind, {}, role=Role.OPERATE)["job"]
    assert "DONE" == world.get(f"/jobs/{job}", Role.VIEW)["state"]
    assert 403 == world.ask("DELETE", f"/jobs/{job}", role=Role.READ).status_code


def test_a_hundred_jobs_wait_and_no_more(tmp_path: Path) -> None:
    """429 with the time to try again; the end of the server ends the running one."""
    served(tmp_path / "shop")
    (tmp_path / "shop" / "job-wait").touch()
    program = (sys.executable, "-S", str(Path(fake_sluice.__file__)))
    with world_of(tmp_path, ports=Ports(command=fake_command, program=program)) as world:
        running = world.post(f"{SHOP}/jobs/lag", {})["job"]
        eventually(lambda: world.get(f"/jobs/{running}")["state"] == "RUNNING")
        for _ in range(100):
            world.post(f"{SHOP}/jobs/lag", {})
        refused = world.ask("POST", f"{SHOP}/jobs/lag", {})
        assert (429, "REQUEST_LIMIT_EXCEEDED", "5") == (
            refused.status_code,
            refused.json()["error_code"],
            refused.headers["retry-after"],
        )
