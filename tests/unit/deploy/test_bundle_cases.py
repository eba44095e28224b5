"""The tables of cases in `cases/`: the loader compared with Databricks' documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.foundation.errors import UserError
from tests.support.bundle_cases import BundleCase, found, load_case, read_bundle_cases, told

FILES = sorted((Path(__file__).parent / "cases").glob("*.yml"))
CASES = {f"{path.stem}: {case.name}": case for path in FILES for case in read_bundle_cases(path)}
GOOD = {name: case for name, case in CASES.items() if case.expect is not None}
BAD = {name: case for name, case in CASES.items() if case.error}


def test_there_are_as_many_cases_as_promised() -> None:
    """At least 120, and no two of one name."""
    assert len(CASES) == sum(len(read_bundle_cases(path)) for path in FILES)
    assert len(CASES) >= 120


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD)
def test_a_bundle_is_loaded_as_the_format_says(tmp_path: Path, case: BundleCase) -> None:
    """Each setting that the case names, whole and with its type."""
    assert case.expect is not None
    bundle = load_case(case, tmp_path)
    values = told(bundle)
    actual = {key: values.get(key) for key in case.expect}
    assert actual == case.expect
    assert repr(actual) == repr(_like(actual, case.expect)), "true is not 1, and 1 is not 1.0"
    if case.finds is not None:
        assert found(bundle) == case.finds


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_a_fault_is_told_with_its_place_and_a_remedy(tmp_path: Path, case: BundleCase) -> None:
    """Each error has a condition, file, line, column, and a remedy."""
    with pytest.raises(UserError) as caught:
        load_case(case, tmp_path)
    error = caught.value
    assert error.condition == case.error
    assert str(error.location).removeprefix("databricks.yml:") == case.at
    assert case.says in error.render()
    assert error.remedy


def _like(actual: object, expected: object) -> object:
    """The expected value with its keys in the order of the actual one."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        return {key: _like(actual[key], expected[key]) for key in actual}
    if isinstance(actual, list) and isinstance(expected, list):
        return [_like(one, other) for one, other in zip(actual, expected, strict=True)]
    return expected
