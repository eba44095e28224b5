"""`run_tests` runs pytest, and its exit codes are those of Sluice; no test here needs Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from framework.operations import testing
from framework.operations.testing import TestRequest, run_tests
from framework.views.testing import Part, TestCoverage, TestedPart, coverage_text, run_json, uncovered_table

TESTS = """
from framework.foundation.errors import GraphErrors, UserError

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_definitions(): raise GraphErrors([UserError("INVALID_NAME", name="a b")])
"""


@pytest.mark.parametrize(
    ("selection", "code", "outcomes"),
    [
        (("-k", "passes"), 0, [("test_passes", "passed", None)]),
        (("-k", "passes or fails"), 1, [("test_passes", "passed", None), ("test_fails", "failed", None)]),
        (("-k", "definitions"), 2, [("test_definitions", "failed", "PIPELINE_GRAPH_INVALID")]),
        (("--no-such-option",), 2, []),
    ],
)
def test_the_exit_code_says_whose_fault_it_is(
    tmp_path: Path, selection: tuple[str, ...], code: int, outcomes: list[tuple[str, str, str | None]]
) -> None:
    """A failed test is 1; invalid definitions and an invalid call are 2, as of every command."""
    (tmp_path / "test_some.py").write_text(TESTS, "utf-8")
    run = run_tests(TestRequest(arguments=(*selection, "-p", "no:cacheprovider", "-q", str(tmp_path / "test_some.py"))))
    found = [(each.test.rpartition("::")[2], each.outcome, each.condition) for each in run.outcomes]
    assert (run.exit_code, found) == (code, outcomes)


def test_a_run_without_tests_is_an_error(tmp_path: Path) -> None:
    """A CI job that runs no test does not pass."""
    with pytest.raises(UserError) as caught:
        run_tests(TestRequest(arguments=("-p", "no:cacheprovider", "-q", str(tmp_path))))
    assert caught.value.condition == "TESTS_NOT_FOUND"


@pytest.mark.parametrize(("missing", "package"), [("pytest", "pytest"), ("xdist", "pytest-xdist")])
def test_a_missing_package_is_named_with_its_installation(missing: str, package: str, swap: pytest.MonkeyPatch) -> None:
    """Xdist is needed for several processes only."""
    swap.setattr(testing, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(UserError) as caught:
        run_tests(TestRequest(workers="2"))
    assert (caught.value.fields["package"], caught.value.remedy) == (
        package,
        "Install it with `pip install 'sluice-spark[test]'`.",
    )


def part(kind: Part, name: str, *, updated: bool = False, covered: bool = False) -> TestedPart:
    """A part of the pipeline `shop`."""
    return TestedPart(
        pipeline="shop", part=kind, name=name, dataset="main.shop.orders", location="shop.py:3", is_updated=updated,
        is_covered=covered,
    )  # fmt: skip


def test_what_two_tests_cover_is_counted_once() -> None:
    """A part is covered if one test covers it; what no test covers is listed with its reason and its line."""
    coverage = TestCoverage.of(
        [
            part(Part.EXPECTATION, "has an id"),
            part(Part.DATASET, "main.shop.orders", updated=True),
            part(Part.FLOW, "main.shop.orders"),
            part(Part.FLOW, "main.shop.orders", updated=True, covered=True),
            part(Part.EXPECTATION, "is new", covered=True),
        ]
    )
    assert coverage_text(coverage) == (
        "Covered: 0 of 1 datasets were compared, 1 of 1 flows ran, 1 of 2 expectations were seen failing."
    )
    assert [[cell.text for cell in row] for row in uncovered_table(coverage).rows] == [
        ["main.shop.orders", "dataset", "updated, but never compared", "shop.py:3"],
        ["main.shop.orders: has an id", "expectation", "never seen failing", "shop.py:3"],
    ]
    assert [*run_json([], coverage)["coverage"]] == ["datasets", "flows", "expectations"]


def test_no_pipeline_covers_nothing() -> None:
    """The sentence names the fixture."""
    assert coverage_text(TestCoverage()) == "No test used the fixture `pipeline`, so nothing is covered."
