"""Databricks' own client, over HTTP, is the judge of the routes in Databricks' shapes."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient, errors
from databricks.sdk.config import Config
from databricks.sdk.errors import (
    BadRequest,
    NotFound,
    PermissionDenied,
    ResourceConflict,
    Unauthenticated,
)
from databricks.sdk.service import jobs
from databricks.sdk.service.pipelines import PipelineState, RewindSpec, StartUpdateCause, UpdateInfoState

from framework.server.access.roles import Role
from tests.support.served_pipelines import eventually, root_of, runs_of
from tests.support.server_world import AGAIN, FAILED, FIRST, World, listening, record_shop, world_of


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, str]]:
    """A server over two recorded pipelines, which answers over HTTP."""
    folder = tmp_path_factory.mktemp("served")
    record_shop(folder / "shop")
    record_shop(folder / "bank", "bank")
    with world_of(folder) as world, listening(world) as url:
        yield world, url


@pytest.fixture
def world(shared: tuple[World, str]) -> Iterator[World]:
    """The server; what a failed test has left running is stopped."""
    yield shared[0]
    for name in ("engine-wait", "engine-refuse"):
        (root_of(shared[0].entry()) / name).unlink(missing_ok=True)


@pytest.fixture
def url(shared: tuple[World, str]) -> str:
    """Its address."""
    return shared[1]


@pytest.fixture
def client(world: World, url: str) -> WorkspaceClient:
    """The client of an operator."""
    return client_of(world, url, Role.OPERATE)


@pytest.fixture
def shop(world: World) -> str:
    """The id of the pipeline `shop`."""
    return world.entry().pipeline_id


def client_of(world: World, url: str, role: Role) -> WorkspaceClient:
    """The SDK's client with a token."""
    token = world.headers(role)["Authorization"].removeprefix("Bearer ")
    return WorkspaceClient(config=Config(host=url, token=token, retry_timeout_seconds=5, auth_type="pat"))


def raw(url: str, client: WorkspaceClient, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and the JSON of an answer, as it is sent."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {client.config.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data=data, headers=headers, method=method)  # noqa: S310 - our own
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_who_asks(client: WorkspaceClient) -> None:
    """The name of the token."""
    assert "ci-operate" == client.current_user.me().user_name


def test_pipelines_are_listed_in_pages_with_a_filter_and_in_order(client: WorkspaceClient) -> None:
    """The client reads all pages; a filter that is not supported is an error."""
    pipelines = client.pipelines
    assert ["bank", "shop"] == [each.name for each in pipelines.list_pipelines(max_results=1)]
    assert ["shop"] == [each.name for each in pipelines.list_pipelines(filter="name LIKE 'sh%'")]
    assert ["shop"] == [each.name for each in pipelines.list_pipelines(filter="name LIKE '_h_p'")]
    assert [] == [
        *pipelines.list_pipelines(filter="name LIKE '_shop'"),
        *pipelines.list_pipelines(filter="name LIKE '_'"),
    ]
    assert ["shop", "bank"] == [each.name for each in pipelines.list_pipelines(order_by=["name desc"])]
    (bank, _) = pipelines.list_pipelines()
    assert ("IDLE", "HEALTHY", "ada") == (bank.state and bank.state.value, bank.health and bank.health.value,
                                          bank.creator_user_name)  # fmt: skip
    latest = bank.latest_updates or []
    assert [(AGAIN, "COMPLETED", "2026-01-01T02:00:00.000Z"), (FAILED, "FAILED", "2026-01-01T01:00:00.000Z")] == [
        (each.update_id, each.state and each.state.value, each.creation_time) for each in latest[:2]
    ]
    with pytest.raises(BadRequest):
        list(pipelines.list_pipelines(filter="owner = 'ada'"))
    with pytest.raises(BadRequest):
        list(pipelines.list_pipelines(max_results=101))


def test_a_pipeline_has_its_spec(client: WorkspaceClient, shop: str) -> None:
    """An unknown id is `NotFound`, as Terraform waits for."""
    found = client.pipelines.get(shop)
    assert found.spec is not None
    assert ("shop", "shop", "main", False) == (found.name, found.spec.name, found.spec.catalog, found.spec.continuous)
    (library,) = found.spec.libraries or []
    assert "transformations/**" == (library.glob and library.glob.include)
    for unknown in ("7b1c0000-0000-4000-8000-000000000000", "shop"):
        with pytest.raises(NotFound):
            client.pipelines.get(unknown)


def test_updates_are_listed_newest_first_and_in_pages(client: WorkspaceClient, shop: str) -> None:
    """Creation times are milliseconds here; `until_update_id` ends the list with that update."""
    first = client.pipelines.list_updates(shop, max_results=2)
    assert [AGAIN, FAILED] == [each.update_id for each in first.updates or []]
    rest = client.pipelines.list_updates(shop, page_token=first.next_page_token)
    assert ([FIRST], None) == ([each.update_id for each in rest.updates or []], rest.next_page_token)
    until = client.pipelines.list_updates(shop, until_update_id=FAILED)
    assert [AGAIN, FAILED] == [each.update_id for each in until.updates or []]
    found = client.pipelines.get_update(shop, FIRST).update
    assert found is not None
    assert (1767225600000, UpdateInfoState.COMPLETED, False) == (
        found.creation_time,
        found.state,
        found.full_refresh,
    )
    with pytest.raises(NotFound):
        client.pipelines.get_update(shop, "none")


def test_events_are_filtered_and_read_in_both_orders(client: WorkspaceClient, url: str, shop: str) -> None:
    """The client's pages together have each event once; the raw answer has `details`, which the client drops."""
    newest = list(client.pipelines.list_pipeline_events(shop, max_results=5))
    oldest = list(client.pipelines.list_pipeline_events(shop, max_results=5, order_by=["timestamp asc"]))
    assert 23 == len({each.id for each in newest})
    assert [each.id for each in newest] == [each.id for each in reversed(oldest)]
    counted = {
        "level='ERROR'": 2,
        "level in ('ERROR', 'WARN')": 4,
        f"update_id = '{FIRST}'": 8,
        "timestamp > '2026-01-01T01:30:00Z' AND level='WARN'": 1,
        "timestamp <= '2026-01-01T00:00:00.000Z'": 1,
        "event_type = 'update_progress'": 9,
        f"id='{newest[0].id}'": 1,
    }
    assert counted == {each: len(list(client.pipelines.list_pipeline_events(shop, filter=each))) for each in counted}
    for wrong in ("level='LOUD'", "message like 'x'", "level='ERROR' OR level='WARN'", "timestamp > 'noon'", "level="):
        with pytest.raises(BadRequest):
            list(client.pipelines.list_pipeline_events(shop, filter=wrong))
    status, answer = raw(url, client, "GET", f"/api/2.0/pipelines/{shop}/events?max_results=1")
    (event,) = answer["events"]
    assert (200, {"update_progress": {"state": "COMPLETED"}}, shop) == (
        status,
        event["details"],
        event["origin"]["pipeline_id"],
    )


def test_an_update_is_started_watched_and_stopped(world: World, url: str, client: WorkspaceClient, shop: str) -> None:
    """A second start is a conflict; `stop_and_wait` ends when the pipeline is IDLE; stop without an update is good."""
    (root_of(world.entry()) / "engine-wait").touch()
    before = len(runs_of(world.entry()))
    started = client.pipelines.start_update(
        shop, refresh_selection=["orders"], cause=StartUpdateCause.JOB_TASK, parameters={"day": "2026-01-01"}
    ).update_id
    assert started is not None
    with pytest.raises(ResourceConflict):
        client.pipelines.start_update(shop)
    eventually(lambda: client.pipelines.get(shop).state is PipelineState.RUNNING)
    assert (409, "RESOURCE_CONFLICT") == (
        (conflict := raw(url, client, "POST", f"/api/2.0/pipelines/{shop}/updates", {}))[0],
        conflict[1]["error_code"],
    )
    client.pipelines.stop_and_wait(shop, timeout=timedelta(seconds=20))
    update = client.pipelines.get_update(shop, started).update
    assert update is not None
    assert (UpdateInfoState.CANCELED, "JOB_TASK") == (update.state, update.cause and update.cause.value)
    assert (200, {}) == raw(url, client, "POST", f"/api/2.0/pipelines/{shop}/stop", {})
    (root_of(world.entry()) / "engine-wait").unlink()
    assert before + 1 == len(runs_of(world.entry()))


def test_what_is_not_honoured_is_refused(world: World, client: WorkspaceClient, url: str, shop: str) -> None:
    """400 or 501 with the reason, and nothing is started; never 200."""
    before = runs_of(world.entry())
    manager = client_of(world, url, Role.MANAGE)
    with pytest.raises(errors.NotImplemented):
        client.pipelines.start_update(
            shop, rewind_spec=RewindSpec(dry_run=True, rewind_timestamp="2026-01-01T00:00:00Z")
        )
    with pytest.raises(BadRequest):
        client.pipelines.start_update(shop, refresh_selection=["a,b"])
    for call in (
        lambda: manager.pipelines.create(name="x"),
        lambda: manager.pipelines.update(shop, name="x"),
        lambda: manager.pipelines.delete(shop),
        lambda: manager.pipelines.clone(shop),
        lambda: manager.permissions.set("pipelines", shop),
    ):
        with pytest.raises(errors.NotImplemented):
            call()
    assert before == runs_of(world.entry())


def test_roles_and_tokens_are_the_clients_errors(world: World, url: str, shop: str) -> None:
    """A reader may not start; a wrong token is nobody."""
    viewer = client_of(world, url, Role.VIEW)
    assert "shop" == viewer.pipelines.get(shop).name
    with pytest.raises(PermissionDenied):
        viewer.pipelines.start_update(shop)
    stranger = WorkspaceClient(config=Config(host=url, token="slk_x", auth_type="pat"))  # noqa: S106 - it is wrong
    with pytest.raises(Unauthenticated):
        stranger.pipelines.get(shop)


def test_permissions_are_those_of_the_tokens(world: World, url: str, shop: str) -> None:
    """The user of the server owns its pipelines; levels are Databricks' words."""
    manager = client_of(world, url, Role.MANAGE)
    found = manager.permissions.get("pipelines", shop).access_control_list or []
    held = {
        each.user_name: level.permission_level.value
        for each in found
        for level in each.all_permissions or []
        if level.permission_level is not None
    }
    assert ("IS_OWNER", "CAN_MANAGE") == (held["ada"], held["ci-manage"])
    levels = manager.permissions.get_permission_levels("pipelines", shop).permission_levels or []
    assert ["CAN_VIEW", "CAN_RUN", "CAN_MANAGE", "IS_OWNER"] == [
        each.permission_level.value for each in levels if each.permission_level is not None
    ]


def test_a_run_is_submitted_polled_and_cancelled(world: World, client: WorkspaceClient, shop: str) -> None:
    """The client waits for its end; the same token is the same run; a stopped one says so."""
    task = jobs.SubmitTask(task_key="pipeline", pipeline_task=jobs.PipelineTask(pipeline_id=shop))
    night = "2026-11-28"
    done = client.jobs.submit(tasks=[task], idempotency_token=night).result(timeout=timedelta(seconds=20))
    assert done.state is not None
    assert ("TERMINATED", "SUCCESS") == (
        done.state.life_cycle_state and done.state.life_cycle_state.value,
        done.state.result_state and done.state.result_state.value,
    )
    assert done.run_id == client.jobs.submit(tasks=[task], idempotency_token=night).run_id
    (root_of(world.entry()) / "engine-wait").touch()
    run_id = client.jobs.submit(tasks=[task]).run_id
    stopped = client.jobs.cancel_run_and_wait(run_id, timeout=timedelta(seconds=20))
    assert stopped.state is not None
    assert ("CANCELED", True) == (
        stopped.state.result_state and stopped.state.result_state.value,
        stopped.state.user_cancelled_or_timedout,
    )
    (root_of(world.entry()) / "engine-wait").unlink()
    with pytest.raises(NotFound):
        client.jobs.get_run(1)


def test_a_failed_run_has_its_error(world: World, client: WorkspaceClient, shop: str) -> None:
    """In its state and in its output."""
    (root_of(world.entry()) / "engine-refuse").touch()
    task = jobs.SubmitTask(task_key="pipeline", pipeline_task=jobs.PipelineTask(pipeline_id=shop))
    run_id = client.jobs.submit(tasks=[task]).run_id

    def ended() -> bool:
        state = client.jobs.get_run(run_id).state
        return state is not None and state.life_cycle_state is jobs.RunLifeCycleState.TERMINATED

    eventually(ended)
    (root_of(world.entry()) / "engine-refuse").unlink()
    state = client.jobs.get_run(run_id).state
    assert state is not None
    assert (jobs.RunResultState.FAILED, True) == (state.result_state, "The spec is gone" in (state.state_message or ""))
    assert "The spec is gone" in (client.jobs.get_run_output(run_id).error or "")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"tasks": [{"task_key": "a", "notebook_task": {"notebook_path": "/x"}}]}, 501),
        (
            {"tasks": [{"task_key": "a", "pipeline_task": {"pipeline_id": "SHOP"}, "depends_on": [{"task_key": "b"}]}]},
            501,
        ),
        ({"tasks": []}, 501),
        ({"pipeline_task": {"pipeline_id": "none"}}, 404),
        ({"pipeline_task": {"pipeline_id": "SHOP", "colour": "red"}}, 400),
        ({"pipeline_task": {"pipeline_id": "SHOP"}, "timeout_seconds": 60}, 501),
        ({"pipeline_task": {"pipeline_id": "SHOP"}, "idempotency_token": 1}, 400),
        ({"existing_cluster_id": "x"}, 501),
        ({}, 400),
    ],
)
def test_a_run_that_is_no_pipeline_is_refused(
    world: World, url: str, client: WorkspaceClient, body: dict[str, Any], status: int
) -> None:
    """Whatever its form; nothing is started."""
    before = runs_of(world.entry())
    sent = json.loads(json.dumps(body).replace("SHOP", world.entry().pipeline_id))
    assert status == raw(url, client, "POST", "/api/2.2/jobs/runs/submit", sent)[0]
    assert before == runs_of(world.entry())


def test_airflows_form_of_a_run(world: World, url: str, client: WorkspaceClient, shop: str) -> None:
    """Its hook sends the task by itself, numbers and booleans as texts, and polls with 2.1 or 2.2."""
    body = {"pipeline_task": {"pipeline_id": shop, "full_refresh": "false"}, "run_name": "x", "timeout_seconds": "0"}
    status, answer = raw(url, client, "POST", "/api/2.2/jobs/runs/submit", body)
    assert 200 == status
    number = str(answer["run_id"])

    def state() -> Any:
        return raw(url, client, "GET", f"/api/2.1/jobs/runs/get?run_id={number}")[1]["state"]

    eventually(lambda: state()["life_cycle_state"] == "TERMINATED")
    assert "SUCCESS" == state()["result_state"]
    assert (200, {}) == raw(url, client, "POST", "/api/2.1/jobs/runs/cancel", {"run_id": number})
    assert 400 == raw(url, client, "GET", "/api/2.1/jobs/runs/get?run_id=x")[0]
    assert "COMPLETED" == world.server.reader(world.entry()).rows[-1].state


def test_the_example_of_the_page_runs(world: World, url: str, client: WorkspaceClient) -> None:
    """The Python block of docs/server.md starts an update and waits for its end."""
    page = (Path(__file__).parents[3] / "docs" / "server.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    found: dict[str, Any] = {"server": url, "token": client.config.token}
    exec(code, found)  # noqa: S102 - the page's own example
    assert "COMPLETED" == world.server.reader(world.entry()).rows[-1].state
    assert found["update"] == world.server.reader(world.entry()).rows[-1].update_id
