"""`sluice bundle deploy` of an invalid bundle: one paragraph, exit code 2, and no write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.testing.workspace import StandInWorkspace, serve_workspace
from tests.support.bundle_cases import USER, BundleCase, load_case, read_bundle_cases

FILES = sorted((Path(__file__).parents[1] / "deploy" / "cases").glob("*.yml"))
FAULTS = {
    f"{path.stem}: {case.name}": case
    for path in FILES
    for case in read_bundle_cases(path)
    if case.error and case.user == USER and case.known is not None
}


@pytest.fixture(scope="module")
def served() -> Iterator[StandInWorkspace]:
    """One workspace for all: nothing may be written to it."""
    with serve_workspace() as workspace:
        yield workspace


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_a_fault_ends_the_deploy_before_it_writes(
    served: StandInWorkspace, case: BundleCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Condition, location and remedy are on standard error; standard output is empty, the workspace unchanged."""
    root = tmp_path / "bundle"
    root.mkdir()
    bundles = BundleSurroundings(
        load=lambda **_: load_case(case, root), configure=lambda _: served.config(), clock=served.clock
    )
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["bundle", "deploy"], obj=Surroundings(clock=served.clock, bundles=bundles))
    assert (result.exit_code, result.stdout) == (2, "")
    first, place, remedy = result.stderr.rstrip().splitlines()[-3:]
    assert first.startswith(f"[{case.error}] ")
    assert case.at in place
    assert remedy.startswith("  -> ")
    assert served.writes() == []
    beside = {(root / name).resolve() for name in case.files if name.startswith("../")}
    assert set(tmp_path.iterdir()) == {root, *beside}
