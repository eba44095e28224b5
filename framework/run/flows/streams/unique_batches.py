"""Batches of a table with unique expectations: each is compared with the rows already in the table.

The only durable effect of a batch is one commit to the table, with the batch's transaction. If the stream ends before
it records this commit, the batch runs again and is skipped; otherwise its rows would repeat themselves.

Two flows may append to one table at the same time, and each has to see the rows of the other. So a batch is compared
and written while no other flow of the update does so. No other process writes to a table of the pipeline meanwhile,
except users who insert rows by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from framework.declare.specs import ViolationAction
from framework.engine.sessions.execution import compute, computed_once, planned_for
from framework.foundation.failpoints import failpoint
from framework.run.flows.expectations import violation
from framework.run.flows.flow_run import FlowRun
from framework.run.flows.metrics import FlowOutcome
from framework.run.flows.quality_counts import NOTHING_COUNTED, ExpectationCount, QualityCounts
from framework.run.flows.repeated_rows import REPEATED, unique_ones, with_repeated
from framework.run.quarantine.append_once import append_once, has_taken
from framework.run.quarantine.table import REASONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class UniqueBatches:
    """Decides which rows of a flow's batches repeat others, and appends the remaining rows.

    Args:
        run: the flow's run.
    """

    def __init__(self, run: FlowRun) -> None:
        self._run = run
        self._expectations = unique_ones(run.dataset.spec.expectations)

    def __bool__(self) -> bool:
        """Whether the table has unique expectations."""
        return bool(self._expectations)

    def exclusive(self) -> AbstractContextManager[None]:
        """Exclude comparisons with the table, and writes to it, by other flows in the block."""
        return self._run.context.tables.exclusive(self._run.path) if self._expectations else nullcontext()

    def append(self, rows: DataFrame, transaction: str, number: int, *, is_stream: bool) -> FlowOutcome:
        """Append a batch without the rows that expectations drop, unless the table already has it.

        Args:
            rows: the rows of the batch.
            transaction: the application id of its transaction.
            number: its number in that application.
            is_stream: whether a stream reports the counts observed in the rows.

        Raises:
            pyspark.errors.PySparkException: a row violates an expectation that fails the flow.
        """
        with self.exclusive():
            if has_taken(rows.sparkSession, self._run.table, transaction, number):
                if self._run.is_stateful:
                    compute(rows)
                return FlowOutcome(written=0)
            with (
                computed_once(rows, at_once=not is_stream) as kept,
                self.decided(kept, is_checked=F.lit(True)) as (decided, quality),  # noqa: FBT003 - a literal column
            ):
                count = quality.rows - quality.dropped
                if count:
                    valid = decided.where(~self.dropping()).drop(REPEATED)
                    append_once(valid, self._run.table, transaction, number)
                    failpoint("appends.after_commit")
                return FlowOutcome(written=count, quality=replace(quality, rows=0))

    @contextmanager
    def decided(self, rows: DataFrame, *, is_checked: Column) -> Iterator[tuple[DataFrame, QualityCounts]]:
        """Yield the rows with the column `REPEATED`, and the counts of the checked rows.

        Args:
            rows: rows that are computed only once.
            is_checked: whether a row counts.

        Raises:
            pyspark.errors.PySparkException: a row violates an expectation that fails the flow.
        """
        table = rows.sparkSession.read.format("delta").load(self._run.path)
        with planned_for(rows):
            flagged = with_repeated(rows, self._expectations, is_checked=is_checked, table=table)
            with computed_once(flagged) as decided:
                yield decided, self._counts(decided, is_checked)

    @contextmanager
    def with_reasons(self, rows: DataFrame) -> Iterator[tuple[DataFrame, QualityCounts]]:
        """Yield quarantine rows whose `REASONS` include the unique expectations that drop them, and the counts.

        A row that already has a reason is ignored when other rows are compared.
        """
        if not self._expectations:
            yield rows, NOTHING_COUNTED
            return
        with self.decided(rows, is_checked=F.size(REASONS) == 0) as (decided, quality):
            reasons = F.concat(F.col(REASONS), F.array_intersect(F.col(REPEATED), self._dropping_names()))
            yield decided.withColumn(REASONS, reasons).drop(REPEATED), replace(quality, rows=0)

    def dropping(self) -> Column:
        """Return whether a decided row violates an expectation that drops it."""
        return F.arrays_overlap(F.col(REPEATED), self._dropping_names())

    def _dropping_names(self) -> Column:
        names = [F.lit(each.name) for each in self._expectations if each.action is ViolationAction.DROP]
        return F.array(*names).cast("array<string>")

    def _counts(self, decided: DataFrame, is_checked: Column) -> QualityCounts:
        failed = [F.count_if(F.array_contains(REPEATED, each.name)) for each in self._expectations]
        counts = decided.agg(F.count_if(is_checked), F.count_if(self.dropping()), *failed).first()
        assert counts is not None  # an aggregate without groups has one row
        for each, count in zip(self._expectations, counts[2:], strict=True):
            if count and each.action is ViolationAction.FAIL:
                first = decided.where(F.array_contains(REPEATED, each.name)).limit(1)
                first.select(violation(each, first)).collect()
        found = tuple(
            ExpectationCount(
                name=each.name,
                dataset=self._run.dataset.name,
                action=each.action,
                passed=counts[0] - count,
                failed=count,
            )
            for each, count in zip(self._expectations, counts[2:], strict=True)
        )
        return QualityCounts(rows=counts[0], dropped=counts[1], expectations=found)
