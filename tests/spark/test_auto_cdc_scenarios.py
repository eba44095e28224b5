"""The catalogue of named AUTO CDC scenarios: batches in, rows out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.declare.specs import AutoCdcSpec, ColumnSelection
from tests.support.cdc_cases import CHANGES, TRUNCATING, case_world, play, rows_by_case
from tests.support.cdc_scenarios import Scenario, read_scenarios

FOLDER = Path(__file__).parent / "scenarios"
HISTORY = replace(CHANGES, scd_type=2)
TRACKING = replace(HISTORY, track_history=ColumnSelection(columns=("a",)))
IGNORING = replace(CHANGES, ignore_null_updates=ColumnSelection())


def outcomes(
    spark: SparkSession, root: Path, scenarios: tuple[Scenario, ...], spec: AutoCdcSpec, *, other: AutoCdcSpec | None
) -> dict[str, frozenset[tuple[object, ...]]]:
    """Return the final rows of each scenario, by name."""
    world = case_world(spark, root, spec, other=other)
    play(world, scenarios)
    interval = ("__START_AT", "__END_AT") if spec.scd_type == 2 else ()
    found = rows_by_case(world, ("k", "a", "b", *interval))
    return {scenario.name: found.get(index, frozenset()) for index, scenario in enumerate(scenarios)}


@pytest.mark.parametrize(
    ("file", "spec", "other"),
    [
        ("scd1.txt", CHANGES, None),
        ("scd2.txt", HISTORY, None),
        ("scd2_tracked.txt", TRACKING, None),
    ],
)
def test_each_scenario_ends_in_its_rows(
    interpreting: SparkSession, tmp_path: Path, file: str, spec: AutoCdcSpec, other: AutoCdcSpec | None
) -> None:
    """Each line of the catalogue ends in its rows; the lines of a file share a table, each with its own keys."""
    scenarios = read_scenarios(FOLDER / file)
    assert {s.name: s.rows for s in scenarios} == outcomes(interpreting, tmp_path, scenarios, spec, other=other)


@pytest.mark.parametrize(
    ("file", "spec", "other"),
    [
        ("scd1_ignore_null.txt", IGNORING, CHANGES),
        ("scd2_ignore_null.txt", replace(IGNORING, scd_type=2), HISTORY),
    ],
)
def test_each_scenario_with_ignored_nulls_ends_in_its_rows_by_generated_code(
    compiling: SparkSession, tmp_path: Path, file: str, spec: AutoCdcSpec, other: AutoCdcSpec | None
) -> None:
    """Users' sessions generate code; these flows have all expressions of a batch of their type."""
    scenarios = read_scenarios(FOLDER / file)
    assert {s.name: s.rows for s in scenarios} == outcomes(compiling, tmp_path, scenarios, spec, other=other)


TRUNCATES = read_scenarios(FOLDER / "scd1_truncate.txt")


def truncates_of(scenario: Scenario) -> tuple[tuple[int, str, int | None], ...]:
    """The turns, flows and sequences of a scenario's truncates."""
    return tuple(
        (turn, called, sequence)
        for turn, (called, events) in enumerate(scenario.batches)
        for *_, operation, sequence in events
        if operation == "truncate"
    )


@pytest.fixture(scope="module")
def truncated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, frozenset[Any]]:
    """The final rows of each scenario with truncates: those with the same truncates share a table."""
    together: dict[tuple[tuple[int, str, int | None], ...], list[Scenario]] = defaultdict(list)
    for scenario in TRUNCATES:
        together[truncates_of(scenario)].append(scenario)
    found: dict[str, frozenset[Any]] = {}
    for scenarios in together.values():
        found |= outcomes(spark, tmp_path_factory.mktemp("truncated"), tuple(scenarios), TRUNCATING, other=None)
    return found


@pytest.mark.parametrize("scenario", TRUNCATES, ids=lambda scenario: scenario.name)
def test_a_scenario_with_truncates_ends_in_its_rows(
    truncated: Mapping[str, frozenset[Any]], scenario: Scenario
) -> None:
    """A truncate affects every key, so only scenarios with the same truncates share a table."""
    assert scenario.rows == truncated[scenario.name]
