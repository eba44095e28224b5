"""A job that runs a gateway follows the gateway's rules, because ending its run ends the snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.foundation.errors import UserError
from framework.testing.workspace import Fault, SourceTable, StandInWorkspace, lost_answer, serve_workspace
from framework.testing.workspace.exchange import Request
from tests.support.gateway_jobs import JOB, JOB_NAME, gateway_task, job, specs_with_job
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, deployer_of, specs

Specs = dict[str, dict[str, Any]]


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def snapshotting(served: StandInWorkspace, wanted: Specs, *, hours: float = 24.0) -> StandInWorkspace:
    """Deploy a bundle, and let the snapshot of its gateway run for some hours of 48."""
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=48))
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    served.clock.sleep(hours * HOUR)
    return served


def causes(served: StandInWorkspace) -> list[tuple[str, str]]:
    """The updates of the gateway so far: cause and state."""
    return [(update.cause, update.state) for update in served.pipeline(GATEWAY_NAME).updates]


RUNNING = [("USER_ACTION", "RUNNING")]


def renamed(wanted: Specs) -> None:
    """Rename the job."""
    wanted[JOB]["name"] = "another name"


def paused(wanted: Specs) -> None:
    """Pause the job."""
    wanted[JOB]["continuous"]["pause_status"] = "PAUSED"


def retried(wanted: Specs) -> None:
    """Change any setting of the job."""
    wanted[JOB]["tasks"][0]["max_retries"] = 3


def redirected(wanted: Specs) -> None:
    """Let the job run another pipeline."""
    wanted[JOB]["tasks"] = [gateway_task("${resources.pipelines.flights.id}")]


@pytest.mark.parametrize("edit", [renamed, paused, retried, redirected])
def test_a_change_of_the_gateways_job_in_a_snapshot_is_held(served: StandInWorkspace, edit: Any) -> None:
    """Exit code 20 with the hours that would be lost; the update of the gateway continues."""
    wanted = specs_with_job()
    snapshotting(served, wanted)
    edit(wanted)
    result = deployer_of(served, wanted).deploy()
    (held,) = [each for each in result.done if each.verdict is not Verdict.NOTHING]
    assert (result.exit_code, held.key, held.verdict) == (ExitCode.HELD, JOB, Verdict.HOLD)
    assert held.reason == (
        "a restart would lose 24.0 hours of snapshots: main.staging.orders 50% (24.0 h left, in chunks)"
    )
    assert causes(served) == RUNNING


def test_deleting_the_gateways_job_in_a_snapshot_is_refused(served: StandInWorkspace) -> None:
    """Also with permission; when the snapshot is over it needs the permission."""
    snapshotting(served, specs_with_job())
    allowed = Policy(allow_recreate=frozenset({JOB}))
    assert deployer_of(served, specs(), policy=allowed).deploy().exit_code is ExitCode.REFUSED
    served.clock.sleep(30 * HOUR)
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.REFUSED
    assert (causes(served), len(served.jobs.by_id)) == (RUNNING, 2)
    assert deployer_of(served, specs(), policy=allowed).deploy().exit_code is ExitCode.CLEAN
    assert (causes(served), len(served.jobs.by_id)) == ([("USER_ACTION", "CANCELED")], 1)


def test_tags_and_notifications_of_the_gateways_job_wait(served: StandInWorkspace) -> None:
    """A preset's tag reaches jobs too: there is no call to the job; its next wanted change writes both."""
    wanted = specs_with_job()
    snapshotting(served, wanted, hours=60)
    wanted[JOB]["tags"]["commit"] = "f00"
    wanted[JOB]["email_notifications"] = {"on_failure": ["ops@example.com"]}
    result = deployer_of(served, wanted).deploy()
    (number,) = [each["job_id"] for each in served.jobs.by_id.values() if each["settings"]["name"] == JOB_NAME]
    assert (result.exit_code, served.jobs.resets[number], causes(served)) == (ExitCode.CLEAN, 0, RUNNING)
    wanted[JOB]["tasks"][0]["max_retries"] = 3
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    settings = served.jobs.by_id[number]["settings"]
    assert (served.jobs.resets[number], settings["tags"]["commit"], settings["email_notifications"]) == (
        1,
        "f00",
        {"on_failure": ["ops@example.com"]},
    )


WAYS: dict[str, tuple[dict[str, Any], ...]] = {
    "by reference": (job(continuous=False),),
    "by lookup": (job(gateway_task("pipeline-0001"), continuous=False),),
    "in a for-each task": (
        job({"task_key": "each", "for_each_task": {"inputs": "[1]", "task": gateway_task()}}, continuous=False),
    ),
    "through a job": (
        job({"task_key": "go", "run_job_task": {"job_id": "${resources.jobs.inner.id}"}}, continuous=False),
        job(name="inner"),
    ),
    "by a value of the run": (job(gateway_task("{{input}}"), continuous=False),),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_runs_a_gateway_by_whatever_way_it_names_it(served: StandInWorkspace, way: str) -> None:
    """Directly, by an id, in a for-each task, through another job; a pipeline known only at run time counts as one."""
    made = dict(zip(("jobs.outer", "jobs.inner"), WAYS[way], strict=False))
    wanted = {GATEWAY: specs()[GATEWAY], **dict(reversed(made.items()))}
    snapshotting(served, wanted)
    assert served.pipeline(GATEWAY_NAME).pipeline_id == "pipeline-0001"
    wanted["jobs.outer"]["max_concurrent_runs"] = 2
    result = deployer_of(served, wanted).deploy()
    expected = ExitCode.UNKNOWN if way == "by a value of the run" else ExitCode.HELD
    assert (result.exit_code, causes(served)) == (expected, RUNNING)


def test_a_job_of_another_target_that_runs_the_gateway_is_guarded_there(served: StandInWorkspace) -> None:
    """The target knows the gateway only by its id and can't read its log: unknown is held; other jobs are deployed."""
    snapshotting(served, specs())
    other = {
        "jobs.nightly": job(gateway_task(served.pipeline(GATEWAY_NAME).pipeline_id), continuous=False),
        "jobs.plain": job(gateway_task("pipeline-9999"), name="plain", continuous=False),
    }
    wanted = specs() | other
    deployer_of(served, wanted).deploy()
    served.fail(Fault(path="/sql/statements", times=9, status=403, error_code="PERMISSION_DENIED"))
    for key in other:
        wanted[key]["max_concurrent_runs"] = 2
    done = {each.key: each.verdict for each in deployer_of(served, wanted, table=None).deploy().done}
    assert (done["jobs.nightly"], done["jobs.plain"]) == (Verdict.UNKNOWN, Verdict.APPLY)


def test_a_pipeline_that_may_not_be_read_counts_as_a_gateway(served: StandInWorkspace) -> None:
    """A job that runs it is held with 23, and the reason names the pipeline."""
    wanted = {"jobs.nightly": job(gateway_task("pipeline-0007"), continuous=False)}
    deployer_of(served, wanted).deploy()
    served.fail(Fault(path="/pipelines/pipeline-0007", times=9, status=403, error_code="PERMISSION_DENIED"))
    wanted["jobs.nightly"]["max_concurrent_runs"] = 2
    (change,) = deployer_of(served, wanted).plan().changes
    assert change.verdict is Verdict.UNKNOWN
    assert "pipeline pipeline-0007 cannot be read (WORKSPACE_FORBIDDEN)" in change.reason


def test_a_snapshot_that_begins_after_the_plan_holds_the_reset(served: StandInWorkspace) -> None:
    """The guard checks again immediately before a job of a gateway is reset."""
    wanted = specs_with_job()
    snapshotting(served, wanted, hours=60)
    wanted["schemas.staging"]["comment"] = "x"
    wanted[JOB]["tasks"][0]["max_retries"] = 3
    original = served.answer

    def answer(request: Request, token: str) -> dict[str, Any]:
        if request.path.lower().endswith("schemas/main.staging") and request.method == "PATCH":
            served.source_tables(
                GATEWAY_NAME, SourceTable(name="main.staging.orders"), SourceTable(name="main.staging.new", chunks=480)
            )
            served.clock.sleep(600)
        return original(request, token)

    served.answer = answer  # type: ignore[method-assign]
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.HELD
    assert causes(served) == RUNNING


def test_a_gateway_and_its_job_change_in_one_deploy(served: StandInWorkspace) -> None:
    """The restart of the gateway is wanted, so its job can lose nothing more: both are applied in one deploy."""
    wanted = specs_with_job()
    snapshotting(served, wanted, hours=60)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    wanted[JOB]["tasks"][0]["max_retries"] = 3
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert deployer_of(served, wanted).plan().acts is False


def test_a_recreated_gateway_takes_its_job_along(served: StandInWorkspace) -> None:
    """The job names the new gateway afterwards."""
    wanted = specs_with_job()
    snapshotting(served, wanted, hours=60)
    wanted[GATEWAY]["gateway_definition"]["connection_name"] = "other"
    allowed = Policy(allow_recreate=frozenset({GATEWAY, "pipelines.ingestion"}))
    assert deployer_of(served, wanted, policy=allowed).deploy().exit_code is ExitCode.CLEAN
    (made,) = [each for each in served.jobs.by_id.values() if each["settings"]["name"] == JOB_NAME]
    gateway = served.pipeline(GATEWAY_NAME)
    assert made["settings"]["tasks"][0]["pipeline_task"]["pipeline_id"] == gateway.pipeline_id
    assert gateway.spec["gateway_definition"]["connection_name"] == "other"


@pytest.mark.parametrize(
    "fault",
    [
        lost_answer(path="/jobs/reset"),
        Fault(path="/jobs/reset", after_effect=True, status=500),
        Fault(path="/jobs/reset", status=0),
    ],
)
def test_a_reset_whose_answer_was_lost_is_not_made_twice(served: StandInWorkspace, fault: Fault) -> None:
    """Each reset of a continuous job restarts the gateway: one that took effect is found by a look at the job."""
    wanted = specs_with_job()
    snapshotting(served, wanted, hours=60)
    wanted[JOB]["tasks"][0]["max_retries"] = 3
    served.fail(fault)
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert causes(served) == [("USER_ACTION", "CANCELED"), ("JOB_TASK", "RUNNING")]


def test_what_a_gateway_stands_on_is_not_deleted_when_the_gateway_stays(served: StandInWorkspace) -> None:
    """A snapshot starts during a destroy: the gateway is refused, so its schema stays too."""
    wanted = {key: spec for key, spec in specs().items() if key in (GATEWAY, "schemas.staging", "pipelines.ingestion")}
    snapshotting(served, wanted, hours=60)
    original = served.answer

    def answer(request: Request, token: str) -> dict[str, Any]:
        found = original(request, token)
        if request.method == "DELETE" and "pipelines" in request.path:
            served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.new", chunks=480))
            served.clock.sleep(600)
        return found

    served.answer = answer  # type: ignore[method-assign]
    allowed = Policy(allow_recreate=frozenset({GATEWAY, "pipelines.ingestion"}))
    result = deployer_of(served, wanted, policy=allowed).destroy()
    done = {each.key: (each.verdict, each.reason) for each in result.done}
    assert result.exit_code is ExitCode.REFUSED
    assert done["schemas.staging"] == (Verdict.REFUSE, "a dependent resource is kept")
    assert (causes(served), set(served.catalog.schemas)) == (RUNNING, {"main.staging"})


REASONED = {
    "--override": lambda key: Policy(overrides=((key, "moved"),)),
    "--write-tags": lambda key: Policy(tag_writes=((key, "moved"),)),
}


@pytest.mark.parametrize(("option", "policy"), REASONED.items(), ids=REASONED)
def test_a_gateways_job_takes_a_reason_and_another_job_that_changes_takes_none(
    served: StandInWorkspace, option: str, policy: Any
) -> None:
    """The same command line works after the job's change is applied; a key without an effect is an error."""
    wanted = specs_with_job()
    snapshotting(served, wanted)
    assert deployer_of(served, wanted, policy=policy(JOB)).deploy().exit_code is ExitCode.CLEAN
    wanted[JOB]["tags"]["team"] = "sales"
    wanted["jobs.flights"]["tags"]["team"] = "sales"
    assert deployer_of(served, wanted, policy=policy(JOB)).plan().change(JOB) is not None
    for key, condition in (("jobs.flights", "DEPLOY_OVERRIDE_NO_GATEWAY"), ("jobs.fligts", "DEPLOY_KEY_UNKNOWN")):
        with pytest.raises(UserError) as caught:
            deployer_of(served, wanted, policy=policy(key)).plan()
        assert (caught.value.condition, f"`{option}` names {key}" in caught.value.what) == (condition, True)
