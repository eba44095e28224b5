"""Outcomes of tests and what they cover, as values, a table, a sentence and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from framework.views.table import Cell, Column, Table, Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """The outcome of one test.

    Args:
        test: its id in pytest.
        outcome: passed, failed or skipped.
        seconds: its duration without fixtures.
        condition: the condition of the error that ended it, if it is one of Sluice.
        is_definition: whether the definitions of its pipeline are invalid.
    """

    __test__ = False

    test: str
    outcome: str
    seconds: float
    condition: str | None = None
    is_definition: bool = False


class Part(StrEnum):
    """What a test can cover, in the order of the output."""

    DATASET = "dataset"
    FLOW = "flow"
    EXPECTATION = "expectation"


_COVERED_BY = {Part.DATASET: "compared", Part.FLOW: "run", Part.EXPECTATION: "seen failing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedPart:
    """One dataset, flow or expectation.

    Args:
        pipeline: the pipeline's name.
        part: what it is.
        name: its full name; of an expectation, its name.
        dataset: the dataset that it belongs to, by its full name.
        location: file and line of its declaration.
        is_updated: whether a test updated the dataset, or ran the flow.
        is_covered: whether a test compared the rows of the dataset, ran the flow, or saw the expectation failing.
    """

    __test__ = False

    pipeline: str
    part: Part
    name: str
    dataset: str
    location: str | None
    is_updated: bool = False
    is_covered: bool = False

    def merged(self, other: Self) -> Self:
        """Return what two tests together do with it."""
        updated, covered = self.is_updated or other.is_updated, self.is_covered or other.is_covered
        return replace(self, is_updated=updated, is_covered=covered)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the value of `asdict`."""
        return cls(**{**value, "part": Part(value["part"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class TestCoverage:
    """The parts of all pipelines that tests opened, each once, by kind and then in the order of their declaration."""

    __test__ = False

    parts: tuple[TestedPart, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[TestedPart]) -> Self:
        """Return the union of what tests cover."""
        found: dict[tuple[str, Part, str, str], TestedPart] = {}
        for each in parts:
            key = (each.pipeline, each.part, each.dataset, each.name)
            found[key] = found[key].merged(each) if key in found else each
        kinds = list(Part)
        return cls(parts=tuple(sorted(found.values(), key=lambda each: kinds.index(each.part))))

    def of_part(self, part: Part) -> tuple[TestedPart, ...]:
        """Return the parts of one kind."""
        return tuple(each for each in self.parts if each.part is part)

    @property
    def uncovered(self) -> tuple[TestedPart, ...]:
        """The parts that no test covers."""
        return tuple(each for each in self.parts if not each.is_covered)


def coverage_text(coverage: TestCoverage) -> str:
    """Return one sentence: how many datasets, flows and expectations the tests cover."""
    if not coverage.parts:
        return "No test used the fixture `pipeline`, so nothing is covered."
    counts = []
    for part, word in ((Part.DATASET, "compared"), (Part.FLOW, "ran"), (Part.EXPECTATION, "seen failing")):
        parts = coverage.of_part(part)
        verb = {Part.FLOW: ""}.get(part, "were ")
        counts.append(f"{sum(each.is_covered for each in parts)} of {len(parts)} {part.value}s {verb}{word}")
    return f"Covered: {', '.join(counts)}."


def uncovered_table(coverage: TestCoverage) -> Table:
    """Return one row for each dataset, flow and expectation that no test covers."""
    columns = (Column(name="not covered", wraps=False), Column(name="what", wraps=False), "why", "declared at")
    rows = [
        (_name(each), each.part.value, Cell(text=_reason(each), tone=Tone.WARNING), each.location or "")
        for each in coverage.uncovered
    ]
    return Table.of(columns, rows)


def run_json(outcomes: Iterable[TestOutcome], coverage: TestCoverage) -> dict[str, Any]:
    """Return the outcomes, and all parts of the coverage by kind, with full names."""
    covered = {f"{part.value}s": [_json(each) for each in coverage.of_part(part)] for part in Part}
    return {"tests": [asdict(each) for each in outcomes], "coverage": covered}


def _json(part: TestedPart) -> dict[str, Any]:
    value = asdict(part)
    del value["part"]
    return value


def _name(part: TestedPart) -> str:
    return f"{part.dataset}: {part.name}" if part.part is Part.EXPECTATION else part.name


def _reason(part: TestedPart) -> str:
    is_seen = part.part is Part.DATASET and part.is_updated
    return f"updated, but never {_COVERED_BY[part.part]}" if is_seen else f"never {_COVERED_BY[part.part]}"
