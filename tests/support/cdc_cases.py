"""Many cases in one table: each case has separate keys, so that one merge tests all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from framework.declare.specs import AutoCdcSpec, ColumnSelection
from tests.support.cdc_scenarios import EventRow, Scenario
from tests.support.cdc_world import World

DDL = "test int, k string, a string, b string, op string, seq int"
SNAPSHOT_DDL = "test int, k string, a string, b string"
KEYS = ("test", "k")
CHANGES = AutoCdcSpec(
    keys=KEYS,
    sequence_by="seq",
    apply_as_deletes="op = 'delete'",
    columns=ColumnSelection(columns=("op", "seq"), excluded=True),
)
TRUNCATING = replace(CHANGES, apply_as_truncates="op = 'truncate'")
SNAPSHOT = AutoCdcSpec(keys=KEYS, sequence_by="0")


def case_world(spark: SparkSession, root: Path, changes: AutoCdcSpec, *, other: AutoCdcSpec | None = None) -> World:
    """A target with two change flows and a snapshot flow."""
    snapshot = replace(SNAPSHOT, scd_type=changes.scd_type, track_history=changes.track_history)
    flows = {
        "changes": (changes, DDL, False),
        "other": (other or changes, DDL, False),
        "snapshot": (snapshot, SNAPSHOT_DDL, True),
    }
    return World(spark, root, flows)


def source_row(test: int, event: EventRow, called: str) -> tuple[object, ...]:
    """An event as a row of its flow's source; a truncate has no key, not even a test's."""
    key, a, b, operation, sequence = event
    if called == "snapshot":
        return (test, key, a, b)
    return (None if operation == "truncate" else test, key, a, b, operation, sequence)


def play(world: World, scenarios: Sequence[Scenario]) -> None:
    """Apply the batches of all scenarios, those of one flow and one turn together; the longest scenarios come first."""
    waiting = {index: list(scenario.batches) for index, scenario in enumerate(scenarios)}
    while any(waiting.values()):
        heads = [(len(batches), batches[0][0]) for batches in waiting.values() if batches]
        longest = [called for length, called in heads if length == max(heads)[0]]
        called = max(sorted(set(longest)), key=[called for _, called in heads].count)
        turn = {index: batches.pop(0)[1] for index, batches in waiting.items() if batches and batches[0][0] == called}
        world.apply(called, [source_row(index, event, called) for index, events in turn.items() for event in events])


def rows_by_case(world: World, columns: Sequence[str]) -> Mapping[int, frozenset[tuple[object, ...]]]:
    """Return the displayed rows of each case."""
    found: dict[int, set[tuple[object, ...]]] = {}
    for test, *row in world.rows("test", *columns):
        assert isinstance(test, int)
        found.setdefault(test, set()).add(tuple(row))
    return {test: frozenset(rows) for test, rows in found.items()}
