"""Databricks' API for unit tests of pipelines, `pyspark.pipelines.testing`, while pytest runs.

`install` makes the module importable. It has what Databricks documents: `TestPipeline.active()`, its method `run`, and
the fixture `test_spark`. A name is redirected to a table of the test; a path is that of a given input, or an error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Self

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.foundation.errors import SluiceError
    from framework.foundation.names import QualifiedName
    from framework.run.update.results import UpdateResult
    from framework.sandbox.sandbox import Sandbox
    from framework.testing.redirected_session import RedirectedSession

MODULE = "pyspark.pipelines.testing"
_LOG = logging.getLogger("sluice")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInfo:
    """What one flow of a run did.

    Args:
        state: COMPLETED, IDLE, FAILED, ….
        records_written: rows that it wrote; for AUTO CDC, rows that it inserted, changed or deleted.
        records_dropped: rows that expectations dropped.
    """

    state: str
    records_written: int
    records_dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TestStatus:
    """How a run ended.

    Args:
        is_success: whether all selected tables were updated.
        event_log_table_name: the table with the events of all runs of the test, for `test_spark.table`.
        error_class: the condition of the first error; None if there is none.
        error_message: the text of the first error; None if there is none.
        update_id: the id of the update; None if it did not start.
        flow_info: what each flow did, by its full name.
    """

    __test__: ClassVar[bool] = False

    is_success: bool
    event_log_table_name: str
    error_class: str | None = None
    error_message: str | None = None
    update_id: str | None = None
    flow_info: Mapping[str, FlowInfo] = field(default_factory=dict)


class TestPipeline:
    """The pipeline of a test: that of the fixture `pipeline`."""

    __test__: ClassVar[bool] = False

    @classmethod
    def active(cls) -> Self:
        """Return the pipeline. The session that `run` gets decides which one it is, so a module may call this."""
        return cls()

    def run(self, test_spark: SparkSession, tables: Collection[str] = frozenset()) -> TestStatus:
        """Update tables of the pipeline and return how that ended; errors of an update are not raised.

        Only the named tables are updated. What they read was created by the test, or is as an earlier run left it.

        Args:
            test_spark: the session of the fixture.
            tables: names of tables; all tables that the test has not created if there is none.

        Raises:
            UserError: DATASET_NOT_FOUND, DATABRICKS_TEST_TABLE_CREATED, DATABRICKS_TEST_SESSION.
        """
        from framework.foundation.errors import SluiceError, UserError
        from framework.run.update.definitions import request_of
        from framework.testing.redirected_session import RedirectedSession

        if not isinstance(test_spark, RedirectedSession):
            raise UserError("DATABRICKS_TEST_SESSION")
        sandbox = test_spark.sandbox
        sandbox.inputs.tables = dict(test_spark.tables.created())
        selected = _selected(sandbox, tables)
        try:
            update = sandbox.pipeline.prepared(request_of(sandbox.pipeline.spec), selected, with_inputs=False)
            sandbox.last = update.run()
        except SluiceError as error:
            return _failed(test_spark, error)
        return _ended(test_spark, sandbox.last)


def _selected(sandbox: Sandbox, tables: Collection[str]) -> list[QualifiedName]:
    """Return the full names of the selected tables."""
    from framework.foundation.errors import UserError

    created = sandbox.inputs.tables
    if not tables:
        return [name for name in sandbox.pipeline.names() if name not in created]
    selected = [sandbox.dataset(name) for name in sorted(tables)]
    for name in selected:
        if name in created:
            raise UserError("DATABRICKS_TEST_TABLE_CREATED", table=name)
    return selected


def _ended(session: RedirectedSession, result: UpdateResult) -> TestStatus:
    error = next((flow.error for flow in result.flows if flow.error is not None), None)
    if error is not None:
        _LOG.error("%s", error.render())
    return TestStatus(
        is_success=error is None and result.state.value == "COMPLETED",
        event_log_table_name=session.event_log(),
        error_class=None if error is None else error.condition,
        error_message=None if error is None else error.render(),
        update_id=result.update_id,
        flow_info={
            str(flow.flow): FlowInfo(
                state=flow.state.value,
                records_written=flow.rows_written or flow.rows_upserted + flow.rows_deleted,
                records_dropped=flow.rows_dropped,
            )
            for flow in result.flows
        },
    )


def _failed(session: RedirectedSession, error: SluiceError) -> TestStatus:
    """Return the status of a run whose update did not start."""
    _LOG.error("%s", error.render())
    return TestStatus(
        is_success=False,
        event_log_table_name=session.event_log(),
        error_class=error.condition,
        error_message=error.render(),
    )


@pytest.fixture
def test_spark(pipeline: Sandbox, tmp_path: Path) -> Iterator[SparkSession]:
    """A session whose tables by name are those of one test; the fixture `pipeline` decides whose pipeline it is."""
    from framework.testing.redirected_session import redirected_session

    with redirected_session(pipeline, tmp_path / "tables") as session:
        yield session


def install() -> None:
    """Make `pyspark.pipelines.testing` importable; a module of that name that is there already stays."""
    if MODULE not in sys.modules:
        module = ModuleType(MODULE, __doc__)
        module.__dict__.update(TestPipeline=TestPipeline, TestStatus=TestStatus, test_spark=test_spark)
        sys.modules[MODULE] = module


def uninstall() -> None:
    """Remove what `install` has added."""
    if getattr(sys.modules.get(MODULE), "TestPipeline", None) is TestPipeline:
        del sys.modules[MODULE]
