"""The guard before a deploy by Databricks' own command line: it reads that tool's state; an unknown state is not 0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.gateways.cli_state import StateUnknown
from framework.deploy.plan.policy import ExitCode, Policy, Verdict
from framework.testing.workspace import Fault, SourceTable, StandInWorkspace, serve_workspace
from tests.support.foreign_cli import DIRECT, TERRAFORM, ForeignCli, write_state
from tests.support.gateway_jobs import JOB, JOB_NAME, specs_with_job
from tests.support.ingestion_bundle import GATEWAY, GATEWAY_NAME, HOUR, bundle_of, deployer_of

Specs = dict[str, dict[str, Any]]


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def plain_specs() -> Specs:
    """The bundle in the service's spelling, as the lint requires: another spelling would hold another tool."""
    wanted = specs_with_job()
    wanted[GATEWAY] |= {"channel": "PREVIEW", "edition": "ADVANCED", "catalog": "main"}
    return wanted


def deployed(served: StandInWorkspace, *, engine: str = DIRECT, hours: float = 24.0) -> dict[str, str]:
    """Deploy the bundle by the command line, and let the snapshot of its gateway run; the ids by key."""
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=48))
    ids = ForeignCli(served, engine=engine).deploy(bundle_of(plain_specs()))
    served.clock.sleep(hours * HOUR)
    served.forget_requests()
    return ids


def guard(served: StandInWorkspace, wanted: Specs, policy: Policy | None = None) -> tuple[dict[str, Verdict], ExitCode]:
    """Return the guard's verdicts without those that need no action, and its exit code; nothing is written."""
    gateways, _, code = deployer_of(served, wanted, policy=policy).guard()
    assert served.writes() == []
    return {each.key: each.verdict for each in gateways if each.verdict is not Verdict.NOTHING}, code


def unknown(served: StandInWorkspace, wanted: Specs | Bundle) -> str:
    """Return the reason for an unknown state; the command ends with 23."""
    with pytest.raises(StateUnknown) as error:
        deployer_of(served, wanted).guard()
    assert (error.value.condition, error.value.exit_code) == ("GUARD_STATE_UNKNOWN", 23)
    return error.value.what


def more_workers(wanted: Specs) -> None:
    """Change a setting of the gateway."""
    wanted[GATEWAY]["clusters"][0]["num_workers"] = 4


def another_connection(wanted: Specs) -> None:
    """Change a setting that makes another gateway."""
    wanted[GATEWAY]["gateway_definition"]["connection_name"] = "other"


def another_tag(wanted: Specs) -> None:
    """Change a tag of the gateway."""
    wanted[GATEWAY]["tags"]["commit"] = "f00"


def no_gateway(wanted: Specs) -> None:
    """Remove the gateway and its dependents from the bundle."""
    for key in (GATEWAY, JOB, "pipelines.ingestion"):
        del wanted[key]


def another_key(wanted: Specs) -> None:
    """Declare the gateway under another key."""
    wanted["pipelines.renamed"] = wanted.pop(GATEWAY)
    del wanted[JOB], wanted["pipelines.ingestion"]


def paused(wanted: Specs) -> None:
    """Pause the gateway's job."""
    wanted[JOB]["continuous"]["pause_status"] = "PAUSED"


def nothing(wanted: Specs) -> None:
    """Change a resource that is not a gateway."""
    wanted["pipelines.flights"]["configuration"]["a"] = "2"


EDITS = {
    nothing: ({}, ExitCode.CLEAN),
    more_workers: ({GATEWAY: Verdict.HOLD}, ExitCode.HELD),
    another_connection: ({GATEWAY: Verdict.REFUSE, JOB: Verdict.HOLD}, ExitCode.REFUSED),
    another_tag: ({GATEWAY: Verdict.DEFER}, ExitCode.HELD),
    paused: ({JOB: Verdict.HOLD}, ExitCode.HELD),
    no_gateway: ({GATEWAY: Verdict.REFUSE, JOB: Verdict.REFUSE}, ExitCode.REFUSED),
    another_key: ({GATEWAY: Verdict.REFUSE, JOB: Verdict.REFUSE}, ExitCode.REFUSED),
}


@pytest.mark.parametrize("engine", [TERRAFORM, DIRECT])
def test_the_guard_reads_the_state_of_databricks_own_command_line(served: StandInWorkspace, engine: str) -> None:
    """During a snapshot, with the state of either engine, a restart or end of the gateway or its job is never 0."""
    deployed(served, engine=engine)
    found = {}
    for edit in EDITS:
        wanted = plain_specs()
        edit(wanted)
        verdicts, code = guard(served, wanted)
        verdicts.pop("pipelines.renamed", None)
        found[edit] = (verdicts, code)
    assert found == EDITS


def test_without_any_state_the_gateway_and_its_job_are_found_by_name(served: StandInWorkspace) -> None:
    """If the state is on a user's disk, the verdicts are the same; a missing gateway is created."""
    deployed(served)
    served.files.files.clear()
    found = {}
    for edit in (nothing, more_workers, another_connection, another_tag, paused):
        wanted = plain_specs()
        edit(wanted)
        found[edit] = guard(served, wanted)
    assert found == {edit: EDITS[edit] for edit in found}


def renamed(*keys: str, **definition: str) -> Specs:
    """The bundle with other names for these resources, and the gateway with other fields of its definition."""
    wanted = plain_specs()
    for key in keys:
        wanted[key]["name"] = f"new {key}"
    wanted[GATEWAY]["gateway_definition"] |= definition
    return wanted


def test_without_any_state_a_renamed_gateway_that_may_be_one_of_the_workspace_is_unknown(
    served: StandInWorkspace,
) -> None:
    """The same connection or the same storage is enough, in any case of letters; the reason names the gateway."""
    ids = deployed(served)
    served.files.files.clear()
    cases = {
        "connection": renamed(GATEWAY, gateway_storage_schema="other", connection_name="SQLServer"),
        "gateway storage": renamed(GATEWAY, connection_name="other", gateway_storage_catalog="MAIN"),
    }
    for shared, wanted in cases.items():
        told = (
            f"the gateway {GATEWAY_NAME} ({ids[GATEWAY]}), which is in no deployment state, may have the same {shared}"
        )
        assert told in unknown(served, wanted)
    by_id = renamed(GATEWAY, gateway_storage_schema="other", connection_id="c-1")
    del by_id[GATEWAY]["gateway_definition"]["connection_name"]
    assert "may have the same connection" in unknown(served, by_id)
    # A job of another name that runs the gateway, which is known by its name.
    told = f"the job {JOB_NAME} ({ids[JOB]}), which is in no deployment state, runs the same gateway"
    assert told in unknown(served, renamed(JOB))
    new = renamed(GATEWAY, JOB, connection_name="other", gateway_storage_schema="other")
    assert guard(served, new) == ({GATEWAY: Verdict.APPLY}, ExitCode.CLEAN)


def test_a_gateway_that_a_state_claims_is_not_the_renamed_one(served: StandInWorkspace) -> None:
    """Another target's state, or the command line's state of this target, identifies its owner."""
    deployed(served)
    other = renamed(GATEWAY, JOB)
    folder = bundle_of({}).state_path
    write_state(served, bundle_of({}), {}, engine=DIRECT)
    assert guard(served, other) == ({GATEWAY: Verdict.APPLY}, ExitCode.CLEAN)
    served.files.files.clear()
    ids = {GATEWAY: served.pipeline(GATEWAY_NAME).pipeline_id}
    elsewhere = replace(bundle_of({}), state_path="/Workspace/Shared/.bundle/other/state")
    write_state(served, elsewhere, ids, engine=DIRECT)
    assert "may have the same connection" in unknown(served, other)
    spec = served.pipeline(GATEWAY_NAME).spec
    spec["deployment"] = {"kind": "BUNDLE", "metadata_file_path": f"{elsewhere.state_path}/metadata.json"}
    assert guard(served, other) == ({GATEWAY: Verdict.APPLY}, ExitCode.CLEAN)
    spec["deployment"] = {"kind": "BUNDLE", "metadata_file_path": f"{folder}/metadata.json"}
    assert "may have the same connection" in unknown(served, other)


def test_a_resource_that_is_no_gateway_in_the_bundle_but_is_one_by_its_name_is_gated(served: StandInWorkspace) -> None:
    """Without a state: the definition of the gateway has left the bundle, and the task has left its job."""
    deployed(served)
    served.files.files.clear()
    wanted = plain_specs()
    del wanted[GATEWAY]["gateway_definition"]
    wanted[JOB]["tasks"] = []
    verdicts, code = guard(served, wanted)
    assert (set(verdicts), code is ExitCode.CLEAN) == ({GATEWAY, JOB}, False)


UNREADABLE = {
    "a pipeline of a state": ("/api/2.0/pipelines/pipeline-", True),
    "a job of a state": ("/jobs/get", True),
    "a pipeline without a state": ("/api/2.0/pipelines/pipeline-", False),
    "a job without a state": ("/jobs/get", False),
}


def test_what_the_service_does_not_let_the_guard_read_is_unknown(served: StandInWorkspace) -> None:
    """The exit code is neither 0 nor 1, because the deploy may stop a resource that can't be read."""
    deployed(served)
    files, told = dict(served.files.files), {}
    for case, (path, has_state) in UNREADABLE.items():
        served.files.files = dict(files) if has_state else {}
        served.faults.clear()
        served.fail(Fault(path=path, times=99, status=403, error_code="PERMISSION_DENIED"))
        told[case] = unknown(served, plain_specs())
    assert {case: "does not have permission for GET" in text for case, text in told.items()} == dict.fromkeys(
        UNREADABLE, True
    )


def test_a_name_that_two_have_is_unknown(served: StandInWorkspace) -> None:
    """Which of two jobs a deploy would reach can't be known; bound, it is."""
    ids = deployed(served)
    served.files.files.clear()
    ForeignCli(served).deploy(bundle_of({JOB: plain_specs()[JOB] | {"tasks": []}}))
    served.files.files.clear()
    assert "2 jobs have the same name gateway job as jobs.gateway" in unknown(served, plain_specs())
    deployer_of(served, plain_specs()).bind(JOB, ids[JOB])
    served.forget_requests()
    assert guard(served, plain_specs()) == ({}, ExitCode.CLEAN)


BROKEN: dict[str, str] = {
    "not JSON": "{",
    "no object": "[]",
    "no serial": '{"version": 4, "state_version": 2, "resources": [], "state": {}, "lineage": "one"}',
    "a version of the future": '{"version": 5, "state_version": 4, "serial": 1, "lineage": "one"}',
    "no id": json.dumps(
        {
            "version": 4,
            "state_version": 2,
            "serial": 1,
            "lineage": "one",
            "resources": [
                {"mode": "managed", "type": "databricks_job", "name": "a", "instances": [{"attributes": {}}]}
            ],
            "state": {"resources.jobs.a": {}},
        }
    ),
    "tainted": json.dumps(
        {
            "version": 4,
            "state_version": 4,
            "serial": 1,
            "lineage": "one",
            "resources": [
                {
                    "mode": "managed",
                    "type": "databricks_pipeline",
                    "name": "a",
                    "instances": [{"attributes": {"id": "1"}, "status": "tainted"}],
                }
            ],
        }
    ),
    "being replaced": json.dumps(
        {
            "version": 4,
            "state_version": 3,
            "features": {"new": {}},
            "serial": 1,
            "lineage": "one",
            "resources": [
                {
                    "mode": "managed",
                    "type": "databricks_pipeline",
                    "name": "a",
                    "instances": [{"attributes": {"id": "1"}}, {"attributes": {"id": "2"}, "deposed": "x"}],
                }
            ],
        }
    ),
}


def test_a_state_that_can_not_be_read_is_unknown(served: StandInWorkspace) -> None:
    """This holds for either engine and for Sluice's state, for any damage, and for a state that the service denies."""
    deployed(served)
    folder = bundle_of({}).state_path
    told = {}
    for name in (TERRAFORM, DIRECT, "sluice-state.json"):
        for case, text in BROKEN.items():
            served.files.files = {f"{folder}/{name}": text.encode()}
            told[name, case] = unknown(served, plain_specs())
    assert {key: f"{key[0]} cannot be read" in text for key, text in told.items()} == dict.fromkeys(told, True)
    served.files.files = {}
    served.fail(Fault(path="/workspace/export", times=99, status=403, error_code="PERMISSION_DENIED"))
    assert "does not have permission for GET /api/2.0/workspace/export" in unknown(served, plain_specs())
    served.faults.clear()
    served.fail(Fault(path="/api/2.0/pipelines$", times=99, status=403, error_code="PERMISSION_DENIED"))
    assert "does not have permission for GET /api/2.0/pipelines" in unknown(served, plain_specs())


def test_of_two_states_the_newer_counts_and_contradictions_are_unknown(served: StandInWorkspace) -> None:
    """A target that moved from one engine to the other keeps both files."""
    ids = deployed(served)
    bundle, wanted = bundle_of(plain_specs()), plain_specs()
    more_workers(wanted)
    stale = ids | {GATEWAY: "pipeline-9999"}
    write_state(served, bundle, stale, engine=TERRAFORM, serial=1)
    write_state(served, bundle, ids, engine=DIRECT, serial=2)
    assert guard(served, wanted) == EDITS[more_workers]
    write_state(served, bundle, ids, engine=TERRAFORM, serial=3)
    write_state(served, bundle, stale, engine=DIRECT, serial=2)
    assert guard(served, wanted) == EDITS[more_workers]
    write_state(served, bundle, ids, engine=DIRECT, serial=3)
    assert "have the same serial" in unknown(served, wanted)
    write_state(served, bundle, ids, engine=DIRECT, serial=4, lineage="two")
    assert "different deployments" in unknown(served, wanted)


def test_ids_that_contradict_ours_are_unknown(served: StandInWorkspace) -> None:
    """The command line would write to another pipeline than the one that was bound."""
    ids = deployed(served)
    deployer_of(served, plain_specs()).bind(GATEWAY, ids["pipelines.flights"])
    told = unknown(served, plain_specs())
    assert f"{GATEWAY} has the id {ids['pipelines.flights']} in the state of Sluice, but {ids[GATEWAY]} in" in told


def test_the_guard_goes_on_once_the_snapshot_is_over(served: StandInWorkspace) -> None:
    """An allowed write is 0; the other tool writes tags with it, and tags alone are held."""
    deployed(served, hours=60)
    wanted = plain_specs()
    another_tag(wanted)
    assert guard(served, wanted)[1] is ExitCode.HELD
    more_workers(wanted)
    assert guard(served, wanted) == ({GATEWAY: Verdict.APPLY}, ExitCode.CLEAN)


def test_an_identity_that_the_bundle_names_is_no_difference(served: StandInWorkspace) -> None:
    """Reads of settings omit `run_as`; another identity is a change."""
    wanted = plain_specs()
    for key in (GATEWAY, JOB):
        wanted[key]["run_as"] = {"service_principal_name": "ingestion"}
    served.source_tables(GATEWAY_NAME, SourceTable(name="main.staging.orders", chunks=48))
    ForeignCli(served).deploy(bundle_of(wanted))
    served.clock.sleep(24 * HOUR)
    served.forget_requests()
    assert guard(served, wanted) == ({}, ExitCode.CLEAN)
    wanted[JOB]["run_as"] = {"service_principal_name": "another"}
    assert guard(served, wanted) == ({JOB: Verdict.HOLD}, ExitCode.HELD)


def test_a_warehouse_that_does_not_answer_is_unknown(served: StandInWorkspace) -> None:
    """A change of a gateway whose log can't be read is 23."""
    deployed(served, hours=60)
    wanted = plain_specs()
    more_workers(wanted)
    served.fail(Fault(path="/sql/statements", times=9, status=403, error_code="PERMISSION_DENIED"))
    assert guard(served, wanted) == ({GATEWAY: Verdict.UNKNOWN}, ExitCode.UNKNOWN)


def test_an_accepted_field_that_the_bundle_does_not_name_holds_another_tool(served: StandInWorkspace) -> None:
    """Our deploy does not change the field; another tool removes it, which restarts the gateway during its snapshot."""
    deployed(served)
    gateway = served.pipeline(GATEWAY_NAME)
    deployer_of(served, plain_specs()).bind(GATEWAY, gateway.pipeline_id)
    gateway.spec["tags"]["owner"] = "ada"
    gateway.spec["budget_policy_id"] = "b-1"
    gateway.spec["storage"] = "dbfs:/elsewhere"
    deployer_of(served, plain_specs()).accept(GATEWAY)
    served.forget_requests()
    changes, _, code = deployer_of(served, plain_specs()).guard()
    told = {each.key: (each.phantoms, each.reason) for each in changes}
    reason = "another deployment tool would remove the accepted settings storage, tags.owner; add them to the bundle"
    assert (told, code) == ({GATEWAY: ((("storage",), ("tags", "owner")), reason)}, ExitCode.HELD)
    assert deployer_of(served, plain_specs()).plan().change(GATEWAY).verdict is Verdict.NOTHING  # type: ignore[union-attr]
    named = plain_specs()
    named[GATEWAY]["tags"]["owner"] = "ada"
    named[GATEWAY]["storage"] = "dbfs:/elsewhere"
    assert guard(served, named) == ({}, ExitCode.CLEAN)
