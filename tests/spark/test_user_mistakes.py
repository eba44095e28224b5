"""No user mistake ends in INTERNAL_ERROR: a table of modules, specs and commands, and their errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner

from framework.cli.call import Surroundings
from framework.cli.main import cli
from framework.operations.pipeline_port import PipelinePort
from framework.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = yaml.safe_load(Path(__file__).with_name("user_mistakes.yml").read_text("utf-8"))
HEAD = "from framework import pipelines as dp\nfrom pyspark.sql import functions as F\n"
CONDITION = re.compile(r"^\[([A-Z][\w.]+)\] ", re.MULTILINE)

Sluice = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def sluice(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Sluice:
    """Calls `sluice` in a folder, on the tests' session: returns exit code, conditions, and the output."""

    def open_here(
        spec: Path,
        *,
        local: Path | None,
        master: str | None,
        parameters: Mapping[str, str],
        short: bool | None,
        verbose: bool,
        cold: bool,
    ) -> PipelinePort:
        del master, short, verbose, cold
        return Pipeline.from_spec(spec, local=local, parameters=parameters, spark=spark)

    def call(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
        monkeypatch.chdir(folder)
        result = CliRunner().invoke(cli, list(arguments), obj=Surroundings(open_pipeline=open_here))
        found = [each for each in CONDITION.findall(result.stderr) if each != "PIPELINE_GRAPH_INVALID"]
        return result.exit_code, found, result.output

    return call


def project(folder: Path, *, module: str | None = None, spec: str | None = None) -> Path:
    """A project with one module, and a given or the default spec."""
    folder.mkdir()
    text = "name: p\nlibraries:\n  - glob: {include: t/**}\n"
    (folder / "pipeline.yml").write_text(text if spec is None else spec, "utf-8")
    (folder / "t").mkdir()
    if module is not None:
        (folder / "t" / "m.py").write_text(HEAD + module, "utf-8")
    return folder


def test_every_faulty_module_is_told_what_is_wrong_with_it(sluice: Sluice, tmp_path: Path) -> None:
    """Wrong arguments, return values and names, exceptions of any kind; all faults of a module at once."""
    found = {}
    for name, case in CASES["modules"].items():
        code, conditions, said = sluice(project(tmp_path / name, module=case["module"]), "validate")
        found[name] = conditions
        assert code == 2, said
        for text in case.get("says", ()):
            assert text in said
    assert found == {name: case["conditions"] for name, case in CASES["modules"].items()}


def test_every_faulty_spec_is_told_what_is_wrong_with_it(sluice: Sluice, tmp_path: Path) -> None:
    """Broken YAML, values of wrong types, invalid names, storages that can't be written."""
    found = {}
    for name, case in CASES["specs"].items():
        folder = project(tmp_path / name, module=CASES["sound"], spec=case["spec"])
        (folder / "a_file").touch()
        _, conditions, _ = sluice(folder, "run")
        found[name] = conditions
    assert found == {name: [case["condition"]] for name, case in CASES["specs"].items()}


def test_every_faulty_command_is_told_what_is_wrong_with_it(sluice: Sluice, tmp_path: Path) -> None:
    """Unknown names are no faults of the pipeline; queries are judged in Spark's words."""
    folder = project(tmp_path / "p", module=CASES["sound"])
    found = {}
    for case in CASES["commands"]:
        code, conditions, said = sluice(folder, *case["command"])
        found[" ".join(case["command"])] = [code, *conditions]
        for text in case.get("says", ()):
            assert text in said
    assert found == {" ".join(case["command"]): [case["code"], *case["conditions"]] for case in CASES["commands"]}


def test_every_damaged_file_is_named(sluice: Sluice, tmp_path: Path) -> None:
    """Damaged or replaced files of Sluice fail the commands that need them with exit code 1, and their path."""
    found = {}
    for name, case in CASES["damage"].items():
        folder = project(tmp_path / name, module=CASES["sound"])
        assert sluice(folder, "run")[0] == 0
        for file in Path(folder, ".sluice", "p").glob(case["files"]):
            file.write_text("garbage{", "utf-8")
        code, conditions, _ = sluice(folder, "run")
        found[name] = [code, *conditions]
    assert found == {name: [case["code"], *case["conditions"]] for name, case in CASES["damage"].items()}
