"""This repository's own bundle, from its files to a workspace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.catalog import VolumeInfo
from databricks.sdk.service.jobs import JobSettings
from databricks.sdk.service.pipelines import PipelineSpec

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.loading import load_bundle
from framework.deploy.plan.planner import is_gateway
from framework.deploy.plan.policy import ExitCode
from framework.testing.workspace import SourceTable, StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import HOUR, USER, deployer_of

ROOT = Path(__file__).parents[3]
INGESTION = ("ingestion", "ingestion_dev")
TRANSFORMATION = ("dev", "prod")
GATEWAY = "sales_gateway"


FILES = ("databricks.yml", "bundles/flights.yml")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A folder with a few of the bundle's files and a built package."""
    for name in (*FILES, "dist/sluice-1-py3-none-any.whl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes() if name in FILES else b"wheel")
    return tmp_path


def load(target: str, root: Path = ROOT, **variables: str) -> Bundle:
    """A target of the bundle, but few of its files to upload."""
    loaded = load_bundle(ROOT, target=target, user=USER, variables=variables)
    return replace(loaded, root=root, sync=tuple(path for path in loaded.sync if path in FILES))


def specs(target: str) -> dict[str, dict[str, Any]]:
    """The settings of a target's resources."""
    return {resource.key: resource.spec.as_dict() for resource in load(target).resources}


def deploy(served: StandInWorkspace, bundle: Bundle) -> ExitCode:
    """Deploy, and return the result."""
    return deployer_of(served, bundle, table=None).deploy().exit_code


def calls_about(served: StandInWorkspace, pipeline_id: str) -> list[str]:
    """All calls so far that name a pipeline, reads too."""
    return [f"{each.method} {each.path}" for each in served.requests if pipeline_id in each.path]


def test_it_deploys_to_prod_once_and_then_has_nothing_to_do(built: Path) -> None:
    """The pipeline, its package and its job are created, the job runs the pipeline, a second deploy writes nothing."""
    assert {"databricks.yml", "pipelines/flights/pipeline.yml"} <= set(load_bundle(ROOT, target="prod", user=USER).sync)
    bundle = load("prod", built)
    with serve_workspace() as served:
        assert deploy(served, bundle) is ExitCode.CLEAN
        flights = served.pipeline("flights")
        assert flights.spec["root_path"] == "/Workspace/Shared/.bundle/sluice/prod/files/pipelines/flights"
        wheel = "/Workspace/Shared/.bundle/sluice/prod/artifacts/.internal/sluice-1-py3-none-any.whl"
        assert flights.spec["environment"]["dependencies"] == [wheel]
        assert served.files.files[wheel] == b"wheel"
        (job,) = served.jobs.by_id.values()
        assert job["settings"]["tasks"][0]["pipeline_task"]["pipeline_id"] == flights.pipeline_id
        before = len(served.writes())
        result = deployer_of(served, bundle, table=None).deploy()
        assert (result.exit_code, result.plan.acts, served.writes()[before:]) == (ExitCode.CLEAN, False, [])


@pytest.mark.parametrize("target", INGESTION)
def test_ingestion_deploys_once_and_then_has_nothing_to_do(target: str) -> None:
    """Schemas, volume, gateway, ingestion pipeline and jobs; ids and names resolved; then no write at all."""
    suffix = target.removeprefix("ingestion")
    with serve_workspace() as served:
        assert deploy(served, load(target)) is ExitCode.CLEAN
        gateway, ingestion = served.pipeline(f"sales_gateway{suffix}"), served.pipeline(f"sales_ingestion{suffix}")
        assert (gateway.is_gateway, gateway.spec["continuous"]) == (True, True)
        assert gateway.spec["gateway_definition"]["gateway_storage_schema"] == f"sales{suffix}_staging"
        logs = gateway.spec["clusters"][0]["cluster_log_conf"]["volumes"]["destination"]
        assert logs == f"/Volumes/main/sales{suffix}_staging/gateway_logs"
        assert ingestion.spec["ingestion_definition"]["ingestion_gateway_id"] == gateway.pipeline_id
        assert set(served.catalog.volumes) == {f"main.sales{suffix}_staging.gateway_logs"}
        runs = {
            job["settings"]["name"]: job["settings"]["tasks"][0]["pipeline_task"]["pipeline_id"]
            for job in served.jobs.by_id.values()
        }
        hourly = {} if suffix else {"sales_hourly": ingestion.pipeline_id}
        assert runs == {
            f"sales_gateway{suffix}": gateway.pipeline_id, f"sales_nightly{suffix}": ingestion.pipeline_id, **hourly,
        }  # fmt: skip
        before = len(served.writes())
        assert deploy(served, load(target)) is ExitCode.CLEAN
        assert served.writes()[before:] == []


def test_ingestion_and_transformation_share_nothing() -> None:
    """Each target has its own root path, state and lock, and only ingestion targets have a gateway."""
    bundles = [load(target) for target in (*INGESTION, *TRANSFORMATION)]
    assert len({bundle.root_path for bundle in bundles}) == len(bundles)
    assert len({bundle.state_path for bundle in bundles}) == len(bundles)
    gateways = {
        bundle.target: [each.key for each in bundle.resources if is_gateway(each.spec.as_dict())] for bundle in bundles
    }
    own = ["pipelines.sales_gateway"]
    assert gateways == {"ingestion": own, "ingestion_dev": own, "dev": [], "prod": []}
    assert {each.key for each in load("prod").resources} == {"pipelines.flights", "jobs.flights"}
    assert "pipelines.flights" not in specs("ingestion")
    names = [{spec["name"] for key, spec in specs(target).items() if key.startswith("pip")} for target in INGESTION]
    assert names[0] & names[1] == set()


def test_no_code_is_uploaded_with_ingestion() -> None:
    """Only the rendered files are uploaded, so a changed pipeline changes nothing there; no package is built."""
    bundle = load_bundle(ROOT, target="ingestion", user=USER)
    assert (bundle.sync, bundle.artifacts) == (("bundles/rendered/sales.yml",), ())
    assert [artifact.name for artifact in load_bundle(ROOT, target="prod", user=USER).artifacts] == ["sluice"]


def test_what_lasts_cannot_be_destroyed_in_production() -> None:
    """Gateway, ingestion pipeline, schemas and volume have prevent_destroy; in the dev target none has."""
    kept = {
        target: {each.key for each in load(target).resources if each.prevent_destroy and each.kind != "jobs"}
        for target in INGESTION
    }
    assert kept["ingestion"] == {key for key in specs("ingestion") if not key.startswith("jobs.")}
    assert kept["ingestion_dev"] == set()


def test_each_schedule_is_a_job_and_the_gateways_is_continuous() -> None:
    """Crons, tables and retries are those of the spec; the gateway's job has no schedule and no retries of its task."""
    jobs = {key: spec for key, spec in specs("ingestion").items() if key.startswith("jobs.")}
    assert set(jobs) == {"jobs.sales_gateway", "jobs.sales_hourly", "jobs.sales_nightly"}
    assert jobs["jobs.sales_gateway"]["continuous"]["pause_status"] == "UNPAUSED"
    assert "max_retries" not in jobs["jobs.sales_gateway"]["tasks"][0]
    nightly = jobs["jobs.sales_nightly"]
    assert (nightly["schedule"]["quartz_cron_expression"], nightly["schedule"]["timezone_id"]) == (
        "0 0 3 * * ?",
        "Europe/Berlin",
    )
    (task,) = nightly["tasks"]
    assert (task["max_retries"], task["min_retry_interval_millis"], task["timeout_seconds"]) == (4, 900_000, 14_400)
    assert task["pipeline_task"]["refresh_selection"] == [
        "main.sales.prices", "main.sales.customers", "main.sales.consents",
    ]  # fmt: skip
    paused = [spec["schedule"]["pause_status"] for spec in specs("ingestion_dev").values() if "schedule" in spec]
    assert paused == ["PAUSED"]


def test_no_deploy_of_prod_calls_a_gateway_even_in_its_snapshot(built: Path) -> None:
    """No call of any kind names it, whether prod is made, changed or destroyed."""
    with serve_workspace() as served:
        served.source_tables(GATEWAY, SourceTable(name="main.sales.orders", chunks=48))
        deploy(served, load("ingestion"))
        gateway = served.pipeline(GATEWAY)
        served.clock.sleep(24 * HOUR)
        served.forget_requests()
        assert deploy(served, load("prod", built)) is ExitCode.CLEAN
        assert deploy(served, load("prod", built, flights_data="/elsewhere")) is ExitCode.CLEAN
        assert served.pipeline("flights").spec["configuration"] == {"flights.data": "/elsewhere"}
        assert deploy(served, load("dev", built)) is ExitCode.CLEAN
        assert calls_about(served, gateway.pipeline_id) == []
        assert (len(gateway.updates), gateway.updates[0].active) == (1, True)


def test_the_service_knows_every_field_of_ingestion() -> None:
    """Each field is one of the SDK's and of its type, so none is dropped silently."""
    for key, spec in specs("ingestion").items():
        settings = {name: value for name, value in spec.items() if name != "lifecycle"}
        if key.startswith("pipelines."):
            assert PipelineSpec.from_dict(settings).as_dict() == settings
        elif key.startswith("jobs."):
            assert JobSettings.from_dict(settings).as_dict() == settings
        elif key.startswith("volumes."):
            assert VolumeInfo.from_dict(settings).as_dict() == settings
