"""Runs the tests of a project with pytest, and returns their outcomes and what they cover."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from framework.foundation.errors import UserError
from framework.views.testing import TestCoverage, TestedPart, TestOutcome

_PLUGIN = "framework.testing.plugin"
_NOTHING_FOUND = 5
_TESTS_FAILED = 1
_INVALID = 2
_END_SECONDS = 30.0
# pytest's exit codes: passed, failed, interrupted (also by errors of the collection), internal error, usage.
_CODES = {0: 0, _TESTS_FAILED: 1, 2: 2, 3: 1, 4: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRequest:
    """What to test, and how.

    Args:
        arguments: paths, and further arguments of pytest.
        workers: the number of processes, or `auto`; None for this one.
        spec: the spec of tests that name none; None for the nearest one.
        master: Spark's master; None for the default of tests.
    """

    __test__ = False

    arguments: tuple[str, ...] = ()
    workers: str | None = None
    spec: Path | None = None
    master: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """The result of a run of tests: exit code, outcomes, and what the tests cover."""

    __test__ = False

    exit_code: int
    outcomes: tuple[TestOutcome, ...]
    coverage: TestCoverage


def run_tests(request: TestRequest) -> TestRun:
    """Run tests in a process of pytest, which prints to standard output and error as it does anywhere.

    The exit code is 0 if all tests passed, 1 if one failed, and 2 if pytest was called or the tests are written
    wrongly, or if the definitions of a tested pipeline are invalid.

    Raises:
        UserError: PYTEST_NOT_INSTALLED, TESTS_NOT_FOUND.
    """
    for package, is_needed in (("pytest", True), ("xdist", request.workers is not None)):
        if is_needed and find_spec(package) is None:
            raise UserError("PYTEST_NOT_INSTALLED", package={"xdist": "pytest-xdist"}.get(package, package))
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        code = _exit_code([sys.executable, "-m", "pytest", *_options(request, folder), *request.arguments])
        records = [*_records(Path(folder))]
    if code == _NOTHING_FOUND:
        raise UserError("TESTS_NOT_FOUND", selection="".join(f" {each}" for each in request.arguments))
    outcomes = tuple(TestOutcome(**each["outcome"]) for each in records if "outcome" in each)
    is_invalid = code == _TESTS_FAILED and any(each.is_definition for each in outcomes)
    return TestRun(
        exit_code=_INVALID if is_invalid else _CODES.get(code, 1),
        outcomes=outcomes,
        coverage=TestCoverage.of(TestedPart.from_json(each["part"]) for each in records if "part" in each),
    )


def _options(request: TestRequest, folder: str) -> Iterator[str]:
    if not entry_points(group="pytest11", name="sluice"):
        yield from ("-p", _PLUGIN)
    yield from ("--sluice-coverage", folder)
    if request.workers is not None:
        yield from ("-n", request.workers)
    if request.spec is not None:
        yield from ("-o", f"sluice_spec={request.spec.resolve()}")
    if request.master is not None:
        yield from ("--sluice-master", request.master)


def _exit_code(command: Sequence[str]) -> int:
    process = subprocess.Popen(command)  # noqa: S603 - our interpreter; the arguments are the user's own
    try:
        return process.wait()
    except KeyboardInterrupt:  # the terminal has interrupted pytest, too
        process.wait(_END_SECONDS)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        yield from (json.loads(line) for line in file.read_text("utf-8").splitlines())
