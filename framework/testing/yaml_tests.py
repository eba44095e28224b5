"""Tests of `*.unit_tests.yml` as items of pytest: each test is one item with its file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.foundation.errors import SluiceError, UserError
from framework.foundation.locations import SourceLocation
from framework.foundation.nearest import nearest_hint
from framework.testing.yaml_format import Check, Input, Step, YamlTest, read_test_file

if TYPE_CHECKING:
    from framework.sandbox.sandbox import Sandbox

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_FILES = (".sql", ".py", ".ipynb")


class YamlTestModule(pytest.File):
    """One test file; its faults are one error of the collection."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its tests.

        Raises:
            SluiceError: the file is invalid.
        """
        file = read_test_file(self.path)
        for test in file.tests:
            item: YamlItem = YamlItem.from_parent(self, name=test.name, callobj=_function(test))
            item.location_in_file = test.location
            item.add_marker(pytest.mark.sluice_spec(file.spec, parameters=dict(test.parameters)))
            yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return the errors of the file as Sluice prints them."""
        error = excinfo.value
        return error.render() if isinstance(error, SluiceError) else super().repr_failure(excinfo)


class YamlItem(pytest.Function):
    """One test of a test file: a function of the fixture `pipeline`, so fixtures of a `conftest.py` apply."""

    location_in_file: SourceLocation

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line counted from 0, and the name of the test."""
        return self.path, self.location_in_file.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return the failed statement with its line in the file, and what Sluice says of it."""
        error = excinfo.value
        if not isinstance(error, SluiceError | AssertionError):
            return super().repr_failure(excinfo)
        where = next(iter(getattr(error, "__notes__", ())), str(self.location_in_file))
        return f"{where}\n\n{error.render() if isinstance(error, SluiceError) else error}"


def _function(test: YamlTest) -> Any:
    def run(pipeline: Sandbox) -> None:
        run_test(test, pipeline)

    return run


def run_test(test: YamlTest, sandbox: Sandbox) -> None:
    """Run the steps of a test on a sandbox.

    Raises:
        AssertionError: a statement does not hold; its first note has the line in the file.
        SluiceError: an input, a name or the pipeline is wrong; its first note has the line in the file.
    """
    for step in test.steps:
        for each in step.given:
            with _At(each.location, "given"):
                _give(sandbox, each, sandbox.given)
        for each in step.arrives:
            with _At(each.location, "arrives"):
                _give(sandbox, each, sandbox.arrives)
        with _At(step.location, "update"):
            _set_clock(sandbox, step)
            model = model_of(test, sandbox)
            _update(sandbox, step, model)
        for check in step.checks:
            with _At(check.location, check.kind):
                _check(sandbox, check, model)


def _give(sandbox: Sandbox, given: Input, take: Any) -> None:
    options: dict[str, Any] = dict(given.options)
    if given.real:
        options["real"] = True
    take(substituted(given.source, sandbox), given.rows, schema=given.schema, **options)


def _set_clock(sandbox: Sandbox, step: Step) -> None:
    if isinstance(step.clock, str):
        sandbox.clock.at(step.clock)
    elif step.clock is not None:
        sandbox.clock.advance(**step.clock)


def _update(sandbox: Sandbox, step: Step, model: str | None) -> None:
    named = step.update if step.update is not None else () if model is None else (model,)
    if step.plan is not None:
        sandbox.expect_plan(step.plan, *named, full_refresh=step.full_refresh)
    if step.error is None:
        sandbox.update(*named, full_refresh=step.full_refresh)
        return
    error = {("dataset" if key == "table" else key): value for key, value in step.error.items()}
    with sandbox.expect_error(**error):
        sandbox.update(*named, full_refresh=step.full_refresh)


def _check(sandbox: Sandbox, check: Check, model: str | None) -> None:
    values = dict(check.values)
    table = model if check.table is None else substituted(check.table, sandbox)
    if check.kind == "events":
        sandbox.expect_events(values.pop("type"), dataset=None if check.table is None else table, **values)
        return
    if table is None:
        raise UserError(
            "TEST_FILE_MISSING_KEY", location=check.location, where=f"`{check.kind}` of a test without `model`",
            key="`table`",
        )  # fmt: skip
    if check.kind == "expect":
        rows = values.pop("rows")
        only = values.pop("only") or columns_of(rows)
        sandbox.expect(table, rows, only=[only] if isinstance(only, str) else only, **values)
    elif check.kind == "quality":
        sandbox.expect_quality(table, values.pop("expectation"), **values)
    else:
        sandbox.expect_quarantined(table, **values)


def columns_of(rows: object) -> list[str] | None:
    """Return the columns that expected rows name, which are those that are compared; None for rows without names."""
    if isinstance(rows, list):
        named = [each for each in rows if isinstance(each, dict)]
        return list(dict.fromkeys(column for each in named for column in each)) or None
    from framework.sandbox.rows import Rows

    return list(Rows.of(rows).columns or ()) or None


def model_of(test: YamlTest, sandbox: Sandbox) -> str | None:
    """Return the dataset that a test is about; `model` may name it, or the file that declares it.

    Raises:
        UserError: TEST_FILE_MODEL_NOT_FOUND, TEST_FILE_MODEL_AMBIGUOUS, TEST_FILE_UNKNOWN_VARIABLE.
    """
    if test.model is None or not test.model.endswith(_FILES):
        return test.callable if test.model is None else substituted(test.model, sandbox)
    file = Path(test.location.file).parent / substituted(test.model, sandbox)
    declared = sandbox.pipeline.definitions.registry.datasets
    names = [
        str(each.name) for each in declared if each.location and Path(each.location.file).resolve() == file.resolve()
    ]
    if test.callable is not None:
        return _only(test, sandbox, names, test.callable)
    return names[0] if len(names) == 1 else _only(test, sandbox, names, file.stem)


def _only(test: YamlTest, sandbox: Sandbox, names: Sequence[str], wanted: str) -> str:
    """Return the one of the names whose last part is the wanted one."""
    found = [name for name in names if name.rpartition(".")[2] == wanted.lower()]
    if found:
        return found[0]
    if names and test.callable is None:
        datasets = ", ".join(names)
        raise UserError("TEST_FILE_MODEL_AMBIGUOUS", location=test.location, model=test.model, datasets=datasets)
    hint = nearest_hint(wanted, [name.rpartition(".")[2] for name in names])
    raise UserError(
        "TEST_FILE_MODEL_NOT_FOUND", location=test.location, model=test.model, pipeline=sandbox.pipeline.spec.name,
        more=f" named {wanted}" if test.callable else "", hint=hint,
    )  # fmt: skip


def substituted(text: str, sandbox: Sandbox) -> str:
    """Return a name with each `${entry}` replaced by the entry of the pipeline's configuration.

    Raises:
        UserError: TEST_FILE_UNKNOWN_VARIABLE.
    """
    spec = sandbox.pipeline.spec
    known = dict(spec.configuration)

    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        if name not in known:
            hint = nearest_hint(name, known)
            raise UserError("TEST_FILE_UNKNOWN_VARIABLE", pipeline=spec.name, variable=name, text=text, hint=hint)
        return known[name]

    return _VARIABLE.sub(value, text)


class _At:
    """Notes the line of the file on what is raised in the block."""

    def __init__(self, location: SourceLocation, word: str) -> None:
        self._note = f"{location}: {word}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is not None and not getattr(error, "__notes__", ()):
            error.add_note(self._note)
