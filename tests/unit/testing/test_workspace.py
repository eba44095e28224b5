"""The stand-in workspace behaves like the service in everything that deploys depend on."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound, PermissionDenied, ResourceAlreadyExists, ResourceConflict, Unauthenticated
from databricks.sdk.service.catalog import Privilege
from databricks.sdk.service.pipelines import IngestionGatewayPipelineDefinition
from databricks.sdk.service.sql import StatementState

from framework.testing.workspace import Fault, SourceTable, StandInWorkspace, lost_answer, throttled
from framework.testing.workspace.stand_in import TOKEN, WAREHOUSE

GATEWAY = IngestionGatewayPipelineDefinition(
    connection_name="sqlserver", gateway_storage_catalog="main", gateway_storage_schema="staging"
)
HOUR = 3600.0


@pytest.fixture
def client(workspace: StandInWorkspace) -> WorkspaceClient:
    """The real SDK on it."""
    return workspace.client()


def make_gateway(workspace: StandInWorkspace, client: WorkspaceClient, *tables: SourceTable) -> str:
    """A continuous gateway over some tables; its id."""
    workspace.source_tables("gateway", *tables)
    made = client.pipelines.create(name="gateway", continuous=True, catalog="Main", gateway_definition=GATEWAY)
    assert made.pipeline_id is not None
    return made.pipeline_id


def snapshot_events(client: WorkspaceClient, gateway: str) -> list[tuple[str, str, Any]]:
    """Update, status and percent of each progress of a snapshot, by SQL."""
    answer = client.statement_execution.execute_statement(
        f"SELECT origin.update_id, details FROM event_log(`{gateway}`) "
        "WHERE event_type = 'operation_progress' ORDER BY timestamp",
        WAREHOUSE,
    )
    assert answer.result is not None
    rows = [(row[0], json.loads(row[1])["operation_progress"]) for row in answer.result.data_array or []]
    return [(update, details["status"], details["progress_percent"]) for update, details in rows]


def test_a_snapshot_moves_on_by_chunks_with_the_clock_and_tells_the_event_log(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """Progress counts complete chunks, ends COMPLETED, and is in the log's table but not in the events API."""
    gateway = make_gateway(workspace, client, SourceTable(name="main.sales.orders", chunks=2, seconds_per_chunk=300))
    workspace.clock.sleep(HOUR)
    assert snapshot_events(client, gateway) == [
        ("update-0001", "STARTED", 0.0),
        ("update-0001", "IN_PROGRESS", 50.0),
        ("update-0001", "COMPLETED", 100.0),
    ]
    assert list(client.pipelines.list_pipeline_events(gateway)) == []


def test_replacing_a_gateways_settings_restarts_it_and_loses_the_snapshot(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """PUT cancels the update, begins one with cause SETTINGS_CHANGE, and the snapshot begins at zero."""
    gateway = make_gateway(workspace, client, SourceTable(name="main.sales.orders", chunks=48))
    workspace.clock.sleep(24 * HOUR)
    client.pipelines.update(
        gateway, name="gateway", continuous=True, catalog="Main", gateway_definition=GATEWAY, tags={"team": "a"}
    )
    workspace.clock.sleep(HOUR)
    updates = client.api_client.do("GET", f"/api/2.0/pipelines/{gateway}/updates")
    assert isinstance(updates, dict)
    assert [(each["state"], each["cause"]) for each in updates["updates"]] == [
        ("RUNNING", "SETTINGS_CHANGE"),
        ("CANCELED", "USER_ACTION"),
    ]
    assert snapshot_events(client, gateway)[-1] == ("update-0002", "IN_PROGRESS", 100 / 48)


def test_a_finished_snapshot_outlives_a_restart(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """Only an unfinished snapshot is lost."""
    gateway = make_gateway(workspace, client, SourceTable(name="main.sales.small", chunks=1, seconds_per_chunk=60))
    workspace.clock.sleep(HOUR)
    before = snapshot_events(client, gateway)
    client.pipelines.update(gateway, name="gateway", continuous=True, catalog="main", gateway_definition=GATEWAY)
    workspace.clock.sleep(HOUR)
    assert snapshot_events(client, gateway) == before


def test_settings_come_back_in_the_services_spelling(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """Channel and edition are upper case, the catalog is lower case, and the service's own fields are present."""
    made = client.pipelines.create(name="p", channel="preview", edition="core", catalog="Main", schema="s")
    assert made.pipeline_id is not None
    spec = client.pipelines.get(made.pipeline_id).spec
    assert spec is not None
    assert (spec.channel, spec.edition, spec.catalog, spec.id) == ("PREVIEW", "CORE", "main", made.pipeline_id)
    assert workspace.pipeline("p").spec["pipeline_type"] == "WORKSPACE"


def test_settings_that_changed_since_they_were_read_are_not_replaced(client: WorkspaceClient) -> None:
    """`expected_last_modified` of an older reading is a conflict."""
    made = client.pipelines.create(name="p", catalog="main")
    assert made.pipeline_id is not None
    read = client.pipelines.get(made.pipeline_id).last_modified
    client.pipelines.update(made.pipeline_id, name="p", catalog="main", expected_last_modified=read)
    with pytest.raises(ResourceConflict):
        client.pipelines.update(made.pipeline_id, name="p", catalog="main", expected_last_modified=read)


def test_names_of_pipelines_are_taken_once_and_those_of_jobs_are_not(client: WorkspaceClient) -> None:
    """A second pipeline of a name is a conflict; a second job is another job."""
    client.pipelines.create(name="p", catalog="main")
    with pytest.raises(ResourceConflict):
        client.pipelines.create(name="p", catalog="main")
    assert client.jobs.create(name="j").job_id != client.jobs.create(name="j").job_id
    assert len(list(client.jobs.list(name="j"))) == 2


def test_an_update_runs_its_flows_and_ends(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """States and flows are events in order; a second update meanwhile is a conflict."""
    made = client.pipelines.create(name="p", catalog="main")
    assert made.pipeline_id is not None
    workspace.flows("p", ("main.s.a", 3))
    client.pipelines.start_update(made.pipeline_id, full_refresh_selection=["a"])
    with pytest.raises(ResourceConflict):
        client.pipelines.start_update(made.pipeline_id)
    workspace.clock.sleep(60)
    events = list(client.pipelines.list_pipeline_events(made.pipeline_id, order_by=["timestamp asc"]))
    assert [event.message for event in events] == [
        "Update is INITIALIZING.",
        "Update is SETTING_UP_TABLES.",
        "Update is RUNNING.",
        "Flow main.s.a is RUNNING.",
        "Flow main.s.a is COMPLETED.",
        "Update is COMPLETED.",
    ]


def test_files_need_their_folder_and_are_not_overwritten_unasked(client: WorkspaceClient) -> None:
    """Import into a missing folder is 404, a second import is a conflict, and an export returns the imported bytes."""
    content = base64.b64encode(b"x = 1\n").decode("ascii")
    with pytest.raises(NotFound):
        client.workspace.import_("/Workspace/Shared/a/b.py", content=content)
    client.workspace.mkdirs("/Workspace/Shared/a")
    client.workspace.import_("/Workspace/Shared/a/b.py", content=content)
    with pytest.raises(ResourceAlreadyExists):
        client.workspace.import_("/Workspace/Shared/a/b.py", content=content)
    assert client.workspace.export("/Workspace/Shared/a/b.py").content == content
    assert [each.path for each in client.workspace.list("/Shared/a")] == ["/Workspace/Shared/a/b.py"]


def test_schemas_volumes_and_grants_are_kept(client: WorkspaceClient) -> None:
    """Names are folded; a volume needs its schema; grants add and remove."""
    client.schemas.create("Staging", "main")
    assert client.schemas.get("main.staging").full_name == "main.staging"
    client.api_client.do(
        "PATCH",
        "/api/2.1/unity-catalog/permissions/schema/main.staging",
        body={"changes": [{"principal": "readers", "add": ["SELECT", "USE_SCHEMA"], "remove": ["MODIFY"]}]},
    )
    held = client.grants.get("schema", "main.staging").privilege_assignments
    assert held is not None
    assert [(each.principal, each.privileges) for each in held] == [
        ("readers", [Privilege.SELECT, Privilege.USE_SCHEMA])
    ]


def test_rows_go_into_tables_and_come_out_by_chunks(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """A result with more rows than one chunk has a next one; unsupported SQL fails as a statement."""
    sql = client.statement_execution
    sql.execute_statement("CREATE TABLE IF NOT EXISTS main.ops.d (a STRING)", WAREHOUSE)
    for _ in range(3):
        workspace.sql.tables["main.ops.d"] += [{"a": str(number)} for number in range(700)]
    answer = sql.execute_statement("SELECT a FROM main.ops.d", WAREHOUSE)
    assert answer.result is not None
    assert (len(answer.result.data_array or []), answer.result.next_chunk_index) == (1000, 1)
    assert answer.statement_id is not None
    assert len(sql.get_statement_result_chunk_n(answer.statement_id, 2).data_array or []) == 100
    failed = sql.execute_statement("DROP EVERYTHING", WAREHOUSE).status
    assert failed is not None
    assert failed.state is StatementState.FAILED


def test_faults_hit_as_often_as_they_were_told(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """The SDK waits for a 429 on the virtual clock; other faults reach the caller, then calls succeed again."""
    workspace.fail(throttled(path="/pipelines", times=2, retry_after_seconds=30))
    client.pipelines.create(name="p", catalog="main")
    assert workspace.clock.elapsed_seconds >= 60
    workspace.fail(Fault(path="scim", status=403, error_code="PERMISSION_DENIED"))
    with pytest.raises(PermissionDenied):
        client.current_user.me()
    assert client.current_user.me().user_name == "ada@example.com"


def test_a_lost_answer_leaves_its_effect(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """The call takes effect without an answer: the SDK's own retry meets that effect."""
    workspace.fail(lost_answer(method="POST", path="/jobs/create"))
    client.jobs.create(name="j")
    assert len(workspace.jobs.by_id) == 2


def test_a_token_that_expired_lets_nobody_in_and_stands_in_no_record(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """Calls return 401 from then on; the record of requests contains no token."""
    client.current_user.me()
    workspace.expire_token()
    with pytest.raises(Unauthenticated):
        client.current_user.me()
    assert TOKEN not in repr(workspace.requests)


def test_what_is_only_looked_up_is_listed_by_pages(workspace: StandInWorkspace, client: WorkspaceClient) -> None:
    """As the SDK reads it: warehouses, clusters, metastores."""
    for number in range(25):
        workspace.directory.add("warehouse", f"w{number}", f"id-{number}")
    for kind in ("cluster", "metastore"):
        workspace.directory.add(kind, "one", "id-1")
    assert [each.id for each in client.warehouses.list()] == [f"id-{number}" for number in range(25)]
    assert [(each.cluster_name, each.cluster_id) for each in client.clusters.list()] == [("one", "id-1")]
    assert [(each.name, each.metastore_id) for each in client.metastores.list()] == [("one", "id-1")]


def test_a_gateway_tells_its_progress_as_often_as_its_settings_say(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """Each ten minutes instead of each five."""
    workspace.source_tables("gateway", SourceTable(name="main.staging.orders"))
    setting = {"pipelines.gateway.progressEventEmitFrequencySeconds": "600"}
    made = client.pipelines.create(
        name="gateway", continuous=True, catalog="Main", gateway_definition=GATEWAY, configuration=setting
    )
    assert made.pipeline_id is not None
    workspace.clock.sleep(1800)
    assert len(snapshot_events(client, made.pipeline_id)) == 4


def gateway_job(client: WorkspaceClient, gateway: str) -> int:
    """A continuous job that runs a gateway; its id."""
    settings = {
        "name": "gateway job",
        "continuous": {"pause_status": "UNPAUSED"},
        "tasks": [{"task_key": "run", "pipeline_task": {"pipeline_id": gateway}}],
    }
    made = client.api_client.do("POST", "/api/2.2/jobs/create", body=settings)
    assert isinstance(made, dict)
    return int(made["job_id"])


@pytest.mark.parametrize("change", ["delete", "pause", "rename"])
def test_what_ends_the_run_of_a_gateways_job_ends_the_snapshot(
    workspace: StandInWorkspace, client: WorkspaceClient, change: str
) -> None:
    """A continuous job joins the gateway's update; if it is deleted, paused or reset, the update ends."""
    gateway = make_gateway(workspace, client, SourceTable(name="main.staging.orders", chunks=4))
    job_id = gateway_job(client, gateway)
    workspace.clock.sleep(2 * HOUR)
    assert [update.state for update in workspace.pipeline("gateway").updates] == ["RUNNING"]
    settings = workspace.jobs.by_id[job_id]["settings"]
    if change == "delete":
        client.api_client.do("POST", "/api/2.2/jobs/delete", body={"job_id": job_id})
    else:
        edit = {"name": "renamed"} if change == "rename" else {"continuous": {"pause_status": "PAUSED"}}
        new = {**settings, **edit}
        client.api_client.do("POST", "/api/2.2/jobs/reset", body={"job_id": job_id, "new_settings": new})
    workspace.clock.sleep(HOUR)
    updates = [(update.cause, update.state) for update in workspace.pipeline("gateway").updates]
    following = [("JOB_TASK", "RUNNING")] if change == "rename" else []
    assert updates == [("USER_ACTION", "CANCELED"), *following]
    assert workspace.pipeline("gateway").snapshots_done == set()
    runs = client.api_client.do("GET", "/api/2.2/jobs/runs/list", query={"job_id": job_id})
    assert isinstance(runs, dict)
    results = [run["state"].get("result_state", "RUNNING") for run in runs["runs"]]
    assert results == (["RUNNING", "CANCELED"] if change == "rename" else ["CANCELED"])


def test_a_job_runs_the_gateway_again_when_its_update_was_stopped(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """A continuous job always has a run: a stopped update starts again."""
    gateway = make_gateway(workspace, client, SourceTable(name="main.staging.orders", chunks=4))
    job_id = gateway_job(client, gateway)
    client.api_client.do("POST", f"/api/2.0/pipelines/{gateway}/stop")
    updates = [update.cause for update in workspace.pipeline("gateway").updates]
    assert updates == ["USER_ACTION", "JOB_TASK"]
    assert [run.job_id for run in workspace.jobs.runs.all] == [job_id, job_id]


def test_a_run_of_a_job_runs_its_pipelines_and_jobs_and_ends_with_them(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """In a for-each task, and through another job; changed settings of a non-continuous job do not end its run."""
    made = [client.pipelines.create(name=name, catalog="main").pipeline_id for name in ("one", "two")]
    inner_task = {"task_key": "b", "pipeline_task": {"pipeline_id": made[1]}}
    inner = client.api_client.do("POST", "/api/2.2/jobs/create", body={"name": "inner", "tasks": [inner_task]})
    assert isinstance(inner, dict)
    repeated = {"inputs": "[1]", "task": {"task_key": "a", "pipeline_task": {"pipeline_id": made[0]}}}
    tasks = [{"task_key": "each", "for_each_task": repeated}, {"task_key": "go", "run_job_task": inner}]
    outer = client.api_client.do("POST", "/api/2.2/jobs/create", body={"name": "outer", "tasks": tasks})
    assert isinstance(outer, dict)
    client.api_client.do("POST", "/api/2.2/jobs/run-now", body=outer)
    reset = {**outer, "new_settings": {"name": "renamed", "tasks": tasks}}
    client.api_client.do("POST", "/api/2.2/jobs/reset", body=reset)
    causes = [workspace.pipeline(name).updates[0].cause for name in ("one", "two")]
    assert (causes, [run.active for run in workspace.jobs.runs.all]) == (["JOB_TASK", "JOB_TASK"], [True, True])
    workspace.clock.sleep(HOUR)
    assert workspace.pipeline("one").active is None
    assert [run.info()["state"] for run in workspace.jobs.runs.all] == [
        {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS"}
    ] * 2


def test_a_result_over_25_mib_is_aborted_and_rows_are_counted(
    workspace: StandInWorkspace, client: WorkspaceClient
) -> None:
    """Rows are returned inline up to that size; the newest row of each key fits."""
    rows = [{"key": str(number % 2), "at": f"{number:03d}", "text": "x" * 100_000} for number in range(300)]
    workspace.sql.tables["main.ops.d"] = rows
    sql = client.statement_execution
    status = sql.execute_statement("SELECT key, text FROM main.ops.d", WAREHOUSE).status
    assert status is not None
    assert (status.state, workspace.sql.rows_sent) == (StatementState.FAILED, 0)
    answer = sql.execute_statement(
        "SELECT key, at, MIN(at) OVER (PARTITION BY key) AS first FROM main.ops.d WHERE key IN ('0', '1') "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY key ORDER BY key = '9' DESC, at DESC) = 1",
        WAREHOUSE,
    )
    assert answer.result is not None
    assert answer.result.data_array == [["0", "298", "000"], ["1", "299", "001"]]
    assert workspace.sql.rows_sent == 2
