"""docs/testing.md is correct: its project is tested as printed; failures, YAML files and coverage look as it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.sources import ROOT

PAGE = (ROOT / "docs/testing.md").read_text("utf-8")
SLUICE = Path(sys.executable).with_name("sluice")

FAILING = """
import pytest


def test_rows_differ(pipeline):
    pipeline.given("data/orders", [{"id": 1, "customer": "Ada", "amount": 120}])
    pipeline.update("revenue")
    pipeline.expect("revenue", [("Ada", 121.0)])


def test_an_input_is_missing(pipeline):
    pipeline.update("revenue")


@pytest.mark.sluice_spec("../invalid/pipeline.yml", parameters={"shop.unused": "1"})
def test_invalid_definitions(pipeline):
    pipeline.update()


def test_time_and_crash(pipeline, clock, crash):
    clock.at("2026-01-01T12:00")
    pipeline.given("data/orders", [{"id": 1, "customer": "Ada", "amount": 120}])
    with crash.at("after-table-commit"):
        pipeline.update("orders")
    pipeline.update("orders")
    pipeline.expect("orders", [(1, "Ada", 120.0)])
"""
YAML = """tests:
  - name: rows of yaml differ
    model: ../transformations/shop.py
    callable: revenue
    given:
      - {table: orders, rows: [{id: 1, customer: Ada, amount: 120.0}]}
    expect:
      rows: [{revenue: 12.0}]
  - name: an error is expected
    model: revenue
    error: TEST_INPUT_NOT_GIVEN
"""
INVALID = "tests:\n  - name: bad\n    modell: revenue\n"
RECORDED = "tests/test_revenue_recorded.py"


def blocks(language: str) -> list[str]:
    """The blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Tested:
    """What `sluice test` printed for a project: its result, and pytest's output."""

    __test__ = False

    code: int
    result: dict[str, Any]
    output: str

    def outcome(self, name: str) -> tuple[str, str | None]:
        """The outcome of a test, and the condition of its error."""
        (found,) = [each for each in self.result["tests"] if each["test"].rpartition("::")[2] == name]
        return found["outcome"], found["condition"]


def sluice(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run([SLUICE, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Tested:
    """The project of the page with its tests, beside tests that fail."""
    folder = tmp_path_factory.mktemp("page")
    spec, yaml = blocks("yaml")
    first, module, more = blocks("python")
    write(
        folder,
        {
            "pipeline.yml": spec,
            "transformations/shop.py": module,
            "tests/test_revenue.py": f"{first}\n\n{more}",
            "tests/revenue.unit_tests.yml": yaml,
            "tests/test_failing.py": FAILING,
            "tests/failing.unit_tests.yml": YAML,
            "invalid/pipeline.yml": "name: invalid\nlibraries: [{file: {path: shop.py}}]\n",
            "invalid/shop.py": "from framework import pipelines as dp\n\n@dp.table(nam='x')\ndef t(): ...\n",
        },
    )
    done = sluice(folder, "test", "-o", "json", "--color=no", "-p", "no:cacheprovider")
    return Tested(done.returncode, json.loads(done.stdout or "{}"), done.stderr)


def test_the_tests_of_the_page_pass(tested: Tested) -> None:
    """In Python and in YAML; the page says what they cover."""
    names = re.findall(r"^def (test_\w+)", "".join(blocks("python")), re.MULTILINE)
    names.append(*re.findall(r"- name: (.*)", blocks("yaml")[1]))
    print(tested.output)  # noqa: T201 - of the failed test
    assert [tested.outcome(name) for name in names] == [("passed", None)] * 4


def test_failures_are_shown_as_sluice_prints_them(tested: Tested) -> None:
    """A difference, a missing input with its line, and invalid definitions: without frames of Sluice and Java."""
    assert tested.outcome("test_rows_differ") == ("failed", None)
    assert tested.outcome("test_an_input_is_missing") == ("failed", "PIPELINE_GRAPH_INVALID")
    assert tested.outcome("test_time_and_crash") == ("passed", None)
    assert tested.code == 2
    text = tested.output
    assert re.search(r"E +\[TEST_INPUT_NOT_GIVEN\] .*data/orders", text)
    assert re.search(r"E +at .*transformations/shop.py:8", text)
    assert "invalid/shop.py:3" in text
    assert not re.search(r"framework/\w+/|/pyspark/|py4j|\.java:", text)


def test_failures_of_yaml_name_the_line_of_the_statement(tested: Tested) -> None:
    """The line of `expect`, and the rows that differ."""
    assert tested.outcome("rows of yaml differ") == ("failed", None)
    assert tested.outcome("an error is expected") == ("passed", None)
    assert re.search(r"tests/failing.unit_tests.yml:7:\d+: expect", tested.output)


def test_what_is_covered_is_counted_over_all_tests(tested: Tested) -> None:
    """Every part of the page's pipeline is."""
    parts = [
        [each["is_covered"] for each in tested.result["coverage"][kind] if each["pipeline"] == "shop"]
        for kind in ("datasets", "flows", "expectations")
    ]
    counts = [f"{sum(covered)} of {len(covered)}" for covered in parts]
    line = next(each for each in blocks("text") if each.startswith("Covered"))
    assert re.findall(r"\d+ of \d+", line) == counts


def test_a_test_without_declarations_says_what_is_missing(tmp_path: Path) -> None:
    """The first step of the page, and a file in YAML with an unknown key."""
    write(tmp_path, {"pipeline.yml": blocks("yaml")[0], "tests/bad.unit_tests.yml": INVALID})
    done = sluice(tmp_path, "test", "--color=no", "-p", "no:cacheprovider")
    assert done.returncode == 2
    assert "[TEST_FILE_UNEXPECTED_KEY] A test has no key modell. Did you mean `model`?" in done.stderr
    assert f"at {tmp_path}/tests/bad.unit_tests.yml:3:5" in done.stderr
