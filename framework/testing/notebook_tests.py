"""Tests in notebooks: the cells tagged `test` of an `.ipynb` that pytest is asked for, each as one item.

A test needs no kernel and no IPython. The notebook's declarations are the pipeline; its
other cells supply their imports, functions, classes and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.notebooks import NotebookCell
    from framework.pipeline import Pipeline
    from framework.sandbox.sandbox import Sandbox

    Observe = Callable[[pytest.Config, Sandbox], None]


def collected(file_path: Path, parent: pytest.Collector, observe: Observe) -> pytest.Collector | None:
    """Return the tests of a notebook that is named as an argument; None for one that is only in a folder.

    Args:
        file_path: the notebook.
        parent: the collector of its folder.
        observe: takes the sandbox of a test that has passed.
    """
    asked = {(parent.config.invocation_params.dir / each.partition("::")[0]).resolve() for each in parent.config.args}
    if file_path.resolve() not in asked:
        return None
    tests: NotebookTests = NotebookTests.from_parent(parent, path=file_path)
    tests.observe = observe
    return tests


class NotebookTests(pytest.File):
    """The tests of one notebook."""

    observe: Observe

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each cell with the tag `test`.

        Raises:
            SluiceError: the notebook can't be read.
        """
        from framework.foundation.notebooks import notebook_cells

        cells = notebook_cells(self.path, self.path.read_text(encoding="utf-8"))
        for number, cell in enumerate(cells, 1):
            if cell.is_test:
                item: NotebookTest = NotebookTest.from_parent(
                    self, name=_name(cell, number), callobj=_function(self.path, cell, self.observe)
                )
                item.line = cell.line
                yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return the errors of the notebook as Sluice prints them."""
        return _shown(excinfo.value) or super().repr_failure(excinfo)


class NotebookTest(pytest.Function):
    """One cell: a function of pytest's fixtures."""

    line: int

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line counted from 0, and the name of the test."""
        return self.path, self.line - 1, self.name

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return the line of the cell that failed, and what Sluice says of it."""
        shown = _shown(excinfo.value)
        if shown is None:
            return super().repr_failure(excinfo)
        lines = [each.lineno + 1 for each in excinfo.traceback if Path(str(each.path)) == self.path]
        return f"{self.path}:{lines[-1] if lines else self.line}\n\n{shown}"


def _shown(error: BaseException) -> str | None:
    """Return an error's own text; None if only its traceback explains it."""
    from framework.foundation.errors import SluiceError

    if isinstance(error, SluiceError):
        return error.render()
    return str(error) if isinstance(error, AssertionError) and str(error) else None


def _name(cell: NotebookCell, number: int) -> str:
    """Return the comment at the start of a cell, or its number."""
    first = cell.lines[cell.first].strip()
    return first.lstrip("# ") if first.startswith("#") and first.strip("# ") else f"cell {number}"


def _function(path: Path, cell: NotebookCell, observe: Observe) -> Any:
    def run(request: pytest.FixtureRequest, tmp_path: Path) -> None:
        from framework.sandbox.sandbox import Sandbox

        pipeline = _pipeline(path, request)
        with pipeline.sandbox(tmp_path / "sluice") as sandbox:
            names = {**_names(path, pipeline), "pipeline": pipeline, "sandbox": sandbox}
            exec(_compiled(path, cell), names)  # noqa: S102 - the user's test
            last = names["sandbox"]  # the cell may have made its own
            if isinstance(last, Sandbox):
                observe(request.config, last)

    return run


def _compiled(path: Path, cell: NotebookCell) -> Any:
    """Return the code of a cell, on its lines of the file."""
    return compile("\n" * (cell.line - 1) + "\n".join(cell.lines), str(path), "exec", dont_inherit=True)


def _pipeline(path: Path, request: pytest.FixtureRequest) -> Pipeline:
    """Return the pipeline of a notebook: of its cells, and of the spec that its `%sluice` names."""
    from framework.declare.modules.notebook_cells import cells_of
    from framework.notebook.choices import Choices, read_choices
    from framework.pipeline import Pipeline

    chosen = Choices()
    for cell in cells_of(path, path.read_text(encoding="utf-8")) or ():
        if cell.kind == "sluice" and cell.lines[0].strip():
            found = read_choices(cell.lines[0])
            chosen = chosen if found.remove is not None else found
    spark, parameters = _session(request), dict(chosen.parameters)
    if chosen.spec is not None:
        return Pipeline.from_spec(path.parent / chosen.spec, modules=(path,), parameters=parameters, spark=spark)
    return Pipeline(
        name=chosen.name, modules=(path,), catalog=chosen.catalog, schema=chosen.schema, configuration=parameters,
        spark=spark,
    )  # fmt: skip


def _session(request: pytest.FixtureRequest) -> SparkSession | None:
    """Return the session of the project's fixture `spark`, or that of Sluice's tests; None if there is neither."""
    from framework.declare.pipeline_spec import PipelineSpec
    from framework.testing.sessions import users_session

    users = users_session(request)
    if users is not None:
        return users
    try:
        session: Any = request.getfixturevalue("sluice_session")
    except pytest.FixtureLookupError:
        return None
    return session.of(PipelineSpec(name="notebook", storage=""))  # type: ignore[no-any-return]


def _names(path: Path, pipeline: Pipeline) -> dict[str, Any]:
    """Return the names that a test uses: those of modules, and the definitions of the notebook's other cells."""
    from framework import pipelines
    from framework.declare.modules.notebook_cells import PYTHON, cells_of
    from framework.declare.modules.notebook_definitions import definitions_in
    from framework.declare.workspace.dbutils import module_globals

    names = {"__name__": "__main__", "dp": pipelines, **module_globals(pipeline.spark)}
    for cell in cells_of(path, path.read_text(encoding="utf-8")) or ():
        if cell.kind == PYTHON:
            code = "\n" * (cell.line - 1) + "\n".join(definitions_in(cell.lines, undecorated=True))
            exec(compile(code, str(path), "exec", dont_inherit=True), names)  # noqa: S102 - the user's definitions
    return names
