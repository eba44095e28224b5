"""A workspace that rejects calls, is busy, or does not answer: the deploy's errors, waits and effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk.core import Config

from framework.deploy.api.workspace import Workspace
from framework.deploy.deployer import Deployer
from framework.deploy.plan.policy import ExitCode
from framework.deploy.state.state import Deployed, new_state, read_state, write_state
from framework.foundation.errors import OperationError, UserError
from framework.testing.workspace import Fault, StandInWorkspace, serve_workspace, throttled
from framework.testing.workspace.stand_in import TOKEN
from tests.support.ingestion_bundle import GATEWAY, USER, bundle_of, deployer_of, specs, with_snapshot

STATE = "/Workspace/Shared/.bundle/sales/ingestion/state"
EVER = 1000


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def failed(served: StandInWorkspace, *, wanted: dict[str, dict[str, Any]] | None = None) -> OperationError:
    """Return the error of a deploy of the example."""
    with pytest.raises(OperationError) as caught:
        deployer_of(served, specs() if wanted is None else wanted).deploy()
    assert caught.value.remedy
    return caught.value


FORBIDDEN = {
    "the state": ("GET", "/workspace/export", "GET /api/2.0/workspace/export"),
    "the state's folder": ("POST", "/workspace/mkdirs", "POST /api/2.0/workspace/mkdirs"),
    "the lock": ("POST", "/workspace/import", "POST /api/2.0/workspace/import"),
    "a schema": ("POST", "/unity-catalog/schemas", "POST /api/2.1/unity-catalog/schemas"),
}


@pytest.mark.parametrize(("method", "path", "call"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_no_permission_names_the_call_and_nothing_is_made(
    served: StandInWorkspace, method: str, path: str, call: str
) -> None:
    """403 at any call: after the permission is granted, the deploy continues."""
    fault = Fault(method=method, path=path, status=403, error_code="PERMISSION_DENIED", times=EVER)
    served.fail(fault)
    error = failed(served)
    assert (error.condition, error.fields) == ("WORKSPACE_FORBIDDEN", {"call": call})
    assert "Request the permission" in error.render()
    assert (served.catalog.schemas, served.pipelines.by_id, served.jobs.by_id) == ({}, {}, {})
    served.faults.clear()
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN


def test_an_expired_token_is_told_at_the_first_call_and_nothing_is_made(served: StandInWorkspace) -> None:
    """401: one call, no write, and a hint to sign in again."""
    served.expire_token()
    error = failed(served)
    assert (error.condition, error.fields) == ("WORKSPACE_UNAUTHENTICATED", {"call": "GET /api/2.0/workspace/export"})
    assert "Sign in again" in error.render()
    assert (len([each for each in served.requests if "/api/" in each.path]), served.files.files) == (1, {})


def test_a_token_that_expires_on_the_way_leaves_what_the_next_deploy_finds(served: StandInWorkspace) -> None:
    """401 in the middle: the lock of the dead deploy expires, and then each resource exists once."""
    served.fail(Fault(method="POST", path="/pipelines$", status=401, error_code="UNAUTHENTICATED", times=EVER))
    assert failed(served).condition == "WORKSPACE_UNAUTHENTICATED"
    served.faults.clear()
    served.clock.sleep(7200)
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert (len(served.catalog.schemas), len(served.pipelines.by_id), len(served.jobs.by_id)) == (1, 3, 1)


@pytest.mark.parametrize(("method", "path"), [("GET", "/workspace/export"), ("POST", "/workspace/mkdirs")])
@pytest.mark.parametrize("status", [429, 503])
def test_a_time_to_wait_is_kept_to(served: StandInWorkspace, method: str, path: str, status: int) -> None:
    """Reads and writes wait exactly that time, even if the SDK's own timeout is shorter."""
    served.fail(Fault(method=method, path=path, status=status, retry_after_seconds=75, times=3))
    config = served.config()
    config.retry_timeout_seconds = 30
    workspace = Workspace(config, clock=served.clock)
    assert Deployer(workspace, bundle_of({}), user=USER).plan().changes == ()
    workspace.make_folder("/Workspace/x")
    assert 225 <= served.clock.elapsed_seconds < 226


@pytest.mark.parametrize(("method", "path"), [("GET", "/workspace/export"), ("POST", "/workspace/mkdirs")])
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("seconds", [60, 3600])
def test_waiting_has_an_end(served: StandInWorkspace, method: str, path: str, status: int, seconds: int) -> None:
    """After a quarter of an hour for one call the deploy fails, and the error has the requested waiting time."""
    served.fail(Fault(method=method, path=path, status=status, retry_after_seconds=seconds, times=EVER))
    error = failed(served)
    assert error.condition in ("WORKSPACE_CALL_FAILED", "WORKSPACE_ANSWER_LOST")
    assert error.condition == "WORKSPACE_ANSWER_LOST" or f"a wait of {seconds} more seconds" in error.render()
    assert served.clock.elapsed_seconds <= 900
    assert len(served.requests) < 40


@pytest.mark.parametrize("status", [500, 502, 504, 0])
def test_a_read_that_fails_is_tried_again_and_not_for_ever(served: StandInWorkspace, status: int) -> None:
    """Reads are retried with increasing delays; a service that stays down is reported as unavailable."""
    served.fail(Fault(method="GET", path="/workspace/export", status=status, times=3))
    assert deployer_of(served, {}).plan().changes == ()
    served.fail(Fault(method="GET", path="/workspace/export", status=status, times=EVER))
    error = failed(served)
    assert (error.condition, error.fields["call"]) == ("WORKSPACE_CALL_FAILED", "GET /api/2.0/workspace/export")
    assert served.clock.elapsed_seconds < 360
    assert served.writes() == []


def test_a_short_patience_still_sends_each_write(served: StandInWorkspace) -> None:
    """The command line gives up reads sooner than the SDK; that must not swallow a write."""
    config = Config(host=served.host, token=TOKEN, auth_type="pat", retry_timeout_seconds=30)
    workspace = Workspace(config, clock=served.clock)
    workspace.make_folder("/Workspace/Shared/x")
    assert [each.path for each in served.writes()] == ["/api/2.0/workspace/mkdirs"]


def test_throttling_without_a_time_is_waited_out_too(served: StandInWorkspace) -> None:
    """429 alone: a short pause, the SDK's own."""
    served.fail(throttled(path="/workspace/mkdirs", times=2, retry_after_seconds=0))
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN


@pytest.mark.parametrize("name", ["../../../Users/bob/x.py", "/Workspace/Users/bob/x.py"])
def test_a_state_that_names_files_elsewhere_deletes_none_of_them(served: StandInWorkspace, name: str) -> None:
    """A user who may write the state must not be able to delete files outside of the bundle."""
    workspace = Workspace(served.config(), clock=served.clock)
    deployer_of(served, specs()).deploy()
    state = read_state(workspace, STATE)
    assert state is not None
    write_state(workspace, STATE, state.with_files((("gone.py", "0"), (name, "0"))))
    served.forget_requests()
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    deleted = [each.body["path"] for each in served.writes("/workspace/delete")]
    assert deleted == ["/Workspace/Shared/.bundle/sales/ingestion/files/gone.py", f"{STATE}/deploy.lock"]


def test_a_state_that_nobody_can_read_stops_the_deploy(served: StandInWorkspace) -> None:
    """Nothing is derived from it, and nothing is written over it."""
    workspace = Workspace(served.config(), clock=served.clock)
    workspace.make_folder(STATE)
    unknown = Deployed(key="pipelines.p", kind="pipelines", id="1", spec=bundle_of(specs()).resources[0].spec)
    write_state(workspace, STATE, new_state().with_resource(unknown))
    path = f"{STATE}/sluice-state.json"
    for text in (b"{", b"[]", b'{"version": 99}', served.files.files[path].replace(b'"id"', b'"di"')):
        served.files.files[path] = text
        served.forget_requests()
        assert failed(served).condition == "DEPLOY_STATE_INVALID"
        assert (served.writes(), served.files.files[path]) == ([], text)


def without_warehouse(served: StandInWorkspace, wanted: dict[str, dict[str, Any]], *, table: str | None) -> Deployer:
    """A deployer whose configuration names no SQL warehouse."""
    workspace = Workspace(served.config(), clock=served.clock)
    workspace.warehouse_id = None
    return Deployer(workspace, bundle_of(wanted), user=USER, table=table)


def test_without_a_warehouse_the_plan_says_that_it_is_missing(served: StandInWorkspace) -> None:
    """The state of the gateway is unknown, and the reason names the cause and the setting."""
    with_snapshot(served)
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    plan = without_warehouse(served, wanted, table=None).plan()
    change = plan.change(GATEWAY)
    assert change is not None
    assert plan.exit_code() is ExitCode.UNKNOWN
    assert change.reason == (
        "the state of the gateway is unknown (its event log cannot be read: No SQL warehouse is configured, but "
        "the event log of the gateway can only be read with a warehouse. Set DATABRICKS_WAREHOUSE_ID, "
        "or `warehouse_id` in the profile, to the id of a SQL warehouse) and treated as a running snapshot"
    )


def test_a_wrong_warehouse_is_named_as_the_cause(served: StandInWorkspace) -> None:
    """The service's own words, in the plan and after a deploy whose table could not be written."""
    with_snapshot(served)
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    config = served.config()
    config.warehouse_id = "gone"
    workspace = Workspace(config, clock=served.clock)
    result = Deployer(workspace, bundle_of(wanted), user=USER, table="main.ops.deployments").deploy()
    change = result.plan.change(GATEWAY)
    assert change is not None
    assert "Warehouse gone does not exist" in change.reason
    wanted["pipelines.flights"]["configuration"]["a"] = "2"
    result = Deployer(workspace, bundle_of(wanted), user=USER, table="main.ops.deployments").deploy()
    (warning,) = result.warnings
    assert "[DEPLOY_STATEMENT_FAILED]" in warning
    assert "Warehouse gone does not exist" in warning


TABLES = {
    "two parts": ("ops.deployments", "DEPLOY_OPTION_INVALID"),
    "an empty part": ("main..deployments", "DEPLOY_OPTION_INVALID"),
    "a quote": ("main.ops.x` (a INT); --", "DEPLOY_OPTION_INVALID"),
    "no warehouse": ("main.ops.deployments", "DEPLOY_WAREHOUSE_MISSING"),
}


@pytest.mark.parametrize(("table", "condition"), TABLES.values(), ids=TABLES)
def test_a_deployments_table_that_cant_be_written_is_refused_before_the_deploy(
    served: StandInWorkspace, table: str, condition: str
) -> None:
    """The error comes before the deploy, because a deploy that can't be recorded must not happen."""
    with pytest.raises(UserError) as caught:
        without_warehouse(served, specs(), table=table).deploy()
    assert (caught.value.condition, served.writes()) == (condition, [])


@pytest.mark.parametrize(("table", "condition"), TABLES.values(), ids=TABLES)
def test_a_deployments_table_that_cant_be_written_is_refused_before_anything_is_accepted(
    served: StandInWorkspace, table: str, condition: str
) -> None:
    """As for a deploy: the baseline stays."""
    deployer_of(served, specs()).deploy()
    served.forget_requests()
    with pytest.raises(UserError) as caught:
        without_warehouse(served, specs(), table=table).accept(GATEWAY)
    assert (caught.value.condition, served.writes()) == (condition, [])
