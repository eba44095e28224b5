"""Resolutions of a hold without a restart: drift is accepted, and deferred tags are written on purpose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from framework.deploy.bundle.documents.bundle import FrozenSpec
from framework.deploy.plan.deploy_plan import PlannedChange
from framework.deploy.plan.diff import ChangeClass, FieldChange
from framework.deploy.plan.gateway_state import GatewayState, Phase
from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.deploy.plan.reasons import reason_of
from framework.foundation.errors import UserError
from framework.testing.workspace import StandInWorkspace, serve_workspace
from tests.support.gateway_jobs import JOB, JOB_NAME, specs_with_job
from tests.support.ingestion_bundle import (
    GATEWAY,
    GATEWAY_NAME,
    HOUR,
    TABLE,
    deployer_of,
    gateway_calls,
    specs,
    with_snapshot,
)


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A workspace whose gateway is half through a snapshot of two days."""
    with serve_workspace() as workspace:
        yield with_snapshot(workspace)


def planned(served: StandInWorkspace, wanted: dict[str, dict[str, Any]], key: str = GATEWAY) -> PlannedChange:
    """Return a resource's planned change."""
    change = deployer_of(served, wanted).plan().change(key)
    assert change is not None
    return change


def test_a_field_that_the_service_adds_holds_until_it_is_accepted(served: StandInWorkspace) -> None:
    """There is no call to the gateway during the snapshot; afterwards the plan is empty, and the guard returns 0."""
    spec = served.pipeline(GATEWAY_NAME).spec
    spec["budget_policy_id"] = "b-1"
    spec["gateway_definition"]["connection_id"] = "c-1"
    held = planned(served, specs())
    assert (held.verdict, held.change_class) == (Verdict.HOLD, ChangeClass.DRIFT)
    assert held.reason == (
        f"its settings were changed outside this bundle; `sluice bundle accept {GATEWAY}` keeps them"
    )
    accepted = deployer_of(served, specs()).accept(GATEWAY).change
    assert {(".".join(each.path), each.remote, each.wanted) for each in accepted.fields} == {
        ("budget_policy_id", '"b-1"', None),
        ("gateway_definition.connection_id", '"c-1"', None),
    }
    assert (gateway_calls(served), planned(served, specs()).verdict) == ([], Verdict.NOTHING)
    assert deployer_of(served, specs()).deploy().exit_code is ExitCode.CLEAN
    assert gateway_calls(served) == []
    row = json.loads(served.sql.tables[TABLE][-1]["resources"])[GATEWAY]
    assert (row["done"], row["reason"]) == ("accept", "the current remote settings become the baseline")


def test_what_the_bundle_changes_stays_a_change(served: StandInWorkspace) -> None:
    """Only outside changes are accepted; a value that the bundle sets too stays unchanged, and is displayed."""
    spec = served.pipeline(GATEWAY_NAME).spec
    spec["clusters"][0]["num_workers"] = 9
    spec["budget_policy_id"] = "b-1"
    wanted = specs()
    wanted[GATEWAY]["configuration"] = {"a": "1"}
    accepted = deployer_of(served, wanted).accept(GATEWAY).change
    assert [".".join(each.path) for each in accepted.fields] == ["budget_policy_id", "clusters.default.num_workers"]
    left = planned(served, wanted)
    assert [".".join(each.path) for each in left.fields] == ["configuration.a"]
    assert (left.verdict, left.change_class) == (Verdict.HOLD, ChangeClass.SEMANTIC)
    del wanted[GATEWAY]["configuration"]
    assert planned(served, wanted).reason == (
        "3 fields in an equivalent spelling, 1 field set by the service or accepted"
    )
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    assert planned(served, wanted).change_class is ChangeClass.SEMANTIC


def test_what_is_bound_keeps_its_wishes_when_it_is_accepted(served: StandInWorkspace) -> None:
    """Immediately after `bind` there is no baseline: the bundle's values are changes, all other values are accepted."""
    spec = served.pipeline(GATEWAY_NAME).spec
    gateway = served.pipeline(GATEWAY_NAME).pipeline_id
    spec["budget_policy_id"] = "b-1"
    wanted = specs()
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4
    deployer_of(served, wanted).bind(GATEWAY, gateway)
    assert ("budget_policy_id",) in {each.path for each in planned(served, wanted).fields}
    deployer_of(served, wanted).accept(GATEWAY)
    left = planned(served, wanted)
    assert [(".".join(each.path), each.change_class) for each in left.fields] == [
        ("clusters.default.num_workers", ChangeClass.SEMANTIC)
    ]


def test_only_what_is_on_record_and_there_is_accepted(served: StandInWorkspace) -> None:
    """An unknown key, a resource that was never deployed, and a deleted one are usage errors."""
    wanted = specs_with_job()
    conditions = {}
    for key in ("pipelines.nosuch", JOB, "pipelines.flights"):
        if key == "pipelines.flights":
            del served.pipelines.by_id[served.pipeline("flights").pipeline_id]
        with pytest.raises(UserError) as error:
            deployer_of(served, wanted).accept(key)
        conditions[key] = error.value.condition
    assert conditions == {
        "pipelines.nosuch": "DEPLOY_RESOURCE_UNKNOWN",
        JOB: "DEPLOY_NOT_BOUND",
        "pipelines.flights": "DEPLOY_BIND_MISSING",
    }


def test_deferred_tags_are_written_on_purpose_and_only_when_no_snapshot_runs(served: StandInWorkspace) -> None:
    """Held in the snapshot; afterwards one PUT brings the tag, and the table has the reason."""
    wanted = specs()
    wanted[GATEWAY]["tags"]["commit"] = "f00"
    policy = Policy(tag_writes=((GATEWAY, "finance needs them"),))
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert deployer_of(served, wanted, policy=policy).deploy().exit_code is ExitCode.HELD
    assert gateway_calls(served) == []
    served.clock.sleep(30 * HOUR)
    assert deployer_of(served, wanted).deploy().exit_code is ExitCode.CLEAN
    assert gateway_calls(served) == []
    assert deployer_of(served, wanted, policy=policy).deploy().exit_code is ExitCode.CLEAN
    gateway = served.pipeline(GATEWAY_NAME)
    told = json.loads(served.sql.tables[TABLE][-1]["resources"])[GATEWAY]
    assert (gateway.puts, gateway.spec["tags"], told["reason"]) == (
        1,
        {"team": "data", "commit": "f00"},
        "--write-tags: finance needs them",
    )
    assert planned(served, wanted).verdict is Verdict.NOTHING


def test_deferred_tags_of_a_gateways_job_are_written_on_purpose(served: StandInWorkspace) -> None:
    """The same for the job that runs the gateway."""
    wanted = specs_with_job()
    served.clock.sleep(30 * HOUR)
    deployer_of(served, wanted).deploy()
    wanted[JOB]["tags"]["commit"] = "f00"
    deployer_of(served, wanted).deploy()
    (made,) = [each for each in served.jobs.by_id.values() if each["settings"]["name"] == JOB_NAME]
    assert made["settings"]["tags"] == {"team": "data"}
    policy = Policy(tag_writes=((JOB, "finance needs them"),))
    assert deployer_of(served, wanted, policy=policy).deploy().exit_code is ExitCode.CLEAN
    assert made["settings"]["tags"] == {"team": "data", "commit": "f00"}


def test_a_refused_plan_shows_no_apply(served: StandInWorkspace) -> None:
    """No change of it is applied, so each other change names the refused one, and no file is listed for upload."""
    wanted = specs()
    wanted[GATEWAY]["gateway_definition"]["connection_name"] = "other"
    wanted["pipelines.flights"]["configuration"]["a"] = "2"
    wanted["schemas.staging"]["grants"] = []
    plan = deployer_of(served, wanted).plan()
    reason = f"no change is applied because {GATEWAY} is refused"
    assert {each.key: (each.verdict, each.reason) for each in plan.changes if each.reason == reason} == {
        "pipelines.flights": (Verdict.SKIP, reason),
        "schemas.staging": (Verdict.SKIP, reason),
    }
    assert Verdict.APPLY not in {each.verdict for each in plan.changes}
    assert (plan.exit_code(), plan.uploads) == (ExitCode.REFUSED, ())


def test_a_verdict_always_has_a_reason() -> None:
    """For each verdict, class and state of a gateway, of gateways, jobs and other resources."""
    states = (None, *(GatewayState(phase=phase) for phase in Phase))
    field = FieldChange(path=("a",), remote="1", wanted="2", change_class=ChangeClass.DRIFT)
    policies = (Policy(), Policy(overrides=(("k", "why"),), tag_writes=(("k", "why"),)))
    silent = [
        (verdict, change_class, stops, state)
        for verdict, change_class, state in product(Verdict, ChangeClass, states)
        for stops, access, fields, remote_id in product((True, False), (True, False), ((), (field,)), (None, "1"))
        for policy in policies
        if verdict not in (Verdict.SKIP, Verdict.ACCEPT)
        and not reason_of(
            PlannedChange(
                key="k",
                kind="jobs",
                name="n",
                stops_gateway=stops,
                change_class=change_class,
                verdict=verdict,
                reason="",
                fields=fields,
                gateway=state,
                spec=FrozenSpec.of({}),
                access=access,
                remote_id=remote_id,
            ),
            policy,
        )
    ]
    assert silent == []
