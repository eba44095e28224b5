"""Any series of snapshots ends in the oracle's rows, with a crash at any failpoint and any repetition."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from framework.declare.specs import ColumnSelection
from framework.foundation.failpoints import arm, disarm
from tests.support.cdc_draws import Alphabet, draw_alphabets, numbered
from tests.support.cdc_histories import random_from
from tests.support.seeds import fresh_seed, kept_seeds, repeatable
from tests.support.snapshot_world import SPEC, Row, SnapshotWorld

WORLDS = int(os.environ.get("SLUICE_WORLDS", "200"))
FRESH_RUNS = int(os.environ.get("SLUICE_FRESH_RUNS", "1"))
SEED = int(os.environ.get("SLUICE_SEED", "294"))
VERSIONS = (3, 4, 7, 8)

HISTORY = replace(SPEC, scd_type=2)
KINDS = {
    "snapshots_scd1": (SPEC, (0, 1)),
    "snapshots_soft": (replace(SPEC, soft_deletes="gone"), (0, 1)),
    "snapshots_scd2": (HISTORY, (0, 1)),
    "snapshots_scd2_tracked": (replace(HISTORY, track_history=ColumnSelection(columns=("a",))), (0,)),
}
FIXED = ("snapshots_scd2_tracked", "snapshots_soft")
"""Kinds that each run of CI plays: the ones that remember most. The fresh run plays any kind."""

Values = tuple[str | None, str | None]
Rows = Mapping[str, Values]


class Stopped(BaseException):
    """Simulates the death of the process; no handler may catch it."""


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


def flagged(series: Sequence[Rows]) -> frozenset[Row]:
    """The oracle of soft deletes: the last values of each key, and whether the last snapshot lacks it."""
    last = {key: values for rows in series for key, values in rows.items()}
    return frozenset((key, *values, key not in series[-1]) for key, values in last.items())


def ddl_of(alphabets: Sequence[Alphabet]) -> str:
    """The schema of the source."""
    k, a, b = (alphabet.case.ddl for alphabet in alphabets)
    return f"test int, k {k}, a {a}, b {b}"


def frame_of(session: SparkSession, rows: Sequence[tuple[int, str, *Values]], typed: Sequence[Alphabet]) -> DataFrame:
    """A snapshot, whose symbols are values of the drawn types."""
    spelled = numbered(typed, [row[1:] for row in rows])
    found = [(row[0], *numbers) for row, numbers in zip(rows, spelled, strict=True)]
    written = [f"{alphabet.written(name)} AS {name}" for alphabet, name in zip(typed, "kab", strict=True)]
    return session.createDataFrame(found, "test int, k int, a int, b int").selectExpr("test", *written)


def symbols(schema: StructType, typed: Sequence[Alphabet]) -> list[str]:
    """The SQL of the symbols of a table's key and values."""
    return [f"{each.read(name, schema[name].dataType)} AS {name}" for each, name in zip(typed, "kab", strict=True)]


def dies(world: SnapshotWorld, place: str, version: int, rows: DataFrame, ordinal: int) -> bool:
    """Return whether the process died at the snapshot's failpoint."""
    arm(place, action=stop)
    try:
        world.take_frame(version, rows, ordinal=ordinal)
    except Stopped:
        return True
    finally:
        disarm()
    return False


def check(spark: SparkSession, called: str, seed: int) -> None:
    """Compare one series of snapshots of each of many worlds with the oracle."""
    spec, tracked = KINDS[called]
    typed = draw_alphabets(seed, table=list(KINDS).index(called), values=2)
    worlds = deal(random_from(seed))
    with tempfile.TemporaryDirectory() as folder, repeatable(__file__, called, seed, "\n".join(map(str, typed))):
        world = SnapshotWorld(spark, Path(folder), spec, ddl=ddl_of(typed))
        died = take_all(world, worlds, typed)
        # Where all values are tracked no event is hidden by a later one, so there is nothing to remember first.
        assert died == [called != "snapshots_scd2", True]
        flags = [] if spec.soft_deletes is None else [spec.soft_deletes]
        found = world.rows(*symbols(world.target.table_schema, typed), *flags)
        for number, series in enumerate(worlds):
            full = history(series, tracked)
            is_open = frozenset(row[:3] for row in full if row[-1] is None)
            expected = full if spec.scd_type == 2 else flagged(series) if flags else is_open
            assert expected == found.get(number, frozenset()), f"world {number}: {series}"
            assert is_open == {(key, *values) for key, values in series[-1].items()}


def take_all(world: SnapshotWorld, worlds: Sequence[Sequence[Rows]], typed: Sequence[Alphabet]) -> list[bool]:
    """Apply the snapshots in order; the process dies between the commits of the second and after those of the last."""
    between = "cdc.after_tombstones" if world.target.scd_type == 1 else "cdc.after_events"
    places = {1: between, len(VERSIONS) - 1: "cdc.after_merge"}
    died = []
    for turn, version in enumerate(VERSIONS):
        rows = [(n, key, *values) for n, series in enumerate(worlds) for key, values in series[turn].items()]
        frame = frame_of(world.spark, rows, typed)
        if turn in places:
            died.append(dies(world, places[turn], version, frame, turn))
        # A claimed version is repeated with its number, and once with another one: then nothing changes.
        world.take_frame(version, frame, ordinal=10 if turn == len(VERSIONS) - 1 else turn)
    return died


@pytest.mark.parametrize(("called", "seed"), [(called, SEED) for called in FIXED] + kept_seeds(KINDS))
def test_any_series_of_snapshots_ends_in_the_oracles_rows(interpreting: SparkSession, called: str, seed: int) -> None:
    """A crash between or after the two commits, and a repetition under any number, changes nothing."""
    check(interpreting, called, seed)


@pytest.mark.parametrize("run", range(FRESH_RUNS))
def test_a_fresh_series_of_snapshots_ends_in_the_oracles_rows(interpreting: SparkSession, run: int) -> None:
    """The same holds for a kind of target, types and snapshots that no run had before."""
    seed = fresh_seed()
    check(interpreting, list(KINDS)[(seed + run) % len(KINDS)], seed)
