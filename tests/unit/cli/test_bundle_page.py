"""docs/bundles.md is executed: each command against the stand-in, with the output on the page."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from framework.cli.bundle_surroundings import BundleSurroundings
from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.deploy.bundle.documents.bundle import Bundle
from framework.testing.workspace import SourceTable, StandInWorkspace, serve_workspace
from tests.support.ingestion_bundle import HOUR
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "bundles.md"
GATEWAY = "sales_gateway"
_STEP = re.compile(r"^<!-- (.+?) -->$|^```(console|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EDIT = re.compile(r'edit (\S+): (".*") => (".*")')


class Reader:
    """Executes the page from top to bottom, in a copy of the bundle."""

    def __init__(self, served: StandInWorkspace, folder: Path) -> None:
        self._served = served
        self._folder = folder
        self._code = 0
        bundles = BundleSurroundings(configure=lambda _: served.config(), clock=served.clock, build=self._build)
        self._around = Surroundings(clock=served.clock, bundles=bundles)

    def run(self, command: str) -> str:
        """Return the output of a command of a console block, both streams in order."""
        if command == "echo $?":
            return f"{self._code}\n"
        name, *arguments = shlex.split(command)
        assert name == "sluice"
        result = CliRunner().invoke(cli, arguments, obj=self._around)
        self._code = result.exit_code
        return result.output

    def take(self, step: str) -> None:
        """Execute a comment of the page that describes a change between its commands."""
        edit = _EDIT.fullmatch(step)
        word, *rest = step.split()
        if edit is not None:
            file = self._folder / edit[1]
            old, new = ast.literal_eval(edit[2]), ast.literal_eval(edit[3])
            text = file.read_text("utf-8")
            assert text.count(old) == 1, step
            file.write_text(text.replace(old, new), encoding="utf-8")
        elif word == "outside":
            self._served.pipeline(rest[0]).spec[rest[1]] = ast.literal_eval(rest[2])
        elif word == "hours":
            self._served.clock.sleep(float(rest[0]) * HOUR)
        else:
            assert word == "snapshot", step
            tables = zip(rest[::2], rest[1::2], strict=True)
            self._served.source_tables(GATEWAY, *(SourceTable(name=name, chunks=int(count)) for name, count in tables))

    def _build(self, bundle: Bundle) -> None:
        """The package of the bundle's artifacts, without pip."""
        for artifact in bundle.artifacts:
            (artifact.folder / "dist").mkdir(exist_ok=True)
            (artifact.folder / "dist" / "sluice-1-py3-none-any.whl").write_bytes(b"wheel")


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader with a workspace and a copy of this repository's bundle."""
    for name in ("bundles", "pipelines/flights"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "databricks.yml", tmp_path)
    monkeypatch.chdir(tmp_path)
    with serve_workspace() as served:
        yield Reader(served, tmp_path)


def test_the_page_is_what_happens(reader: Reader) -> None:
    """Every console block is executed from top to bottom; SLUICE_UPDATE_GOLDEN=1 rewrites the outputs."""
    page = PAGE.read_text("utf-8")

    def done(match: re.Match[str]) -> str:
        if match[1] is not None:
            reader.take(match[1])
        if match[2] != "console":
            return match[0]
        commands = [line for line in match[3].splitlines() if line.startswith("$ ")]
        blocks = (f"{line}\n{reader.run(line.removeprefix('$ '))}" for line in commands)
        return f"```console\n{''.join(re.sub(' +$', '', block, flags=re.MULTILINE) for block in blocks)}```"

    told = _STEP.sub(done, page)
    if os.environ.get("SLUICE_UPDATE_GOLDEN") == "1":
        PAGE.write_text(told, encoding="utf-8")
    assert told == page


def test_what_the_page_quotes_is_in_the_spec() -> None:
    """Each YAML block but the CI job, which `test_ci_job` runs, is a passage of the committed spec."""
    spec = (ROOT / "bundles/specs/sales.yml").read_text("utf-8")
    blocks = [match[3] for match in _STEP.finditer(PAGE.read_text("utf-8")) if match[2] == "yaml"]
    blocks = [block for block in blocks if "runs-on" not in block]
    assert len(blocks) == 2
    assert [block for block in blocks if block not in spec] == []


def test_the_page_has_no_code_that_is_not_run() -> None:
    """Blocks are console or YAML; no test would run a block of another kind."""
    fences = re.findall(r"^```(\w*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert set(fences) == {"console", "yaml", ""}
    assert fences.count("") == len(fences) - fences.count("")
