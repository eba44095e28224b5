"""Databricks' API for unit tests of pipelines, `pyspark.pipelines.testing`, while pytest runs.

`install` makes the module importable. Its objects are those of the documentation: `TestPipeline.active()`, `run(…)`,
and the fixture `test_spark`. Nothing of PySpark is imported before a test uses them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

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
    """The rows of one flow of a run.

    Args:
        state: COMPLETED, IDLE, FAILED, ….
        records_written: rows written to its table, or inserted, changed and deleted by AUTO CDC.
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
        error_class: the condition of the first error; None if there is none.
        error_message: the text of the first error; None if there is none.
        update_id: the id of the update; None if it did not start.
        event_log_table_name: the table with the events of all runs of the test, for `test_spark.table`.
        flow_info: what each flow wrote, by its full name.
    """

    __test__: ClassVar[bool] = False

    is_success: bool
    event_log_table_name: str
    error_class: str | None = None
    error_message: str | None = None
    update_id: str | None = None
    flow_info: Mapping[str, FlowInfo] = field(default_factory=dict)


class TestPipeline:
    """The pipeline of a test's file: that of the fixture `pipeline`."""

    __test__: ClassVar[bool] = False

    @classmethod
    def active(cls) -> Self:
        """Return the pipeline; which one it is, is decided when a test runs it."""
        return cls()

    def run(self, test_spark: SparkSession, tables: Collection[str] = frozenset()) -> TestStatus:
        """Update tables of the pipeline and return how it ended; errors of the update are not raised.

        Only the named tables are updated. What they read was created by the test, or written by an earlier run.

        Args:
            test_spark: the session of the fixture.
                tables: names of tables; all tables if there is none.

        Raises:
            UserError: a name is unknown, or is that of a table that the test has created.
        """
        assert isinstance(test_spark, RedirectedSession), "run() takes the session of the fixture `test_spark`"
        return test_spark.run(tables)
