"""The catalogue of named scenarios of snapshots: snapshots in, rows out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc.model.metrics import CdcMetrics
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import OperationError
from tests.support.snapshot_scenarios import SnapshotScenario, read_snapshot_scenarios
from tests.support.snapshot_world import SPEC, SnapshotWorld

FOLDER = Path(__file__).parent / "scenarios"
HISTORY = replace(SPEC, scd_type=2)
TRACKING = replace(HISTORY, track_history=ColumnSelection(columns=("a",)))
CATALOGUES = [("snapshots_scd1.txt", SPEC), ("snapshots_scd2.txt", HISTORY), ("snapshots_scd2_tracked.txt", TRACKING)]

Key = tuple[int, str]
Values = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A target of all scenarios of a file.

    Args:
        world: the target.
        scenarios: the scenarios, by their number in the target.
        taken: the keys and values of each snapshot, and what it counted.
    """

    world: SnapshotWorld
    scenarios: tuple[SnapshotScenario, ...]
    taken: tuple[tuple[Mapping[Key, Values], CdcMetrics], ...]


@pytest.fixture(scope="module", params=CATALOGUES, ids=[file for file, _ in CATALOGUES])
def played(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All scenarios of a file share a table and its snapshots; the last snapshot is that before it once more."""
    file, spec = request.param
    scenarios = read_snapshot_scenarios(FOLDER / file)
    world = SnapshotWorld(spark.newSession(), tmp_path_factory.mktemp("snapshots"), spec)
    versions = max(version for scenario in scenarios for version, _ in scenario.snapshots)
    known: dict[int, tuple[tuple[str, str | None, str | None], ...]] = {}
    taken = []
    for version in range(1, versions + 2):
        for index, scenario in enumerate(scenarios):
            known[index] = dict(scenario.snapshots).get(version, known.get(index, ()))
        rows = {(index, key): values for index, mine in known.items() for key, *values in mine}
        counted = world.take(version, [(*key, *values) for key, values in rows.items()])
        taken.append(({key: (a, b) for key, (a, b) in rows.items()}, counted))
    return Played(world=world, scenarios=scenarios, taken=tuple(taken))


def test_each_scenario_of_snapshots_ends_in_its_rows(played: Played) -> None:
    """Each line of the catalogue ends in its rows."""
    found = played.world.rows()
    assert {s.name: s.rows for s in played.scenarios} == {
        s.name: found.get(index, frozenset()) for index, s in enumerate(played.scenarios)
    }


def counts(spec: AutoCdcSpec, before: Mapping[Key, Values], after: Mapping[Key, Values]) -> CdcMetrics:
    """What a snapshot counts: the rows of its keys that are new, changed or gone."""
    new, gone = after.keys() - before.keys(), before.keys() - after.keys()
    changed = [key for key in after.keys() & before.keys() if after[key] != before[key]]
    if not (new or gone or changed):
        return CdcMetrics()
    rows = len(new) + len(changed) + len(gone)
    if spec.scd_type == 1:
        return CdcMetrics(rows=rows, upserted=len(new) + len(changed), deleted=len(gone))
    # A row ends, one begins, or both; a change of values that are not tracked rewrites one row.
    both = [key for key in changed if spec != TRACKING or after[key][0] != before[key][0]]
    return CdcMetrics(rows=rows, upserted=rows + len(both))


def test_a_snapshot_counts_what_it_changes_and_counts_once(played: Played) -> None:
    """Unchanged rows are not written; a repeated snapshot changes nothing."""
    snapshots = [rows for rows, _ in played.taken]
    spec = played.world.spec
    expected = [counts(spec, before, after) for before, after in zip([{}, *snapshots], snapshots, strict=False)]
    assert expected == [counted for _, counted in played.taken]
    assert expected[-1] == CdcMetrics()
    number = len(snapshots)
    rows = played.world.rows()
    assert played.world.take(number + 1, [], ordinal=number - 1).skipped
    assert played.world.rows() == rows


def test_an_invalid_snapshot_changes_nothing(interpreting: SparkSession, tmp_path: Path) -> None:
    """Neither one with two rows of a key nor one without a key; whatever the type, both are found before its merge."""
    world = SnapshotWorld(interpreting, tmp_path, HISTORY)
    valid = [(0, "k", "a", "b"), (0, "m", "c", "d")]
    world.take(1, valid)
    rows = world.rows()
    for bad, condition in (
        ([(0, "k", "z", "z"), (0, "k", "z", "y")], "APPLY_CHANGES_FROM_SNAPSHOT_ERROR.DUPLICATE_KEY_VIOLATION"),
        ([*valid, (0, None, "z", "z")], "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY"),
    ):
        with pytest.raises(OperationError) as caught:
            world.take(2, bad, ordinal=2)
        assert caught.value.condition == condition
    assert world.rows() == rows == {0: frozenset((*values, 1, None) for _, *values in valid)}
