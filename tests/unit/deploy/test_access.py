"""The bundle's own permissions and identity, as they arrive in the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.loading import load_bundle
from framework.testing.workspace import StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import USER, deployer_of

TEXT = """\
bundle: {name: sales}
workspace: {root_path: /Workspace/Shared/sales}
sync: {exclude: ["*"]}
permissions: [{group_name: ops, level: CAN_RUN}, {user_name: ada@example.com, level: CAN_MANAGE}]
run_as: {service_principal_name: SP}
resources: {pipelines: {p: {}}, jobs: {j: {}, k: {run_as: {user_name: bob@example.com}}}}
"""


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def loaded(folder: Path, principal: str = "sp-1") -> Bundle:
    """The bundle, run as that service principal."""
    (folder / "databricks.yml").write_text(TEXT.replace("SP", principal), encoding="utf-8")
    return load_bundle(folder, user=USER)


def identities(served: StandInWorkspace) -> list[str]:
    """Who the pipeline and the jobs run as."""
    return [served.pipeline("p").run_as, *(job["run_as_user_name"] for job in served.jobs.by_id.values())]


def test_jobs_and_pipelines_get_them_and_a_second_deploy_writes_nothing(
    served: StandInWorkspace, tmp_path: Path
) -> None:
    """Each level has the name of its kind; the deploying user owns without an entry; reads omit `run_as`."""
    deployer_of(served, loaded(tmp_path), table=None).deploy()
    assert identities(served) == ["sp-1", "sp-1", "bob@example.com"]
    owner = {"user_name": USER, "permission_level": "IS_OWNER"}
    run = {"pipelines": "CAN_RUN", "jobs": "CAN_MANAGE_RUN"}
    assert len(served.permissions.lists) == 3
    for (kind, _), entries in served.permissions.lists.items():
        assert entries == [{"group_name": "ops", "permission_level": run[kind]}, owner]
    served.forget_requests()
    deployer_of(served, loaded(tmp_path), table=None).deploy()
    assert served.writes() == []


def test_another_identity_is_a_change_of_those_that_take_it(served: StandInWorkspace, tmp_path: Path) -> None:
    """One write each for the pipeline and the job; the job with its own identity is left alone."""
    deployer_of(served, loaded(tmp_path), table=None).deploy()
    served.forget_requests()
    deployer_of(served, loaded(tmp_path, "sp-2"), table=None).deploy()
    assert identities(served) == ["sp-2", "sp-2", "bob@example.com"]
    assert [len(served.writes("2.0/pipelines/")), len(served.writes("/jobs/reset"))] == [1, 1]


def test_an_owner_that_is_named_stays_the_owner(served: StandInWorkspace, tmp_path: Path) -> None:
    """The deploying user is then not an owner."""
    text = (
        "bundle: {name: sales}\nworkspace: {root_path: /Workspace/Shared/sales}\nsync: {exclude: ['*']}\n"
        "resources: {jobs: {j: {permissions: [{user_name: bob@example.com, level: IS_OWNER}]}}}\n"
    )
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    deployer_of(served, load_bundle(tmp_path, user=USER), table=None).deploy()
    (entries,) = served.permissions.lists.values()
    assert entries == [{"user_name": "bob@example.com", "permission_level": "IS_OWNER"}]
