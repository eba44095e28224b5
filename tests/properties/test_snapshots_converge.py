"""Any series of snapshots ends in the oracle's rows, wherever it dies and however often one comes again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.declare.specs import ColumnSelection
from framework.foundation.failpoints import arm, disarm
from tests.support.cdc_histories import random_from
from tests.support.snapshot_world import SPEC, Row, SnapshotWorld

# CI takes the same snapshots at each run, so that a change is judged and not the draw: SLUICE_SEED replays another.
WORLDS = int(os.environ.get("SLUICE_WORLDS", "200"))
SEED = int(os.environ.get("SLUICE_SEED", "294"))
VERSIONS = (3, 4, 7, 8)

HISTORY = replace(SPEC, scd_type=2)
KINDS = {
    "scd1": (SPEC, (0, 1)),
    "scd2": (HISTORY, (0, 1)),
    "scd2_tracked": (replace(HISTORY, track_history=ColumnSelection(columns=("a",))), (0,)),
}

Values = tuple[str | None, str | None]
Rows = Mapping[str, Values]


class Stopped(BaseException):
    """The process dies here: nothing may catch it on the way."""


def stop() -> None:
    """Die."""
    raise Stopped


def deal(random: Random) -> list[list[Rows]]:
    """Per world its snapshots: few keys and values, so that returns and standstills are common."""
    options = (None, "x", "y")

    def rows() -> Rows:
        return {key: (random.choice(options), random.choice(options)) for key in "km" if random.random() < 0.7}

    worlds = []
    for _ in range(WORLDS):
        series = [rows()]
        while len(series) < len(VERSIONS):
            series.append(series[-1] if random.random() < 0.25 else rows())
        worlds.append(series)
    return worlds


def history(series: Sequence[Rows], tracked: Sequence[int]) -> frozenset[Row]:
    """The oracle: key, values, and from which version to which each row was so; one snapshot after the other."""
    done: set[Row] = set()
    current: dict[str, tuple[Values, int]] = {}
    for version, rows in zip(VERSIONS, series, strict=True):
        for key in [*current]:
            values, start = current[key]
            goes_on = key in rows and all(values[each] == rows[key][each] for each in tracked)
            if not goes_on:
                done.add((key, *values, start, version))
                del current[key]
        for key, values in rows.items():
            current[key] = (values, current[key][1] if key in current else version)
    return frozenset(done | {(key, *values, start, None) for key, (values, start) in current.items()})


def dies(world: SnapshotWorld, place: str, version: int, rows: list[Row], ordinal: int) -> bool:
    """Whether a snapshot passed the place, and the process died there."""
    arm(place, action=stop)
    try:
        world.take(version, rows, ordinal=ordinal)
    except Stopped:
        return True
    finally:
        disarm()
    return False


@pytest.mark.parametrize("called", KINDS)
def test_any_series_of_snapshots_ends_in_the_oracles_rows(
    interpreting: SparkSession, tmp_path: Path, called: str
) -> None:
    """Dying between the two commits or after them, and coming again under any number, changes nothing."""
    spec, tracked = KINDS[called]
    worlds = deal(random_from(SEED))
    world = SnapshotWorld(interpreting, tmp_path, spec)
    between = "cdc.after_tombstones" if called == "scd1" else "cdc.after_events"
    died = []
    for turn, version in enumerate(VERSIONS):
        rows: list[Row] = [(n, key, *values) for n, series in enumerate(worlds) for key, values in series[turn].items()]
        if turn:
            died.append(dies(world, between if turn == 1 else "cdc.after_merge", version, rows, turn))
        # A claimed version comes again under its number, once under another: then there is nothing left to change.
        world.take(version, rows, ordinal=10 if turn == len(VERSIONS) - 1 else turn)
    # Where all values are tracked no event is hidden by a later one, so there is nothing to remember first.
    assert died == [called != "scd2", True, True]
    found = world.rows()
    for number, series in enumerate(worlds):
        full = history(series, tracked)
        is_open = frozenset(row[:3] for row in full if row[-1] is None)
        told = f"world {number} of {called}, replay: SLUICE_SEED={SEED} SLUICE_WORLDS={WORLDS}: {series}"
        assert found.get(number, frozenset()) == (full if spec.scd_type == 2 else is_open), told
        assert is_open == {(key, *values) for key, values in series[-1].items()}
