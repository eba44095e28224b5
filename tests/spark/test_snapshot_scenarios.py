"""The catalogue of named scenarios of snapshots: snapshots in, rows out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc.model.metrics import CdcMetrics
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from tests.support.snapshot_scenarios import read_snapshot_scenarios
from tests.support.snapshot_world import SPEC, SnapshotWorld

FOLDER = Path(__file__).parent / "scenarios"
HISTORY = replace(SPEC, scd_type=2)
TRACKING = replace(HISTORY, track_history=ColumnSelection(columns=("a",)))


@pytest.mark.parametrize(
    ("file", "spec"),
    [("snapshots_scd1.txt", SPEC), ("snapshots_scd2.txt", HISTORY), ("snapshots_scd2_tracked.txt", TRACKING)],
)
def test_each_scenario_of_snapshots_ends_in_its_rows(
    interpreting: SparkSession, tmp_path: Path, file: str, spec: AutoCdcSpec
) -> None:
    """All scenarios of a file share a table and its snapshots."""
    scenarios = read_snapshot_scenarios(FOLDER / file)
    world = SnapshotWorld(interpreting, tmp_path, spec)
    known: dict[int, tuple[tuple[str, str | None, str | None], ...]] = {}
    for version in range(1, 5):
        for index, scenario in enumerate(scenarios):
            known[index] = dict(scenario.snapshots).get(version, known.get(index, ()))
        world.take(version, [(index, *row) for index, rows in known.items() for row in rows])
    found = world.rows()
    assert {s.name: s.rows for s in scenarios} == {
        s.name: found.get(index, frozenset()) for index, s in enumerate(scenarios)
    }


@pytest.mark.parametrize("spec", [SPEC, HISTORY], ids=["scd1", "scd2"])
def test_a_snapshot_counts_what_it_changes_and_counts_once(
    interpreting: SparkSession, tmp_path: Path, spec: AutoCdcSpec
) -> None:
    """Unchanged rows are not written; an invalid or repeated snapshot changes nothing."""
    world = SnapshotWorld(interpreting, tmp_path, spec)
    world.take(1, [(0, "k", "a", "b"), (0, "m", "c", "d"), (0, "n", "e", "f")])
    second = [(0, "k", "a", "b"), (0, "m", "x", "d"), (0, "o", "g", "h")]
    in_history = spec.scd_type == 2  # two rows end, two begin
    changed = CdcMetrics(rows=3, upserted=4 if in_history else 2, deleted=0 if in_history else 1)
    assert world.take(2, second, ordinal=2) == changed
    rows = world.rows()
    assert world.take(3, second, ordinal=3) == CdcMetrics()
    assert world.take(4, [], ordinal=2).skipped
    for bad, condition in (
        ([*second, (0, "k", "z", "z")], "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.DUPLICATE_KEY_VIOLATION"),
        ([*second, (0, None, "z", "z")], "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY"),
    ):
        with pytest.raises(OperationError) as caught:
            world.take(5, bad, ordinal=5)
        assert caught.value.condition == condition
    assert world.rows() == rows
