"""Variables with a `lookup` in a workspace, over HTTP to the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.deploy.api.lookups import LOOKUP_KINDS, workspace_lookup
from framework.deploy.api.workspace import Workspace
from framework.deploy.bundle.loading import load_bundle
from framework.foundation.errors import OperationError, UserError
from framework.testing.workspace import Fault, StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import USER


@pytest.fixture
def served() -> Iterator[StandInWorkspace]:
    """A separate workspace for the test."""
    with serve_workspace() as workspace:
        yield workspace


def looked_up(served: StandInWorkspace, folder: Path, lookup: str, *, uses: str = "${var.v}") -> object:
    """The value of a variable with a lookup."""
    text = (
        "bundle: {name: sales}\n"
        f"variables: {{v: {{lookup: {{{lookup}}}}}}}\n"
        f"resources: {{jobs: {{j: {{name: j, tags: {{v: '{uses}'}}}}}}}}\n"
    )
    (folder / "databricks.yml").write_text(text, encoding="utf-8")
    workspace = Workspace(served.config(), clock=served.clock)
    (job,) = load_bundle(folder, user=USER, look_up=workspace_lookup(workspace)).resources
    return job.spec.as_dict()["tags"]["v"]


@pytest.mark.parametrize("kind", sorted({*LOOKUP_KINDS} - {"job", "pipeline"}))
def test_each_kind_is_found_on_whichever_page_it_stands(served: StandInWorkspace, tmp_path: Path, kind: str) -> None:
    """It is found by its full name, among others with the same prefix."""
    for number in range(30):
        served.directory.add(kind, f"shared {number}", f"other-{number}")
    served.directory.add(kind, "shared", "the-one")
    assert looked_up(served, tmp_path, f"{kind}: shared") == "the-one"


def test_jobs_and_pipelines_are_found_by_their_whole_name(served: StandInWorkspace, tmp_path: Path) -> None:
    """The service narrows both, and neither exactly: we do."""
    client = served.client()
    for name in ("nightly flights", "nightly", "Nightly"):
        client.jobs.create(name=name)
        client.pipelines.create(name=name)
    (job,) = [str(key) for key, each in served.jobs.by_id.items() if each["settings"]["name"] == "nightly"]
    assert looked_up(served, tmp_path, "job: nightly") == job
    assert looked_up(served, tmp_path, "pipeline: nightly") == served.pipeline("nightly").pipeline_id


def test_a_name_with_signs_of_the_filter_is_only_a_name(served: StandInWorkspace, tmp_path: Path) -> None:
    """No quote gets into the service's filter, nor does a wildcard."""
    client = served.client()
    client.pipelines.create(name="ada's 100%")
    assert looked_up(served, tmp_path, 'pipeline: "ada\'s 100%"') == served.pipeline("ada's 100%").pipeline_id
    (call,) = [each for each in served.requests if each.method == "GET" and each.path.endswith("/pipelines")]
    assert "filter" not in call.query


def test_none_and_two_are_errors_with_their_place(served: StandInWorkspace, tmp_path: Path) -> None:
    """Both are errors; the second lists the ids."""
    with pytest.raises(UserError) as nothing:
        looked_up(served, tmp_path, "warehouse: shared")
    for number in (1, 2):
        served.directory.add("warehouse", "shared", f"id-{number}")
    with pytest.raises(UserError) as two:
        looked_up(served, tmp_path, "warehouse: shared")
    assert [error.value.condition for error in (nothing, two)] == ["BUNDLE_LOOKUP_NOTHING", "BUNDLE_LOOKUP_AMBIGUOUS"]
    assert [str(error.value.location) for error in (nothing, two)] == ["databricks.yml:2:37"] * 2
    assert "id-1, id-2" in two.value.render()


def test_the_workspace_is_asked_once_and_only_for_what_is_referred_to(served: StandInWorkspace, tmp_path: Path) -> None:
    """An unused lookup makes no call; one that two variables use makes one."""
    served.directory.add("warehouse", "shared", "w-1")
    assert looked_up(served, tmp_path, "warehouse: shared", uses="none") == "none"
    assert served.calls("/sql/warehouses") == []
    assert looked_up(served, tmp_path, "warehouse: shared", uses="${var.v} ${variables.v.value}") == "w-1 w-1"
    assert len(served.calls("/sql/warehouses")) == 1


def test_a_listing_that_is_forbidden_says_so(served: StandInWorkspace, tmp_path: Path) -> None:
    """A missing permission differs from an empty result."""
    served.fail(Fault(path="/sql/warehouses", status=403, error_code="PERMISSION_DENIED"))
    with pytest.raises(OperationError) as caught:
        looked_up(served, tmp_path, "warehouse: shared")
    assert caught.value.condition == "WORKSPACE_FORBIDDEN"
