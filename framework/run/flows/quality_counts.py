"""Row counts of the expectations of a flow, as values."""

from __future__ import annotations

from dataclasses import dataclass

from framework.declare.specs import ViolationAction
from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationCount:
    """The number of rows that met an expectation and the number that failed it."""

    name: str
    dataset: QualifiedName
    action: ViolationAction
    passed: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityCounts:
    """The counts of a flow's expectations: input rows, dropped rows, and a count per expectation."""

    rows: int = 0
    dropped: int = 0
    expectations: tuple[ExpectationCount, ...] = ()

    def plus(self, other: QualityCounts) -> QualityCounts:
        """Return the sum of both counts for each expectation."""
        merged = {(count.dataset, count.name): count for count in self.expectations}
        for count in other.expectations:
            before = merged.get((count.dataset, count.name))
            merged[count.dataset, count.name] = count if before is None else _sum(before, count)
        return QualityCounts(
            rows=self.rows + other.rows, dropped=self.dropped + other.dropped, expectations=tuple(merged.values())
        )


NOTHING_COUNTED = QualityCounts()


def _sum(first: ExpectationCount, second: ExpectationCount) -> ExpectationCount:
    return ExpectationCount(
        name=first.name,
        dataset=first.dataset,
        action=first.action,
        passed=first.passed + second.passed,
        failed=first.failed + second.failed,
    )
