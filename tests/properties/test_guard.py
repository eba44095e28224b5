"""Guarantees of the guard for generated edits of a bundle, at generated times of a snapshot, with generated faults.

`SLUICE_EXAMPLES` sets the number of examples of a test; `make soak` draws more of them.
"""

from __future__ import annotations

import copy
import os
import threading
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.deploy.deployer import Deployer, DeployResult
from framework.deploy.plan.diff import ChangeClass, compare
from framework.deploy.plan.gateway_state import PROGRESS_SETTING
from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.deploy.state.normalize import flatten, normalise
from framework.deploy.state.state import new_state
from framework.foundation.errors import OperationError
from framework.testing.workspace.faults import Fault
from framework.testing.workspace.gateway import SourceTable
from framework.testing.workspace.stand_in import StandIn
from tests.support import ingestion_bundle
from tests.support.direct_workspace import DirectWorkspace
from tests.support.foreign_cli import DIRECT, write_state
from tests.support.gateway_jobs import JOB, gateway_task, job
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, USER, bundle_of

Specs = dict[str, dict[str, Any]]
Edit = tuple[str, tuple[str | int, ...], Any]

EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "40"))
MANY = settings(max_examples=EXAMPLES, deadline=None)
SOME = settings(max_examples=EXAMPLES // 3, deadline=None)
WORDS = st.text("abcXYZ019_-", min_size=1, max_size=6)
HOURS = st.floats(0, 80)

TAGS: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(st.just(GATEWAY), st.tuples(st.just("tags"), WORDS), WORDS),
    st.tuples(st.just(GATEWAY), st.tuples(st.just("clusters"), st.just(0), st.just("custom_tags"), WORDS), WORDS),
)
OTHERS: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(st.just("pipelines.flights"), st.tuples(st.just("configuration"), WORDS), WORDS),
    st.tuples(st.just("pipelines.flights"), st.just(("development",)), st.booleans()),
    st.tuples(st.just("jobs.flights"), st.tuples(st.just("tags"), WORDS), WORDS),
    st.tuples(st.just("jobs.flights"), st.just(("max_concurrent_runs",)), st.integers(1, 3)),
    st.tuples(st.just("schemas.staging"), st.just(("comment",)), WORDS),
)
SEMANTIC: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(st.just(GATEWAY), st.just(("clusters", 0, "num_workers")), st.integers(3, 9)),
    st.tuples(st.just(GATEWAY), st.tuples(st.just("configuration"), WORDS), WORDS),
    st.tuples(st.just(GATEWAY), st.tuples(st.just("unheard_of"), WORDS), WORDS),
)
RECREATES: st.SearchStrategy[Edit] = st.tuples(
    st.just(GATEWAY),
    st.sampled_from(
        [("gateway_definition", name) for name in ("connection_name", "connection_id", "gateway_storage_catalog")]
        + [("storage",)]
    ),
    st.just("another"),
)
NOTES: st.SearchStrategy[Edit] = st.tuples(
    st.just(GATEWAY), st.just(("notifications", 0, "email_recipients")), st.lists(WORDS, min_size=1, max_size=2)
)


def specs() -> Specs:
    """The resources' settings; the gateway reports each hour, as fewer events make more examples in the same time."""
    wanted = ingestion_bundle.specs()
    wanted[GATEWAY]["configuration"] = {PROGRESS_SETTING: "3600"}
    return wanted


def edited(base: Specs, edits: list[Edit]) -> Specs:
    """A bundle after some edits."""
    wanted = copy.deepcopy(base)
    for key, path, value in edits:
        place: Any = wanted[key]
        for step in path[:-1]:
            place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
        place[path[-1]] = value
    return wanted


def deployer(served: StandIn, wanted: Specs, policy: Policy | None = None) -> Deployer:
    """A deployer without HTTP."""
    return Deployer(DirectWorkspace(served), bundle_of(wanted), user=USER, policy=policy, table="main.ops.deployments")


@cache
def deployed(*, tells: bool) -> StandIn:
    """A workspace right after the first deploy, with a snapshot that takes 48 hours."""
    served = StandIn()
    table = SourceTable(name="main.staging.orders", chunks=48, reports_progress=tells)
    served.source_tables(GATEWAY_NAME, table)
    deployer(served, specs()).deploy()
    return served


def running(hours: float, *, tells: bool = True) -> StandIn:
    """A copy of the deployed workspace some hours later: a copy costs less than a deploy."""
    first = deployed(tells=tells)
    served = copy.deepcopy(first, {id(first._lock): threading.RLock()})
    served.clock.sleep(hours * HOUR)
    return served


def restarts(served: StandIn) -> tuple[int, int]:
    """How often the gateway was sent settings, and how many updates it had."""
    gateway = served.pipeline(GATEWAY_NAME)
    return gateway.puts, len(gateway.updates)


@MANY
@given(edits=st.lists(st.one_of(TAGS, OTHERS), min_size=1, max_size=5), hours=HOURS)
def test_any_tag_only_edit_makes_no_put_to_a_gateway(edits: list[Edit], hours: float) -> None:
    """This holds for any other change at the same time and any state of the gateway."""
    served = running(hours)
    assert deployer(served, edited(specs(), edits)).deploy().exit_code is ExitCode.CLEAN
    assert restarts(served) == (0, 1)


@MANY
@given(edits=st.lists(st.one_of(SEMANTIC, OTHERS, NOTES), max_size=5), tags=st.lists(TAGS, max_size=2))
def test_after_a_deploy_the_plan_is_empty(edits: list[Edit], tags: list[Edit]) -> None:
    """The plan has only deferrals: after the snapshot, a wanted change writes the deferred tags too."""
    served = running(60)
    wanted = edited(specs(), [*edits, *tags])
    deployer(served, wanted).deploy()
    plan = deployer(served, wanted).plan()
    assert plan.acts is False
    assert {each.verdict for each in plan.changes} <= {Verdict.NOTHING, Verdict.DEFER}
    served.forget_requests()
    deployer(served, wanted).deploy()
    assert served.writes() == []


@MANY
@given(
    groups=st.tuples(*(st.lists(each, max_size=2) for each in (TAGS, NOTES, SEMANTIC, RECREATES))),
    hours=HOURS,
)
def test_a_mixed_change_takes_its_highest_class(groups: tuple[list[Edit], ...], hours: float) -> None:
    """However edits are mixed, the worst of them decides."""
    served = running(hours)
    classes = (ChangeClass.TAG_ONLY, ChangeClass.METADATA, ChangeClass.SEMANTIC, ChangeClass.RECREATE)
    change = deployer(served, edited(specs(), [edit for group in groups for edit in group])).plan().change(GATEWAY)
    there = [each for group, each in zip(groups, classes, strict=True) if group]
    assert change is not None
    assert change.change_class is (there[-1] if there else ChangeClass.PHANTOM)


@MANY
@given(edits=st.lists(SEMANTIC, min_size=1, max_size=3), hours=st.floats(0, 47.5), tells=st.booleans())
def test_no_put_while_a_snapshot_runs(edits: list[Edit], hours: float, *, tells: bool) -> None:
    """The change is held at any time of the snapshot, whether the gateway reports a percentage or only that it runs."""
    served = running(hours, tells=tells)
    result = deployer(served, edited(specs(), edits)).deploy()
    assert (result.exit_code, restarts(served)) == (ExitCode.HELD, (0, 1))


@MANY
@given(
    edits=st.lists(SEMANTIC, min_size=1, max_size=3),
    hours=HOURS,
    blindness=st.sampled_from(["no permission", "silent", "stale"]),
)
def test_unknown_means_no_put(edits: list[Edit], hours: float, blindness: str) -> None:
    """A log that can't be read, is empty or has no recent event counts as a snapshot."""
    served = running(hours)
    if blindness == "no permission":
        served.fail(Fault(path="/sql/statements", times=9, status=403, error_code="PERMISSION_DENIED"))
    gateway = served.pipeline(GATEWAY_NAME)
    if blindness == "silent":
        gateway.events.clear()
    if blindness == "stale":
        gateway.events[:] = [
            each
            for each in gateway.events
            if "COMPLETED" not in each["message"] and "_cdc" not in each["origin"]["flow_name"]
        ]
        gateway.updates[-1].published_until = served.now()
        served.source_tables(GATEWAY_NAME)
        served.clock.sleep(4 * HOUR)
    result = deployer(served, edited(specs(), edits)).deploy()
    assert (result.exit_code, restarts(served)) == (ExitCode.UNKNOWN, (0, 1))


@MANY
@given(
    edits=st.lists(st.one_of(SEMANTIC, OTHERS, TAGS, NOTES), max_size=4),
    skip=st.integers(0, 40),
    after=st.booleans(),
    cut=st.booleans(),
)
def test_a_fault_at_any_call_converges(edits: list[Edit], skip: int, *, after: bool, cut: bool) -> None:
    """Deploy again after any failure: nothing is created twice, no restart is unneeded, and the plan is empty."""
    served = running(60)
    wanted = edited(specs(), edits)
    served.fail(Fault(skip=skip, times=2, after_effect=after, status=0 if cut else 500))
    attempt(served, wanted)
    served.faults.clear()
    served.clock.sleep(2 * HOUR)
    assert deployer(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert (len(served.pipelines.by_id), len(served.jobs.by_id)) == (3, 1)
    assert restarts(served)[0] <= 1
    assert deployer(served, wanted).plan().acts is False


def attempt(served: StandIn, wanted: Specs) -> DeployResult | None:
    """A deploy that may fail."""
    try:
        return deployer(served, wanted).deploy()
    except OperationError:
        return None


@MANY
@given(edits=st.lists(OTHERS, max_size=5), hours=HOURS)
def test_a_bundle_without_ingestion_never_touches_a_gateway(edits: list[Edit], hours: float) -> None:
    """There is not even a read, because the pipelines' target does not know the gateway."""
    served = running(hours)
    plain = {key: {**spec, "name": f"other {spec['name']}"} for key, spec in edited(specs(), edits).items()}
    plain = {key: plain[key] for key in ("pipelines.flights", "jobs.flights")}
    served.forget_requests()
    other = bundle_of(plain)
    other = type(other)(
        name="flights",
        target="prod",
        mode="production",
        root_path="/Workspace/Shared/flights",
        state_path="/Workspace/Shared/flights/state",
        file_path="/Workspace/Shared/flights/files",
        root=other.root,
        resources=other.resources,
    )
    result = Deployer(DirectWorkspace(served), other, user=USER).deploy()
    gateway = served.pipeline(GATEWAY_NAME).pipeline_id
    assert (result.exit_code, served.calls(gateway), restarts(served)) == (ExitCode.CLEAN, [], (0, 1))


@MANY
@given(
    first=st.lists(SEMANTIC, min_size=1, max_size=2),
    then=st.lists(st.one_of(SEMANTIC, TAGS, OTHERS), max_size=2),
    deployed=st.booleans(),
)
def test_a_stale_queued_plan_is_never_applied(first: list[Edit], then: list[Edit], *, deployed: bool) -> None:
    """The gateway gets exactly the settings that were queued, or none."""
    served = running(10)
    queueing = Policy(queue=True)
    queued = edited(specs(), first)
    assert deployer(served, queued, queueing).deploy().exit_code is ExitCode.QUEUED
    later = edited(queued, then)
    if deployed:
        deployer(served, edited(specs(), then)).deploy()
    planned = deployer(served, queued, queueing).plan().fingerprint()
    same = deployer(served, later, queueing).plan().fingerprint() == planned and not (deployed and served_moved(served))
    served.clock.sleep(60 * HOUR)
    result, condition = attempt_queued(served, later, queueing)
    if result is None:
        assert (condition, restarts(served)[0]) == ("DEPLOY_QUEUE_STALE", 0)
    else:
        assert same
        assert (result.exit_code, restarts(served)[0]) == (ExitCode.CLEAN, 1)


def attempt_queued(served: StandIn, wanted: Specs, policy: Policy) -> tuple[DeployResult | None, str]:
    """A queued deploy, or the condition that it failed with."""
    try:
        return deployer(served, wanted, policy).deploy_queued(), ""
    except OperationError as error:
        return None, error.condition


def served_moved(served: StandIn) -> bool:
    """Return whether another deploy happened between the first deploy and the queueing one."""
    rows = served.sql.tables["main.ops.deployments"]
    return len(rows) > 2


JOB_TASKS = st.sampled_from(
    [
        gateway_task(),
        {"task_key": "each", "for_each_task": {"inputs": "[1]", "task": gateway_task()}},
        {"task_key": "go", "run_job_task": {"job_id": "${resources.jobs.inner.id}"}},
    ]
)
JOB_TAGS: st.SearchStrategy[Edit] = st.tuples(st.just(JOB), st.tuples(st.just("tags"), WORDS), WORDS)
JOB_CHANGES: st.SearchStrategy[Edit] = st.one_of(
    st.tuples(st.just(JOB), st.just(("name",)), WORDS),
    st.tuples(st.just(JOB), st.just(("continuous", "pause_status")), st.just("PAUSED")),
    st.tuples(st.just(JOB), st.just(("max_concurrent_runs",)), st.integers(2, 3)),
    st.tuples(st.just(JOB), st.just(("tasks", 0, "max_retries")), st.integers(1, 3)),
    st.tuples(st.just(JOB), st.just(("tasks", 0, "pipeline_task")), st.just({"pipeline_id": "pipeline-9999"})),
    st.tuples(st.just(JOB), st.tuples(st.just("unheard_of"), WORDS), WORDS),
)


def running_with_job(task: dict[str, Any], hours: float, *, chunks: int = 48) -> tuple[StandIn, Specs]:
    """A workspace some hours after the first deploy, whose gateway a continuous job runs in some way; its bundle."""
    served = StandIn()
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=chunks))
    wanted = specs() | {"jobs.inner": job(name="inner", continuous=False), JOB: job(task)}
    # In the service's spelling, so that the guard finds nothing that only seems to differ.
    wanted[GATEWAY] |= {"channel": "PREVIEW", "edition": "ADVANCED", "catalog": "main"}
    deployer(served, wanted).deploy()
    served.clock.sleep(hours * HOUR)
    return served, wanted


@SOME
@given(
    task=JOB_TASKS,
    edits=st.lists(JOB_CHANGES, max_size=3),
    tags=st.lists(st.one_of(TAGS, JOB_TAGS), max_size=2),
    deleted=st.booleans(),
    foreign=st.booleans(),
    hours=st.floats(0, 47.5),
)
def test_no_edit_of_a_gateways_job_ends_a_snapshot(
    task: dict[str, Any], edits: list[Edit], tags: list[Edit], *, deleted: bool, foreign: bool, hours: float
) -> None:
    """This holds for any way to run the gateway and any other change; the guard holds other tools too."""
    served, base = running_with_job(task, hours)
    if foreign:
        state = {each.key: str(each.id) for each in (deployer(served, base).status() or new_state()).resources}
        served.files.files.clear()
        write_state(served, bundle_of(base), state, engine=DIRECT)
    wanted = edited(base, [*edits, *tags])
    if deleted:
        del wanted[JOB]
    _, _, code = deployer(served, wanted).guard()
    assert (code is ExitCode.CLEAN) is (wanted == base)
    if not foreign:
        result = deployer(served, wanted).deploy()
        expected = ExitCode.REFUSED if deleted else ExitCode.HELD if is_changed(base, wanted) else ExitCode.CLEAN
        assert result.exit_code is expected
    assert [update.state for update in served.pipeline(GATEWAY_NAME).updates] == ["RUNNING"]


def is_changed(base: Specs, wanted: Specs) -> bool:
    """Whether the gateway's job differs by more than its tags."""
    return {**base[JOB], "tags": {}} != {**wanted[JOB], "tags": {}}


@SOME
@given(
    task=JOB_TASKS,
    edits=st.lists(st.one_of(JOB_CHANGES, SEMANTIC), max_size=3),
    skip=st.integers(0, 40),
    after=st.booleans(),
    cut=st.booleans(),
)
def test_a_fault_beside_a_gateways_job_converges(
    task: dict[str, Any], edits: list[Edit], skip: int, *, after: bool, cut: bool
) -> None:
    """Deploy again after any failure: the job is reset at most once, and the plan is empty."""
    served, base = running_with_job(task, 2, chunks=1)
    wanted = edited(base, edits)
    served.fail(Fault(skip=skip, times=2, after_effect=after, status=0 if cut else 500))
    attempt(served, wanted)
    served.faults.clear()
    served.clock.sleep(2 * HOUR)
    assert deployer(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert (len(served.jobs.by_id), max(served.jobs.resets.values(), default=0) <= 1) == (3, True)
    assert deployer(served, wanted).plan().acts is False


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 3), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)
SPEC = st.dictionaries(
    st.sampled_from(
        ["name", "channel", "edition", "catalog", "id", "tags", "clusters", "libraries", "storage", "other"]
    ),
    JSON,
    max_size=6,
)


@MANY
@given(spec=SPEC)
def test_normalising_twice_is_normalising_once(spec: dict[str, Any]) -> None:
    """Settings never differ from themselves."""
    once = normalise("pipelines", spec)
    assert normalise("pipelines", once) == once
    same = compare("pipelines", wanted=spec, deployed=spec, remote=spec, remote_at_deploy=spec)
    assert same.changes == ()


@MANY
@given(spec=SPEC, unknown=WORDS, value=st.integers(1, 9))
def test_an_unknown_field_is_a_semantic_change(spec: dict[str, Any], unknown: str, value: int) -> None:
    """A change of an unknown field is held."""
    wanted = {**spec, f"new_{unknown}": value}
    found = compare("pipelines", wanted=wanted, deployed=spec, remote=spec, remote_at_deploy=spec)
    assert found.change_class is ChangeClass.SEMANTIC
    assert len(flatten(wanted)) == len(flatten(spec)) + 1
