"""This repository's own bundle, from its files to a workspace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from framework.deploy.decisions import ExitCode
from framework.deploy.loading import load_bundle
from framework.testing.workspace import serve_workspace
from tests.support.ingestion_bundle import USER, deployer_of

ROOT = Path(__file__).parents[3]


def test_it_deploys_to_prod_once_and_then_has_nothing_to_do(tmp_path: Path) -> None:
    """The pipeline, its package and its job are made, the job runs that pipeline, a second deploy writes nothing."""
    loaded = load_bundle(ROOT, target="prod", user=USER)
    assert {"databricks.yml", "pipelines/flights/pipeline.yml"} <= set(loaded.sync)
    for name in ("databricks.yml", "bundles/flights.yml", "dist/sluice-1-py3-none-any.whl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes() if name.endswith(".yml") else b"wheel")
    bundle = replace(loaded, root=tmp_path, sync=("databricks.yml", "bundles/flights.yml"))
    with serve_workspace() as served:
        assert deployer_of(served, bundle, table=None).deploy().exit_code is ExitCode.CLEAN
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
