"""What tests state about the tables, the quality, the plan and the events of a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from framework.plan.steps import Plan
from framework.run.update.results import UpdateResult
from framework.sandbox.isolation import IsolatedPipeline


class Examined(Protocol):
    """What expectations look at; `framework.sandbox.sandbox.Sandbox` is one."""

    last: UpdateResult | None

    @property
    def pipeline(self) -> IsolatedPipeline:
        """The pipeline of the sandbox."""
        ...

    def plan(self, *datasets: str, **request: Any) -> Plan:
        """Return the steps of an update."""
        ...

    def rows(self, dataset: str, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a table."""
        ...


class Expectations:
    """The expectations of a sandbox; `Sandbox` forwards to them."""

    def __init__(self, sandbox: Examined) -> None:
        self._sandbox = sandbox

    def expect(self, dataset: str, rows: object, *, only: Sequence[str] | None = None, ordered: bool = False) -> None:
        """Check the rows of a dataset."""
        raise NotImplementedError

    def expect_quality(
        self, dataset: str, expectation: str, *, passed: int | None = None, failed: int | None = None
    ) -> None:
        """Check the counts of an expectation in the last update."""
        raise NotImplementedError

    def expect_quarantined(self, dataset: str, *, reason: str | None = None, rows: object = None) -> None:
        """Check the quarantined rows of a dataset."""
        raise NotImplementedError

    def expect_plan(self, steps: Mapping[str, str] | Sequence[str]) -> None:
        """Check the plan of the next update."""
        raise NotImplementedError

    def expect_events(
        self,
        type: str,
        *,
        dataset: str | None = None,
        level: str | None = None,
        message: str | None = None,
        count: int | None = None,
    ) -> None:
        """Check the events of the last update."""
        raise NotImplementedError

    @contextmanager
    def expect_error(self, condition: str, *, match: str | None = None, dataset: str | None = None) -> Iterator[None]:
        """Check that the block raises an error."""
        del condition, match, dataset
        yield

    def expect_any_order(self, dataset: str, *, source: str, permutations: int = 20, seed: int | None = None) -> None:
        """Check that the order of a source's rows does not change a dataset."""
        raise NotImplementedError
