"""Packages: built before a deploy, uploaded, and named by jobs and pipelines with their workspace paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.deploy.bundle.documents.artifacts import build_artifacts
from framework.deploy.bundle.documents.bundle import Bundle
from framework.deploy.bundle.loading import load_bundle
from framework.deploy.plan.policy import ExitCode
from framework.foundation.errors import OperationError, UserError
from framework.testing.workspace import StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import USER, deployer_of

PLACE = "/Workspace/Shared/sales/artifacts/.internal"
TEXT = """\
bundle: {name: sales}
workspace: {root_path: /Workspace/Shared/sales}
artifacts:
  lib: {type: whl, path: lib, build: "BUILD"}
sync: {exclude: ["*"]}
resources:
  pipelines: {p: {environment: {dependencies: ["./lib/dist/*.whl", requests]}}}
  jobs:
    j:
      tasks: [{task_key: t, libraries: [{whl: ./lib/dist/*.whl}]}]
      environments: [{environment_key: e, spec: {dependencies: ["./lib/dist/*.whl"]}}]
"""


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def loaded(folder: Path, build: str = "mkdir -p dist && echo one > dist/lib-1.whl") -> Bundle:
    """The bundle, whose library is built by that."""
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "databricks.yml").write_text(TEXT.replace("BUILD", build), encoding="utf-8")
    return load_bundle(folder, user=USER)


def deploy(served: StandInWorkspace, bundle: Bundle) -> ExitCode:
    """Build and deploy, as the command does."""
    build_artifacts(bundle.artifacts, environment={"PATH": "/usr/bin:/bin"})
    return deployer_of(served, bundle, table=None).deploy().exit_code


def dependencies(served: StandInWorkspace) -> list[str]:
    """Return the dependencies of the pipeline."""
    found: list[str] = served.pipeline("p").spec["environment"]["dependencies"]
    return found


def test_a_wheel_is_built_uploaded_and_named(served: StandInWorkspace, tmp_path: Path) -> None:
    """The pipeline, a task's libraries and a job's environment name it; a second deploy writes nothing."""
    assert deploy(served, loaded(tmp_path)) is ExitCode.CLEAN
    wheel = f"{PLACE}/lib-1.whl"
    assert served.files.files[wheel] == b"one\n"
    assert dependencies(served) == [wheel, "requests"]
    (job,) = served.jobs.by_id.values()
    assert job["settings"]["tasks"][0]["libraries"] == [{"whl": wheel}]
    assert job["settings"]["environments"][0]["spec"]["dependencies"] == [wheel]
    served.forget_requests()
    assert deploy(served, loaded(tmp_path)) is ExitCode.CLEAN
    assert served.writes() == []


def test_a_pattern_stands_for_each_file_that_matches(served: StandInWorkspace, tmp_path: Path) -> None:
    """Two wheels become two entries, by name."""
    deploy(served, loaded(tmp_path, "mkdir -p dist && echo 1 > dist/b.whl && echo 2 > dist/a.whl"))
    assert dependencies(served) == [f"{PLACE}/a.whl", f"{PLACE}/b.whl", "requests"]


def test_a_wheel_that_only_holds_something_else_is_only_uploaded(served: StandInWorkspace, tmp_path: Path) -> None:
    """Its name is the same, so no pipeline is written."""
    deploy(served, loaded(tmp_path))
    served.forget_requests()
    deploy(served, loaded(tmp_path, "echo two > dist/lib-1.whl"))
    assert served.files.files[f"{PLACE}/lib-1.whl"] == b"two\n"
    assert served.writes("/pipelines") + served.writes("/jobs") == []


def test_a_new_version_takes_the_place_of_the_old_one(served: StandInWorkspace, tmp_path: Path) -> None:
    """The pipeline names the new wheel, and the old one is deleted from the workspace."""
    deploy(served, loaded(tmp_path))
    deploy(served, loaded(tmp_path, "rm dist/* && echo two > dist/lib-2.whl"))
    assert dependencies(served) == [f"{PLACE}/lib-2.whl", "requests"]
    assert [path for path in served.files.files if path.startswith(PLACE)] == [f"{PLACE}/lib-2.whl"]


def test_a_build_that_fails_tells_its_last_lines_and_nothing_is_deployed(
    served: StandInWorkspace, tmp_path: Path
) -> None:
    """The error has the last twenty of thirty lines, the exit code and the artifact's location; there is no call."""
    bundle = loaded(tmp_path, "for n in $(seq 30); do echo line $n; done; exit 3")
    with pytest.raises(OperationError) as caught:
        deploy(served, bundle)
    text = caught.value.render()
    assert caught.value.condition == "BUNDLE_BUILD_FAILED"
    assert str(caught.value.location) == "databricks.yml:4:8"
    assert "exit code 3" in text
    assert [line for line in text.splitlines() if "    line " in line] == [f"    line {n}" for n in range(11, 31)]
    assert served.requests == []


def test_each_line_of_a_build_counts(tmp_path: Path) -> None:
    """A command that fails in the middle is not made good by one that follows."""
    bundle = loaded(tmp_path, "false\\ntouch done")
    with pytest.raises(OperationError):
        build_artifacts(bundle.artifacts, environment={"PATH": "/usr/bin:/bin"})
    assert not (tmp_path / "lib" / "done").exists()


def test_a_build_does_not_see_the_workspaces_secrets(tmp_path: Path) -> None:
    """Its output may be published, so it sees only the host."""
    environment = {"PATH": "/usr/bin:/bin", "DATABRICKS_TOKEN": "s1", "ARM_CLIENT_SECRET": "s2", "DATABRICKS_HOST": "h"}
    bundle = loaded(tmp_path, "mkdir dist; env > dist/seen")
    build_artifacts(bundle.artifacts, environment=environment)
    seen = (tmp_path / "lib" / "dist" / "seen").read_text("utf-8")
    assert ("s1" in seen, "s2" in seen, "DATABRICKS_HOST=h" in seen) == (False, False, True)


def test_a_package_that_nobody_built_is_an_error_of_the_deploy_only(served: StandInWorkspace, tmp_path: Path) -> None:
    """A plan lists the package; a deploy without the file makes no call."""
    deployer = deployer_of(served, loaded(tmp_path), table=None)
    spec = deployer.plan().changes[0].spec
    assert spec is not None
    assert spec.as_dict()["environment"]["dependencies"][0] == f"{PLACE}/*.whl"
    served.forget_requests()
    with pytest.raises(UserError) as caught:
        deployer.deploy()
    assert (caught.value.condition, str(caught.value.location)) == ("BUNDLE_PACKAGE_MISSING", "databricks.yml:7:18")
    assert served.requests == []


def test_a_package_that_is_a_link_out_of_the_bundle_is_refused(served: StandInWorkspace, tmp_path: Path) -> None:
    """It is not a file of the bundle, whatever its name is."""
    secret = tmp_path / "secret"
    secret.write_text("s", encoding="utf-8")
    root = tmp_path / "bundle"
    root.mkdir()
    bundle = loaded(root, f"mkdir -p dist && ln -sf {secret} dist/lib-1.whl")
    with pytest.raises(UserError) as caught:
        deploy(served, bundle)
    assert (caught.value.condition, served.writes()) == ("DEPLOY_FILE_OUTSIDE", [])


def test_a_wheels_folder_with_a_setup_is_built_by_it(tmp_path: Path) -> None:
    """This is the default without a build command; other folders are used unchanged."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "setup.py").touch()
    text = "bundle: {name: s}\nartifacts: {a: {type: whl, path: a}, b: {type: whl}, c: {path: a}}\n"
    (tmp_path / "databricks.yml").write_text(text, encoding="utf-8")
    found = {each.name: each.build for each in load_bundle(tmp_path, user=USER).artifacts}
    assert found == {"a": "python3 setup.py bdist_wheel", "b": None, "c": None}


def test_what_a_failed_build_says_has_no_secrets(tmp_path: Path) -> None:
    """The last lines go into logs of a pipeline of CI."""
    with pytest.raises(OperationError) as error:
        build_artifacts(loaded(tmp_path, "echo token=hunter2hunter2; exit 1").artifacts, environment={"PATH": "/bin"})
    told = error.value.render()
    assert ("hunter2" in told, "token=hidden:" in told) == (False, True)
