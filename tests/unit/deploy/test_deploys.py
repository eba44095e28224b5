"""Deploys to the stand-in: created, unchanged and held resources, and recovery from crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from framework.deploy.api.workspace import Workspace
from framework.deploy.deployer import Deployer
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.deploy.state.state import read_state
from framework.foundation.errors import OperationError
from framework.testing.workspace import Fault, SourceTable, StandInWorkspace, lost_answer, serve_workspace, throttled
from framework.testing.workspace.exchange import Request
from framework.testing.workspace.stand_in import StandIn
from tests.support.direct_workspace import DirectWorkspace
from tests.support.ingestion_bundle import (
    GATEWAY,
    GATEWAY_NAME,
    HOUR,
    TABLE,
    USER,
    bundle_of,
    deployer_of,
    gateway_calls,
    specs,
    with_snapshot,
)


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


@pytest.fixture
def snapshotting(served: StandInWorkspace) -> StandInWorkspace:
    """A workspace whose gateway is half through a snapshot of two days."""
    return with_snapshot(served)


def verdicts(served: StandInWorkspace, wanted: dict[str, dict[str, Any]]) -> dict[str, Verdict]:
    """Return the verdicts of a plan, without resources that need no change."""
    plan = deployer_of(served, wanted).plan()
    return {each.key: each.verdict for each in plan.changes if each.verdict is not Verdict.NOTHING}


def test_a_first_deploy_makes_everything_in_order_with_ids_resolved(served: StandInWorkspace) -> None:
    """Schema before volume and gateway, gateway before ingestion; the job names the pipeline's real id."""
    result = deployer_of(served, specs()).deploy()
    assert result.exit_code is ExitCode.CLEAN
    gateway = served.pipeline(GATEWAY_NAME).pipeline_id
    assert served.pipeline("sqlserver ingestion").spec["ingestion_definition"]["ingestion_gateway_id"] == gateway
    (job,) = served.jobs.by_id.values()
    flights = served.pipeline("flights").pipeline_id
    assert job["settings"]["tasks"][0]["pipeline_task"]["pipeline_id"] == flights
    assert served.catalog.grants[("schema", "main.staging")] == {"r": {"SELECT"}}
    assert set(served.catalog.volumes) == {"main.staging.landing"}


def test_after_a_deploy_the_plan_is_empty_and_a_deploy_reads_each_resource_once(snapshotting: StandInWorkspace) -> None:
    """No write, no event log, one read per resource and one of the state, although case and defaults changed."""
    result = deployer_of(snapshotting, specs()).deploy()
    assert (result.exit_code, result.plan.acts) == (ExitCode.CLEAN, False)
    assert snapshotting.writes() == []
    read = [each for each in snapshotting.requests if not each.path.startswith("/.well-known")]
    assert len(read) == len(specs()) + 1
    assert snapshotting.pipeline(GATEWAY_NAME).puts == 0


def test_a_tag_only_deploy_in_a_snapshot_makes_no_call_to_the_gateway_and_is_on_record(
    snapshotting: StandInWorkspace,
) -> None:
    """The snapshot continues, the table records who changed which tag, and a second deploy has nothing to do."""
    wanted = specs()
    wanted[GATEWAY]["tags"]["commit"] = "f00"
    wanted[GATEWAY]["clusters"][0]["custom_tags"]["cost"] = "2"
    result = deployer_of(snapshotting, wanted).deploy()
    assert (result.exit_code, gateway_calls(snapshotting)) == (ExitCode.CLEAN, [])
    assert snapshotting.pipeline(GATEWAY_NAME).updates[-1].cause == "USER_ACTION"
    row = snapshotting.sql.tables[TABLE][-1]
    told = json.loads(row["resources"])[GATEWAY]
    assert (row["deployed_by"], row["git_commit"], row["change_class"]) == ("ada@example.com", "abc1234", "tag-only")
    assert (told["done"], told["tags"]["tags.commit"]) == ("defer", '"f00"')
    snapshotting.forget_requests()
    deployer_of(snapshotting, wanted).deploy()
    assert snapshotting.writes() == []


def test_deferred_tags_are_written_with_the_next_wanted_change(snapshotting: StandInWorkspace) -> None:
    """After the snapshot, one PUT writes the change and the tag."""
    wanted = specs()
    wanted[GATEWAY]["tags"]["commit"] = "f00"
    deployer_of(snapshotting, wanted).deploy()
    snapshotting.clock.sleep(30 * HOUR)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    assert deployer_of(snapshotting, wanted).deploy().exit_code is ExitCode.CLEAN
    gateway = snapshotting.pipeline(GATEWAY_NAME)
    assert (gateway.puts, gateway.spec["tags"], gateway.spec["clusters"][0]["num_workers"]) == (
        1,
        {"team": "data", "commit": "f00"},
        4,
    )
    assert verdicts(snapshotting, wanted) == {}


def test_a_semantic_change_in_a_snapshot_is_held_and_says_what_it_would_lose(snapshotting: StandInWorkspace) -> None:
    """Exit code 20, no call, and the reason names table, percent and hours."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    result = deployer_of(snapshotting, wanted).deploy()
    (held,) = [each for each in result.done if each.verdict is Verdict.HOLD]
    assert (result.exit_code, gateway_calls(snapshotting)) == (ExitCode.HELD, [])
    assert (
        held.reason == "a restart would lose 24.0 hours of snapshots: main.staging.orders 50% (24.0 h left, in chunks)"
    )


def test_it_says_of_each_table_whether_it_is_read_in_chunks(served: StandInWorkspace) -> None:
    """This follows from a finished chunk or a key in the bundle; otherwise the log leaves it open."""
    tables = (
        SourceTable(name="main.staging.orders", chunks=48),
        SourceTable(name="main.staging.keyed", chunks=1, seconds_per_chunk=48 * HOUR),
        SourceTable(name="main.staging.heap", chunks=1, seconds_per_chunk=48 * HOUR),
        SourceTable(name="main.staging.silent", reports_progress=False),
    )
    served.source_tables(GATEWAY_NAME, *tables)
    wanted = specs()
    wanted["pipelines.ingestion"]["ingestion_definition"]["objects"] += [
        {"table": {"source_schema": "dbo", "source_table": "Keyed", "table_configuration": {"primary_keys": ["id"]}}},
        {"table": {"source_schema": "dbo", "source_table": "heap"}},
    ]
    deployer_of(served, wanted).deploy()
    served.clock.sleep(24 * HOUR)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    change = deployer_of(served, wanted).plan().change(GATEWAY)
    assert change is not None
    assert change.reason == (
        "a restart would lose 24.0 hours of snapshots: "
        "main.staging.heap 0% (24.0 h left, not chunked: no primary key, unique key or index), "
        "main.staging.keyed 0% (24.0 h left, in chunks), main.staging.orders 50% (24.0 h left, in chunks), "
        "main.staging.silent (chunking unknown)"
    )


@pytest.mark.parametrize(
    ("told", "minutes", "verdict"),
    [
        ("3600", 59, Verdict.HOLD),
        ("3600", 61, Verdict.HOLD),
        ("60", 4, Verdict.UNKNOWN),
        ("300", 14, Verdict.HOLD),
        ("300", 16, Verdict.UNKNOWN),
        (None, 14, Verdict.HOLD),
        (None, 16, Verdict.UNKNOWN),
        ("7200", 16, Verdict.UNKNOWN),
        ("often", 16, Verdict.UNKNOWN),
    ],
)
def test_how_long_a_silence_means_nothing_goes_by_the_gateways_own_interval(
    served: StandInWorkspace, told: str | None, minutes: int, verdict: Verdict
) -> None:
    """Three intervals of its settings, if the service accepts them; after a longer silence its state is unknown."""
    wanted = specs()
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders"))
    deployer_of(served, wanted).deploy()
    served.clock.sleep(10 * HOUR)
    gateway = served.pipeline(GATEWAY_NAME)
    # From here on the gateway is silent, with this interval in its settings.
    gateway.updates[-1].published_until = served.now()
    served.source_tables(GATEWAY_NAME)
    if told is not None:
        setting = "pipelines.gateway.progressEventEmitFrequencySeconds"
        gateway.spec["configuration"] = wanted[GATEWAY]["configuration"] = {setting: told}
    served.clock.sleep(minutes * 60)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    assert verdicts(served, wanted)[GATEWAY] is verdict


def test_a_held_change_waits_in_the_queue_and_is_applied_when_the_snapshot_ends(snapshotting: StandInWorkspace) -> None:
    """21 when queued, and during the snapshot; afterwards it is applied once, and the queue is empty."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    queueing = Policy(queue=True)
    assert deployer_of(snapshotting, wanted, policy=queueing).deploy().exit_code is ExitCode.QUEUED
    assert deployer_of(snapshotting, wanted, policy=queueing).deploy_queued().exit_code is ExitCode.QUEUED
    snapshotting.clock.sleep(30 * HOUR)
    assert deployer_of(snapshotting, wanted, policy=queueing).deploy_queued().exit_code is ExitCode.CLEAN
    assert snapshotting.pipeline(GATEWAY_NAME).puts == 1
    with pytest.raises(OperationError, match="DEPLOY_QUEUE_EMPTY"):
        deployer_of(snapshotting, wanted, policy=queueing).deploy_queued()


def test_a_queued_plan_that_is_stale_is_never_applied(snapshotting: StandInWorkspace) -> None:
    """After another deploy in between, the queue is cleared, and no call is made."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    deployer_of(snapshotting, wanted, policy=Policy(queue=True)).deploy()
    snapshotting.clock.sleep(30 * HOUR)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 8
    with pytest.raises(OperationError, match="DEPLOY_QUEUE_STALE"):
        deployer_of(snapshotting, wanted, policy=Policy(queue=True)).deploy_queued()
    assert snapshotting.pipeline(GATEWAY_NAME).puts == 0


def test_waiting_deploys_when_the_snapshot_ends(snapshotting: StandInWorkspace) -> None:
    """The deploy checks again until the gateway accepts changes."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    snapshotting.clock.sleep(23.9 * HOUR)
    assert deployer_of(snapshotting, wanted).wait_and_deploy(HOUR).exit_code is ExitCode.CLEAN
    assert snapshotting.pipeline(GATEWAY_NAME).puts == 1


def test_an_override_names_its_reason_on_record(snapshotting: StandInWorkspace) -> None:
    """The change is applied during a snapshot, and the table has the reason."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    policy = Policy(overrides=((GATEWAY, "the source moved"),))
    assert deployer_of(snapshotting, wanted, policy=policy).deploy().exit_code is ExitCode.CLEAN
    told = json.loads(snapshotting.sql.tables[TABLE][-1]["resources"])[GATEWAY]
    assert (snapshotting.pipeline(GATEWAY_NAME).puts, told["reason"]) == (1, "overridden: the source moved")


def test_a_recreate_is_refused_and_nothing_of_the_deploy_is_done(snapshotting: StandInWorkspace) -> None:
    """Exit code 22; not even the change of another resource is written."""
    wanted = specs()
    wanted[GATEWAY]["gateway_definition"]["connection_name"] = "other"
    wanted["pipelines.flights"]["configuration"]["a"] = "2"
    result = deployer_of(snapshotting, wanted).deploy()
    assert (result.exit_code, snapshotting.writes("pipelines")) == (ExitCode.REFUSED, [])


def test_a_recreate_with_permission_takes_the_ingestion_pipeline_along(snapshotting: StandInWorkspace) -> None:
    """A new gateway has a new id, so the ingestion pipeline needs the permission too; both are new afterwards."""
    wanted = specs()
    wanted[GATEWAY]["gateway_definition"]["connection_name"] = "other"
    snapshotting.clock.sleep(30 * HOUR)
    one = Policy(allow_recreate=frozenset({GATEWAY}))
    assert deployer_of(snapshotting, wanted, policy=one).deploy().exit_code is ExitCode.REFUSED
    both = Policy(allow_recreate=frozenset({GATEWAY, "pipelines.ingestion"}))
    assert deployer_of(snapshotting, wanted, policy=both).deploy().exit_code is ExitCode.CLEAN
    gateway = snapshotting.pipeline(GATEWAY_NAME)
    ingestion = snapshotting.pipeline("sqlserver ingestion").spec["ingestion_definition"]
    assert (gateway.spec["gateway_definition"]["connection_name"], ingestion["ingestion_gateway_id"]) == (
        "other",
        gateway.pipeline_id,
    )


def test_an_event_log_that_cannot_be_read_counts_as_a_snapshot(snapshotting: StandInWorkspace) -> None:
    """Exit code 23, no call."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    snapshotting.clock.sleep(30 * HOUR)
    snapshotting.fail(Fault(path="/sql/statements", times=9, status=403, error_code="PERMISSION_DENIED"))
    result = deployer_of(snapshotting, wanted).deploy()
    assert (result.exit_code, gateway_calls(snapshotting)) == (ExitCode.UNKNOWN, [])


def test_a_snapshot_that_begins_after_the_plan_holds_the_put(snapshotting: StandInWorkspace) -> None:
    """The guard checks again immediately before the PUT, which is then held."""
    wanted = specs()
    wanted["schemas.staging"]["comment"] = "x"
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    snapshotting.clock.sleep(30 * HOUR)
    deployer = deployer_of(snapshotting, wanted)
    assert deployer.plan().exit_code() is ExitCode.CHANGES

    def begin() -> None:
        snapshotting.source_tables(
            GATEWAY_NAME, SourceTable(name="main.staging.orders"), SourceTable(name="main.staging.new", chunks=480)
        )
        snapshotting.clock.sleep(600)

    original = snapshotting.answer

    def answer(request: Request, token: str) -> dict[str, Any]:
        if request.path.lower().endswith("schemas/main.staging") and request.method == "PATCH":
            begin()
        return original(request, token)

    snapshotting.answer = answer  # type: ignore[method-assign]
    result = deployer.deploy()
    assert (result.exit_code, gateway_calls(snapshotting)) == (ExitCode.HELD, [])


def test_what_was_changed_outside_is_held_and_shown(snapshotting: StandInWorkspace) -> None:
    """A user's own setting of the gateway is neither overwritten nor hidden."""
    snapshotting.pipeline(GATEWAY_NAME).spec["clusters"][0]["num_workers"] = 9
    plan = deployer_of(snapshotting, specs()).plan()
    change = plan.change(GATEWAY)
    assert change is not None
    assert (change.change_class, change.verdict, plan.exit_code()) == (ChangeClass.DRIFT, Verdict.HOLD, ExitCode.HELD)


def test_permissions_have_a_call_of_their_own(snapshotting: StandInWorkspace) -> None:
    """The gateway's access changes in a snapshot; its settings are not sent."""
    wanted = specs()
    wanted[GATEWAY]["permissions"] = [{"group_name": "ops", "level": "CAN_VIEW"}]
    assert deployer_of(snapshotting, wanted).deploy().exit_code is ExitCode.CLEAN
    assert gateway_calls(snapshotting) == []
    gateway = snapshotting.pipeline(GATEWAY_NAME).pipeline_id
    assert snapshotting.permissions.lists["pipelines", gateway][0] == {
        "group_name": "ops",
        "permission_level": "CAN_VIEW",
    }
    snapshotting.forget_requests()
    deployer_of(snapshotting, wanted).deploy()
    assert snapshotting.writes() == []


def test_a_second_deployer_is_kept_out_and_a_dead_ones_lock_expires(served: StandInWorkspace) -> None:
    """The lock of Databricks' command line is respected; ours is taken over after it expires."""
    deployer_of(served, {}).deploy()
    served.files.folders |= {"/Workspace/Shared/.bundle/sales/ingestion/state"}
    path = "/Workspace/Shared/.bundle/sales/ingestion/state/deploy.lock"
    theirs = {"ID": "1", "AcquisitionTime": "2026-01-01T00:00:00Z", "IsForced": False, "User": "bob@example.com"}
    served.files.files[path] = json.dumps(theirs).encode()
    served.clock.sleep(1000 * HOUR)
    with pytest.raises(OperationError, match="bob"):
        deployer_of(served, specs()).deploy()
    served.files.files[path] = json.dumps({**theirs, "ExpiresAt": "2026-01-01T01:00:00+00:00"}).encode()
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN


def test_a_lost_lock_stops_the_deploy_before_its_next_write(served: StandInWorkspace) -> None:
    """After another process takes the lock by force, nothing is written."""
    original = served.answer
    path = "/Workspace/Shared/.bundle/sales/ingestion/state/deploy.lock"

    def answer(request: Request, token: str) -> dict[str, Any]:
        found = original(request, token)
        if request.path.endswith("/schemas"):
            served.files.files[path] = json.dumps({"ID": "2", "User": "bob@example.com"}).encode()
        return found

    served.answer = answer  # type: ignore[method-assign]
    with pytest.raises(OperationError, match="DEPLOY_LOCK_LOST"):
        deployer_of(served, specs()).deploy()
    assert served.pipelines.by_id == {}
    assert json.loads(served.files.files[path])["ID"] == "2"


def test_of_two_deployers_at_once_one_is_kept_out(served: StandInWorkspace) -> None:
    """The second starts during the first: its error names the deploying user, and each resource is created once."""
    original = served.answer
    told: list[str] = []

    def answer(request: Request, token: str) -> dict[str, Any]:
        if request.path.endswith("/pipelines") and request.method == "POST" and not told:
            with pytest.raises(OperationError) as error:
                deployer_of(served, specs()).deploy()
            told.append(error.value.condition)
        return original(request, token)

    served.answer = answer  # type: ignore[method-assign]
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert (told, len(served.pipelines.by_id), len(served.jobs.by_id)) == (["DEPLOY_LOCKED"], 3, 1)


@pytest.mark.parametrize("path", ["/pipelines$", "/jobs/create", "/schemas$", "/workspace/import", "/sql/statements"])
@pytest.mark.parametrize("after", [True, False])
def test_a_lost_answer_is_looked_up_and_nothing_is_made_twice(
    served: StandInWorkspace, path: str, *, after: bool
) -> None:
    """A call that may have taken effect is not repeated: each resource exists once, and the next plan is empty."""
    served.fail(Fault(method="POST", path=path, status=0, after_effect=after))
    deployer_of(served, specs()).deploy()
    assert (len(served.pipelines.by_id), len(served.jobs.by_id)) == (3, 1)
    assert len(served.sql.tables[TABLE]) == 1
    assert verdicts(served, specs()) == {}


def test_a_put_whose_answer_was_lost_is_not_made_twice(snapshotting: StandInWorkspace) -> None:
    """The gateway restarts once."""
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    snapshotting.clock.sleep(30 * HOUR)
    snapshotting.fail(lost_answer(method="PUT"))
    assert deployer_of(snapshotting, wanted).deploy().exit_code is ExitCode.CLEAN
    assert snapshotting.pipeline(GATEWAY_NAME).puts == 1


def test_throttling_is_waited_out(served: StandInWorkspace) -> None:
    """429 and 503 with `Retry-After` delay reads and writes by that time, without another effect."""
    served.fail(throttled(path="/pipelines", times=3, retry_after_seconds=20))
    served.fail(Fault(method="GET", path="/unity-catalog", status=503, retry_after_seconds=20))
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert served.clock.elapsed_seconds >= 80


def test_no_permission_and_an_expired_token_say_so(served: StandInWorkspace) -> None:
    """Both are errors with a remedy, and the next deploy continues after the remedy."""
    served.fail(Fault(method="POST", path="/jobs/create", status=403, error_code="PERMISSION_DENIED"))
    with pytest.raises(OperationError, match="WORKSPACE_FORBIDDEN"):
        deployer_of(served, specs()).deploy()
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert len(served.pipelines.by_id) == 3
    served.expire_token()
    with pytest.raises(OperationError, match="WORKSPACE_UNAUTHENTICATED"):
        deployer_of(served, specs()).deploy()


class _Crash(BaseException):
    """The deployer dies."""


class _Dying(DirectWorkspace):
    """A workspace after whose nth call the caller is dead, and makes no call any more."""

    left = 0

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Crash

    def read(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        self._alive()
        found = super().read(path, query)
        self._count()
        return found

    def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self._alive()
        found = super().write(method, path, body)
        self._count()
        return found

    def _alive(self) -> None:
        if self.left < 0:
            raise _Crash


def test_a_crash_after_any_single_call_converges_at_the_next_deploy() -> None:
    """After a crash at any call, the next deploy creates what is missing, nothing twice, and the plan is empty.

    There is a deploy for each call of a deploy, so they go without HTTP.
    """
    finished = False
    for calls in range(200):
        served = StandIn()
        dying = _Dying(served)
        dying.left = calls
        try:
            Deployer(dying, bundle_of(specs()), user=USER, table=TABLE).deploy()
            finished = True
        except _Crash:
            served.clock.sleep(2 * HOUR)
            Deployer(DirectWorkspace(served), bundle_of(specs()), user=USER, table=TABLE).deploy()
        names = sorted(each.name for each in served.pipelines.by_id.values())
        assert names == ["flights", GATEWAY_NAME, "sqlserver ingestion"], calls
        assert (len(served.jobs.by_id), served.pipeline(GATEWAY_NAME).puts) == (1, 0), calls
        assert served.catalog.grants[("schema", "main.staging")] == {"r": {"SELECT"}}, calls
        plan = Deployer(DirectWorkspace(served), bundle_of(specs()), user=USER, table=TABLE).plan()
        assert {each.verdict for each in plan.changes} == {Verdict.NOTHING}, calls
        if finished:
            break
    assert finished
    assert calls > 30


def test_destroy_deletes_all_in_reverse_and_refuses_what_may_not_go(snapshotting: StandInWorkspace) -> None:
    """A gateway in a snapshot stays with all other resources; afterwards, with each permission, all are deleted."""
    pipelines = frozenset({GATEWAY, "pipelines.ingestion", "pipelines.flights"})
    allowed = Policy(allow_recreate=pipelines)
    assert deployer_of(snapshotting, specs()).destroy().exit_code is ExitCode.REFUSED
    assert deployer_of(snapshotting, specs(), policy=allowed).destroy().exit_code is ExitCode.REFUSED
    assert len(snapshotting.pipelines.by_id) == 3
    snapshotting.clock.sleep(30 * HOUR)
    assert deployer_of(snapshotting, specs(), policy=allowed).destroy().exit_code is ExitCode.CLEAN
    assert (snapshotting.pipelines.by_id, snapshotting.jobs.by_id, snapshotting.catalog.schemas) == ({}, {}, {})


def test_what_prevents_its_destruction_is_not_destroyed(served: StandInWorkspace) -> None:
    """`prevent_destroy` overrides every permission, also if the resource was removed from the bundle."""
    wanted = specs()
    wanted["pipelines.flights"]["lifecycle"] = {"prevent_destroy": True}
    deployer_of(served, wanted).deploy()
    del wanted["pipelines.flights"], wanted["jobs.flights"]
    allowed = Policy(allow_recreate=frozenset({"pipelines.flights"}))
    assert deployer_of(served, wanted, policy=allowed).deploy().exit_code is ExitCode.REFUSED


def test_what_exists_is_adopted(served: StandInWorkspace) -> None:
    """An existing pipeline is rejected by name, then bound, and then managed by the bundle."""
    flights = {"pipelines.flights": specs()["pipelines.flights"]}
    made = served.client().pipelines.create(name="flights", catalog="main", schema="flights")
    assert made.pipeline_id is not None
    with pytest.raises(OperationError, match="sluice bundle bind"):
        deployer_of(served, flights).deploy()
    deployer_of(served, flights).bind("pipelines.flights", made.pipeline_id)
    assert deployer_of(served, flights).deploy().exit_code is ExitCode.CLEAN
    assert served.pipeline("flights").spec["configuration"] == {"a": "1"}
    assert verdicts(served, flights) == {}
    state = read_state(Workspace(served.config(), clock=served.clock), bundle_of(flights).state_path)
    assert state is not None
    assert [each.id for each in state.resources] == [made.pipeline_id]
