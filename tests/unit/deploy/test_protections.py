"""Protections from loss: `prevent_destroy`, explicit permissions, and a gateway that was deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from framework.deploy.deployer import Deployer
from framework.deploy.plan.diff import ChangeClass
from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.deploy.state.state import DeployState, read_state, write_state
from framework.foundation.errors import UserError
from framework.testing.workspace.gateway import SourceTable
from framework.testing.workspace.stand_in import StandIn
from tests.support.direct_workspace import DirectWorkspace
from tests.support.gateway_jobs import JOB, specs_with_job
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, USER, bundle_of, specs

INGESTION = "pipelines.ingestion"
FLIGHTS = "pipelines.flights"
Specs = dict[str, dict[str, Any]]


@pytest.fixture
def served() -> StandIn:
    """A separate workspace for the test, whose gateway takes a snapshot of 48 hours."""
    served = StandIn()
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=48))
    return served


def deployer(
    served: StandIn, wanted: Specs, *, recreate: tuple[str, ...] = (), overrides: tuple[tuple[str, str], ...] = ()
) -> Deployer:
    """A deployer with some permissions, without a deployments table."""
    policy = Policy(allow_recreate=frozenset(recreate), overrides=overrides)
    return Deployer(DirectWorkspace(served), bundle_of(wanted), user=USER, policy=policy)


def protected(*keys: str) -> Specs:
    """The bundle with `prevent_destroy` at some resources."""
    wanted = specs()
    for key in keys:
        wanted[key]["lifecycle"] = {"prevent_destroy": True}
    return wanted


def state_of(served: StandIn) -> DeployState:
    """Return the recorded state."""
    state = read_state(DirectWorkspace(served), bundle_of({}).state_path)
    assert state is not None
    return state


def on_record(served: StandIn, key: str) -> bool:
    """Whether the state protects a resource."""
    deployed = state_of(served).get(key)
    assert deployed is not None
    return deployed.prevent_destroy


def test_prevent_destroy_is_lifted_in_a_deploy_before_the_one_that_destroys(served: StandIn) -> None:
    """Removing it and recreating in one deploy is an error; after a deploy that only removes it, both are allowed."""
    deployer(served, protected(FLIGHTS)).deploy()
    wanted = specs() | {FLIGHTS: specs()[FLIGHTS] | {"storage": "/elsewhere"}}
    both = deployer(served, wanted, recreate=(FLIGHTS,)).deploy()
    change = both.plan.change(FLIGHTS)
    assert change is not None
    assert (both.exit_code, change.verdict, change.change_class) == (
        ExitCode.REFUSED, Verdict.REFUSE, ChangeClass.RECREATE,
    )  # fmt: skip
    assert change.reason == (
        "prevent_destroy was set in the last deployment and forbids recreating it; "
        "deploy the change of prevent_destroy first"
    )
    assert on_record(served, FLIGHTS)
    assert deployer(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert not on_record(served, FLIGHTS)
    before = served.pipeline("flights").pipeline_id
    assert deployer(served, wanted, recreate=(FLIGHTS,)).deploy().exit_code is ExitCode.CLEAN
    assert served.pipeline("flights").pipeline_id != before


def test_a_protection_takes_effect_while_the_gateway_itself_has_to_wait(served: StandIn) -> None:
    """With deferred tags, and with a held change, it is recorded without a call; a second deploy writes nothing."""
    deployer(served, specs()).deploy()
    served.clock.sleep(24 * HOUR)
    wanted = protected(GATEWAY)
    wanted[GATEWAY]["tags"]["team"] = "sales"
    assert deployer(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert (on_record(served, GATEWAY), served.pipeline(GATEWAY_NAME).puts) == (True, 0)
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    wanted[GATEWAY]["lifecycle"] = {"prevent_destroy": False}
    assert deployer(served, wanted).deploy().exit_code is ExitCode.HELD
    assert (on_record(served, GATEWAY), served.pipeline(GATEWAY_NAME).puts) == (False, 0)
    serial = state_of(served).serial
    assert deployer(served, wanted).deploy().exit_code is ExitCode.HELD
    assert state_of(served).serial == serial


def test_adopting_another_resource_does_not_lift_a_protection(served: StandIn) -> None:
    """`bind` keeps the recorded protection."""
    deployer(served, protected(FLIGHTS)).deploy()
    deployer(served, specs()).bind(FLIGHTS, served.pipeline("flights").pipeline_id)
    assert on_record(served, FLIGHTS)


def test_a_gateway_deleted_by_hand_waits_and_says_both_ways_out(served: StandIn) -> None:
    """It is held with both remedies, although it is protected; nothing is created, and other changes are deployed."""
    deployer(served, protected(GATEWAY)).deploy()
    gone = served.pipeline(GATEWAY_NAME).pipeline_id
    del served.pipelines.by_id[gone]
    wanted = protected(GATEWAY)
    wanted[FLIGHTS]["configuration"]["a"] = "2"
    result = deployer(served, wanted).deploy()
    change = result.plan.change(GATEWAY)
    assert change is not None
    assert (result.exit_code, change.verdict, change.change_class) == (
        ExitCode.HELD, Verdict.HOLD, ChangeClass.RECREATE,
    )  # fmt: skip
    assert change.reason == (
        f"{gone} was deleted outside this bundle: --allow-recreate {GATEWAY} creates a new gateway, which repeats all "
        f"snapshots; `sluice bundle bind {GATEWAY} ID` binds an existing one"
    )
    assert sorted(each.name for each in served.pipelines.by_id.values()) == ["flights", "sqlserver ingestion"]
    assert served.pipeline("flights").spec["configuration"] == {"a": "2"}


def test_the_ways_out_of_a_gateway_deleted_by_hand_lead_out(served: StandIn) -> None:
    """Also with a protected ingestion pipeline: its protection is lifted while the gateway waits, then both are new."""
    deployer(served, protected(GATEWAY, INGESTION)).deploy()
    del served.pipelines.by_id[served.pipeline(GATEWAY_NAME).pipeline_id]
    wanted = protected(GATEWAY)
    assert deployer(served, wanted, recreate=(GATEWAY, INGESTION)).deploy().exit_code is ExitCode.REFUSED
    assert deployer(served, wanted).deploy().exit_code is ExitCode.HELD
    assert deployer(served, wanted, recreate=(GATEWAY, INGESTION)).deploy().exit_code is ExitCode.CLEAN
    gateway = served.pipeline(GATEWAY_NAME).pipeline_id
    assert served.pipeline("sqlserver ingestion").spec["ingestion_definition"]["ingestion_gateway_id"] == gateway
    assert deployer(served, wanted).plan().exit_code() is ExitCode.CLEAN


def test_a_gateway_in_the_place_of_a_lost_one_says_so(served: StandIn) -> None:
    """Nothing is deleted, and the reason names the deleted gateway."""
    deployer(served, specs()).deploy()
    gone = served.pipeline(GATEWAY_NAME).pipeline_id
    del served.pipelines.by_id[gone]
    change = deployer(served, specs(), recreate=(GATEWAY, INGESTION)).plan().change(GATEWAY)
    assert change is not None
    assert (change.verdict, change.reason) == (
        Verdict.APPLY,
        f"{gone} was deleted outside this bundle; it is created again",
    )


UNKNOWN_KEYS = {
    "recreate": ((("pipelines.gatway",), ()), "DEPLOY_KEY_UNKNOWN", "Did you mean `pipelines.gateway`?"),
    "recreate by name": (((GATEWAY_NAME,), ()), "DEPLOY_KEY_UNKNOWN", "--allow-recreate"),
    "override": (((), (("pipelines.gatway", "moved"),)), "DEPLOY_KEY_UNKNOWN", "Did you mean `pipelines.gateway`?"),
    "override of no gateway": (((), ((FLIGHTS, "moved"),)), "DEPLOY_OVERRIDE_NO_GATEWAY", "a gateway: pipe"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "condition", "says"), UNKNOWN_KEYS.values(), ids=UNKNOWN_KEYS)
def test_a_permission_for_what_is_not_there_is_an_error(
    served: StandIn, given: tuple[tuple[str, ...], tuple[tuple[str, str], ...]], condition: str, says: str
) -> None:
    """An unknown key, or an unneeded override, is an error before any write, with the nearest key."""
    recreate, overrides = given
    deployer(served, specs()).deploy()
    calls = len([each for each in served.requests if each.is_write])
    for act in ("plan", "deploy", "destroy"):
        with pytest.raises(UserError) as caught:
            getattr(deployer(served, specs(), recreate=recreate, overrides=overrides), act)()
        assert (caught.value.condition, says in caught.value.render()) == (condition, True)
    assert len([each for each in served.requests if each.is_write]) == calls


def test_a_permission_stands_while_the_deploy_uses_it_up(served: StandIn) -> None:
    """The deploy itself deletes the named resource; a repeated `destroy` after a failure accepts the key too."""
    deployer(served, specs()).deploy()
    wanted = specs()
    del wanted[FLIGHTS], wanted["jobs.flights"]
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    policy = Policy(allow_recreate=frozenset({FLIGHTS}), queue=True)
    queued = Deployer(DirectWorkspace(served), bundle_of(wanted), user=USER, policy=policy)
    assert queued.deploy().exit_code is ExitCode.QUEUED
    served.clock.sleep(60 * HOUR)
    everything = deployer(served, specs(), recreate=(GATEWAY, INGESTION, FLIGHTS))
    assert everything.destroy().exit_code is ExitCode.CLEAN


def test_a_key_that_bind_does_not_know_is_answered_with_the_nearest(served: StandIn) -> None:
    """As for the permissions."""
    with pytest.raises(UserError) as caught:
        deployer(served, specs()).bind("pipelines.gatway", "1")
    assert "Did you mean `pipelines.gateway`?" in caught.value.what
    with pytest.raises(UserError) as caught:
        deployer(served, specs()).accept("pipelines.gatway")
    assert "Did you mean `pipelines.gateway`?" in caught.value.what


def test_references_lead_from_resource_to_resource(served: StandIn) -> None:
    """A value that itself refers to another resource arrives resolved, with its type; a truth is lower case in text."""
    wanted = specs()
    wanted[FLIGHTS]["schema"] = "${resources.schemas.staging.name}"
    wanted[FLIGHTS]["continuous"] = True
    wanted["jobs.flights"]["tags"] = {
        "schema": "in ${resources.pipelines.flights.schema}",
        "a": "${resources.pipelines.flights.configuration.a}",
        "continuous": "is ${resources.pipelines.flights.continuous}",
    }
    deployer(served, wanted).deploy()
    (job,) = served.jobs.by_id.values()
    assert job["settings"]["tags"] == {"schema": "in Staging", "a": "1", "continuous": "is true"}
    assert deployer(served, wanted).plan().exit_code() is ExitCode.CLEAN


def test_a_circle_that_several_deploys_left_on_record_is_destroyed_all_the_same(served: StandIn) -> None:
    """No single deploy had a cycle; the recorded dependencies of two deploys form one."""
    deployer(served, specs()).deploy()
    state = state_of(served)
    flights = state.get(FLIGHTS)
    assert flights is not None
    circle = state.with_resource(replace(flights, depends_on=("jobs.flights",)))
    write_state(DirectWorkspace(served), bundle_of({}).state_path, circle)
    served.clock.sleep(60 * HOUR)
    everything = deployer(served, specs(), recreate=(GATEWAY, INGESTION, FLIGHTS))
    assert everything.destroy().exit_code is ExitCode.CLEAN
    assert (served.pipelines.by_id, served.jobs.by_id) == ({}, {})


def test_the_order_of_permissions_and_privileges_is_no_change(served: StandIn) -> None:
    """Existing permissions and privileges are not written again."""
    wanted = specs()
    wanted["schemas.staging"]["grants"] = [
        {"principal": "r", "privileges": ["SELECT", "MODIFY"]},
        {"principal": "a", "privileges": ["SELECT"]},
    ]
    wanted[FLIGHTS]["permissions"] = [{"level": "CAN_VIEW", "group_name": "a"}, {"level": "CAN_RUN", "group_name": "b"}]
    deployer(served, wanted).deploy()
    wanted["schemas.staging"]["grants"] = [
        {"principal": "a", "privileges": ["SELECT"]},
        {"principal": "r", "privileges": ["MODIFY", "SELECT"]},
    ]
    wanted[FLIGHTS]["permissions"].reverse()
    assert [each.access for each in deployer(served, wanted).plan().changes if each.access] == []


def lose_create(served: StandIn, *keys: str) -> None:
    """Remove the result of a creation from the record, as if the deploy died after the call."""
    state = state_of(served)
    for key in keys:
        deployed = state.get(key)
        assert deployed is not None
        state = state.with_resource(replace(deployed, id=None, remote=None))
    write_state(DirectWorkspace(served), bundle_of({}).state_path, state)


def test_what_a_dead_deploy_made_is_gated_as_any_other(served: StandIn) -> None:
    """The gateway takes its snapshot, although its id is not recorded: no edit and no deletion ends it."""
    wanted = specs_with_job()
    deployer(served, wanted).deploy()
    gateway = served.pipeline(GATEWAY_NAME).pipeline_id
    served.clock.sleep(24 * HOUR)
    lose_create(served, GATEWAY, JOB)
    without = {key: spec for key, spec in wanted.items() if key not in (GATEWAY, JOB, INGESTION)}
    result = deployer(served, without, recreate=(GATEWAY, JOB, INGESTION)).deploy()
    refused = {each.key for each in result.done if each.verdict is Verdict.REFUSE}
    assert (refused, result.exit_code) == ({GATEWAY, JOB}, ExitCode.REFUSED)
    edited = specs_with_job()
    edited[GATEWAY]["clusters"][0]["num_workers"] = 4
    assert deployer(served, edited).deploy().exit_code is ExitCode.HELD
    recorded = state_of(served).get(GATEWAY)
    assert recorded is not None
    assert (recorded.id, served.pipeline(GATEWAY_NAME).puts, len(served.jobs.by_id)) == (gateway, 0, 2)
    assert served.pipeline(GATEWAY_NAME).active is not None


def test_a_change_after_a_dead_deploy_is_no_baseline(served: StandIn) -> None:
    """The bundle changed between the crash and the next deploy: the change is applied, not counted as done."""
    deployer(served, specs()).deploy()
    lose_create(served, FLIGHTS)
    wanted = specs()
    wanted[FLIGHTS]["configuration"]["a"] = "2"
    assert deployer(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert served.pipeline("flights").spec["configuration"] == {"a": "2"}
    assert len([each for each in served.pipelines.by_id.values() if each.name == "flights"]) == 1


def test_no_second_key_takes_a_resource_out_of_its_protection(served: StandIn) -> None:
    """A declared key keeps its resource; one that has left the bundle gives it away with its protection."""
    deployer(served, protected(FLIGHTS)).deploy()
    found = served.pipeline("flights").pipeline_id
    both = protected(FLIGHTS)
    both["pipelines.other"] = specs()[FLIGHTS] | {"name": "other"}
    with pytest.raises(UserError) as error:
        deployer(served, both).bind("pipelines.other", found)
    assert (error.value.condition, error.value.fields["other"]) == ("DEPLOY_BIND_TAKEN", FLIGHTS)
    renamed = specs()
    renamed["pipelines.other"] = renamed.pop(FLIGHTS)
    del renamed["jobs.flights"]
    deployer(served, renamed).bind("pipelines.other", found)
    assert (state_of(served).get(FLIGHTS), on_record(served, "pipelines.other")) == (None, True)
    del renamed["pipelines.other"]
    result = deployer(served, renamed, recreate=("pipelines.other",)).deploy()
    assert (result.exit_code, "flights" in {each.name for each in served.pipelines.by_id.values()}) == (
        ExitCode.REFUSED,
        True,
    )


def test_a_reference_takes_the_type_of_the_field_that_it_stands_in(served: StandIn) -> None:
    """A number in a tag becomes a string: the next plan is empty, and no gateway has a permanent difference."""
    wanted = specs()
    wanted["jobs.flights"]["max_concurrent_runs"] = 3
    wanted[GATEWAY]["tags"]["runs"] = "${resources.jobs.flights.max_concurrent_runs}"
    wanted[GATEWAY]["configuration"] = {"on": "${resources.pipelines.flights.development}"}
    wanted[FLIGHTS]["development"] = True
    assert deployer(served, wanted).deploy().exit_code is ExitCode.CLEAN
    spec = served.pipeline(GATEWAY_NAME).spec
    assert (spec["tags"]["runs"], spec["configuration"]) == ("3", {"on": "true"})
    assert deployer(served, wanted).plan().exit_code() is ExitCode.CLEAN
