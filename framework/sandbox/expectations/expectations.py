"""What tests state about the tables, the quality, the plan and the events of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.expectations import any_order, errors, events, plans, quality, tables
from framework.sandbox.expectations.examined import Examined, session_zone


class Expectations(Examined):
    """The expectations of a sandbox, which `Sandbox` inherits.

    A statement that does not hold is an `AssertionError` whose text shows the difference. A name that does not exist (a
    dataset, a column, an expectation, a condition) is an error, never a statement that holds.
    """

    def expect(self, dataset: str, rows: object, *, only: Sequence[str] | None = None, ordered: bool = False) -> None:
        """Check the rows of a dataset's table, whatever their order.

        Values are compared by the types of the table: NaN equals NaN, decimals by value, points in time by instant. A
        cell of a text table is converted to the type of its column. A text of Python is no number: `"1"` is not `1`.

        Args:
            dataset: its name.
            rows: the expected rows, in any form that `given` takes; a column that they do not have is NULL.
            only: the compared columns; tuples have their values in this order.
            ordered: whether the order counts: that in which the table got its rows.

        Raises:
            AssertionError: the table has other rows.
            UserError: DATASET_NOT_FOUND, TEST_COLUMN_UNKNOWN, and the errors of rows that can't be read.
            OperationError: DATASET_NOT_MATERIALIZED before the first update.
        """
        __tracebackhide__ = True
        self.compared.add(self.dataset(dataset))
        tables.check_rows(self, dataset, rows, only=only, ordered=ordered, text=self._text())

    def expect_quality(
        self, dataset: str, expectation: str, *, passed: int | None = None, failed: int | None = None
    ) -> None:
        """Check how many rows met an expectation of a dataset and how many failed it in the last update.

        Raises:
            AssertionError: other numbers, or the expectation was not checked.
            UserError: TEST_NO_UPDATE, DATASET_NOT_FOUND, TEST_EXPECTATION_UNKNOWN, TEST_QUALITY_WITHOUT_COUNT.
        """
        __tracebackhide__ = True
        quality.check_quality(self, dataset, expectation, passed=passed, failed=failed)

    def expect_quarantined(self, dataset: str, *, reason: str | None = None, rows: object = None) -> None:
        """Check the rows that are in quarantine in place of a dataset's table, replayed ones included.

        Args:
            dataset: the dataset.
            reason: only rows with this reason: an expectation of the dataset, or the condition of an error.
            rows: their number, or the rows themselves; columns that they do not name are not compared. None for at
                least one row.

        Raises:
            AssertionError: the quarantine has other rows.
            UserError: DATASET_NOT_FOUND, TEST_REASON_UNKNOWN, TEST_COLUMN_UNKNOWN.
        """
        __tracebackhide__ = True
        tables.check_quarantine(self, dataset, reason=reason, rows=rows, text=self._text())

    def expect_plan(self, steps: Mapping[str, str] | Sequence[str], *datasets: str, **request: Any) -> None:
        """Check the plan of the next update; nothing runs.

        Args:
            steps: what the plan does with each dataset: `full refresh`, `would fail`, `refuse`, `wait`, `reset`, `run`,
                `run if changed`, `skip`, or `keep`. `run` includes `run if changed`. Or texts, each of which is a part
                of a line of `sluice plan`.
            *datasets: the datasets of the update; default: those of `steps` by dataset, or all for texts.
            **request: the arguments of the update, such as `full_refresh`.

        Raises:
            AssertionError: the plan has other steps; its text is the plan.
            UserError: DATASET_NOT_FOUND, TEST_PLAN_WORD_UNKNOWN.
        """
        __tracebackhide__ = True
        plans.check_plan(self, steps, datasets, request)

    def expect_events(
        self,
        type: str,
        *,
        dataset: str | None = None,
        level: str | None = None,
        message: str | None = None,
        count: int | None = None,
    ) -> None:
        """Check the events of the last update.

        Args:
            type: the type of the events, such as `flow_progress`.
            dataset: only events of this dataset.
            level: only events of this level and higher ones: METRICS, INFO, WARN, ERROR.
            message: only events whose message has this text.
            count: their number; None for at least one.

        Raises:
            AssertionError: there are fewer or more.
            UserError: TEST_NO_UPDATE, TEST_EVENT_UNKNOWN, DATASET_NOT_FOUND.
        """
        __tracebackhide__ = True
        events.check_events(self, type, dataset=dataset, level=level, message=message, count=count)

    def expect_error(
        self, condition: str, *, match: str | None = None, dataset: str | None = None
    ) -> AbstractContextManager[None]:
        """Check that the block raises an error, such as an update that fails.

        Args:
            condition: the condition of the error, or of one of several errors that are raised together.
            match: a regular expression that the text of the error matches somewhere.
            dataset: the dataset that the error is about.

        Raises:
            AssertionError: the block raises nothing, or other errors.
            UserError: TEST_CONDITION_UNKNOWN, DATASET_NOT_FOUND.
        """
        return errors.checked_error(self, condition, match=match, dataset=dataset)

    def expect_any_order(self, dataset: str, *, source: str, permutations: int = 20, seed: int | None = None) -> None:
        """Check that the order in which the rows of a source arrive does not change a dataset's table.

        All rows of the source, as given and arrived so far, arrive again in random orders, split into two or three
        batches, each order in a new storage with the other inputs as given. Each must end in the table that all rows in
        one batch have. A file with given content stays whole.

        An order costs an update for each batch, of this dataset and what it needs: 20 orders are about 46 updates, one
        or two minutes for an AUTO CDC target; five orders take a quarter of it. Two rows have two orders only.

        Args:
            dataset: the dataset.
            source: the input, as in `given`.
            permutations: the number of orders; fewer if there are not so many.
            seed: decides the orders; None for the same ones in each run.

        Raises:
            AssertionError: an order ends in another table; its text has the order and the difference.
            UserError: DATASET_NOT_FOUND, TEST_SOURCE_NOT_GIVEN, TEST_SOURCE_TOO_SMALL.
        """
        __tracebackhide__ = True
        any_order.check_any_order(
            self, dataset, source=source, permutations=permutations, seed=seed or 0, text=self._text()
        )

    def _text(self) -> DifferenceFormat:
        return replace(self.differences, zone=session_zone(self))
