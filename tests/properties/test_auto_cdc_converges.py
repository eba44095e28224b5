"""AUTO CDC ends in the oracle's rows, whatever comes in which order, how often, and wherever it dies."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from framework.cdc import scd1 as type1
from framework.cdc.columns import fingerprint
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.failpoints import arm, disarm
from tests.support.cdc_histories import (
    DDL,
    Authorship,
    History,
    Row,
    Turn,
    deal,
    expected_rows,
    random_from,
    writes_all,
    writes_listed,
    writes_values,
)
from tests.support.cdc_oracle import Tie, scd1, scd2
from tests.support.cdc_world import ALL_ROWS, NO_ROWS, World

# CI deals the same histories at each run, so that a change is judged and not the draw: SLUICE_SEED=random draws anew.
WORLDS = int(os.environ.get("SLUICE_WORLDS", "150"))
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "1"))
SEED = os.environ.get("SLUICE_SEED", "294")
# Truncates are merged too, so of the kinds with a change data feed CI plays that of histories only.
EVERY_KIND = os.environ.get("SLUICE_KINDS") == "all"

SHOWN = ColumnSelection(columns=("op", "seq", "listed"), excluded=True)
CHANGES = AutoCdcSpec(keys=("test", "k"), sequence_by="seq", apply_as_deletes="op = 'delete'", columns=SHOWN)
IGNORING = replace(CHANGES, ignore_null_updates=ColumnSelection())
LISTING = replace(CHANGES, columns_to_update="listed")


class Stopped(BaseException):
    """The process dies here: nothing may catch it on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way to keep a target, and what its flows' events write; with a change data feed only MERGE can keep it."""

    changes: AutoCdcSpec
    other: AutoCdcSpec
    authorship: Mapping[str, Authorship]
    tracked: Sequence[int] = (0, 1, 2)
    is_fed: bool = False


WHOLE: Mapping[str, Authorship] = dict.fromkeys(("changes", "other", "snapshot"), writes_all)
PARTS = {**WHOLE, "changes": writes_values, "other": writes_listed}
FIRST = ColumnSelection(columns=("a",))


def in_history(spec: AutoCdcSpec, tracked: ColumnSelection) -> AutoCdcSpec:
    """The flow with SCD type 2."""
    return replace(spec, scd_type=2, track_history=tracked, apply_as_truncates=None)


def truncating(spec: AutoCdcSpec) -> AutoCdcSpec:
    """The flow with truncates."""
    return replace(spec, apply_as_truncates="op = 'truncate'")


ALL = ColumnSelection()
KINDS = {
    "scd1": Kind(changes=truncating(CHANGES), other=CHANGES, authorship=WHOLE),
    "scd1_parts": Kind(changes=truncating(IGNORING), other=LISTING, authorship=PARTS),
    "scd1_parts_fed": Kind(changes=truncating(IGNORING), other=LISTING, authorship=PARTS, is_fed=True),
    "scd2": Kind(changes=in_history(CHANGES, ALL), other=in_history(CHANGES, ALL), authorship=WHOLE),
    "scd2_tracked": Kind(
        changes=in_history(CHANGES, FIRST), other=in_history(CHANGES, FIRST), authorship=WHOLE, tracked=(0,)
    ),
    "scd2_parts": Kind(changes=in_history(IGNORING, ALL), other=in_history(LISTING, ALL), authorship=PARTS),
    "scd2_parts_tracked": Kind(
        changes=in_history(IGNORING, FIRST),
        other=in_history(LISTING, FIRST),
        authorship=PARTS,
        tracked=(0,),
        is_fed=True,
    ),
}


def stop() -> None:
    """Die."""
    raise Stopped


def world_of(spark: SparkSession, root: Path, kind: Kind) -> World:
    """An empty target with the three flows."""
    snapshot = AutoCdcSpec(
        keys=("test", "k"), sequence_by="0", columns=SHOWN, scd_type=kind.changes.scd_type,
        track_history=kind.changes.track_history,
    )  # fmt: skip
    return World(
        spark,
        root,
        {"changes": (kind.changes, DDL, False), "other": (kind.other, DDL, False), "snapshot": (snapshot, DDL, True)},
        {"delta.enableChangeDataFeed": "true"} if kind.is_fed else {},
    )


def deliver(world: World, history: History) -> None:
    """Hand the turns to the writers, dying and repeating as the history says."""
    waiting: list[tuple[int, Turn]] = []
    for number, turn in enumerate(history.turns):
        if any(cut.flow == turn.flow for _, cut in waiting):
            retry(world, waiting)
        if turn.place is not None and dies(world, turn, number):
            waiting.append((number, turn))
            if not turn.is_late:
                retry(world, waiting)
            continue
        apply(world, turn, number)
        retry(world, waiting)
        if turn.repeated:
            world.generation[turn.flow] += 1 if turn.anew else 0
            apply(world, turn, number)
    retry(world, waiting)


def dies(world: World, turn: Turn, number: int) -> bool:
    """Whether the turn's place was passed, and the process died there."""
    assert turn.place is not None
    arm(turn.place, action=stop)
    try:
        apply(world, turn, number)
    except Stopped:
        return True
    finally:
        disarm()
    return False


def retry(world: World, waiting: list[tuple[int, Turn]]) -> None:
    """Deliver again what was cut."""
    while waiting:
        number, turn = waiting.pop(0)
        apply(world, turn, number)


def apply(world: World, turn: Turn, number: int) -> None:
    """Deliver a turn under its number; in one turn its facts come to the table's rows, in the next the rows to them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type1, "SHUFFLED_ROWS_A_FACT", ALL_ROWS if number % 2 else NO_ROWS)
        world.apply(turn.flow, [event.row() for event in turn.events], batch_id=number)


def tie_of(world: World) -> Tie:
    """What decides between upserts at one point: the product's own fingerprint of their values."""
    options = (None, "x", "y")
    values = [(a, b, c) for a in options for b in options for c in options]
    frame = world.frame("changes", [(None, None, a, (b, c), None, None, None) for a, b, c in values])
    rows = frame.select("a", "n.b", "n.c", fingerprint(world.target.value_fields).alias("content")).collect()
    contents = {tuple(row[:3]): row["content"] for row in rows}
    assert len(set(contents.values())) == len(values)
    return contents.__getitem__


def shown(world: World) -> Mapping[int, set[Row]]:
    """What the target shows of each world; no row twice."""
    interval = ["__START_AT", "__END_AT"] if world.target.scd_type == 2 else []
    rows = world.spark.table(world.table.sql).select("test", "k", "a", "n.b", "n.c", *interval).collect()
    found: dict[int, set[Row]] = {}
    for row in rows:
        mine = found.setdefault(row["test"], set())
        assert tuple(row[1:]) not in mine, f"twice in world {row['test']}: {tuple(row[1:])}"
        mine.add(tuple(row[1:]))
    return found


def overlaps(rows: set[Row]) -> Iterator[tuple[Row, Row]]:
    """Pairs of intervals of one key that share a point."""
    ordered = sorted(rows, key=lambda row: (row[0], row[-2]))
    for before, after in pairwise(ordered):
        if before[0] == after[0] and (before[-1] is None or before[-1] > after[-2]):  # type: ignore[operator]
            yield before, after


def check(spark: SparkSession, called: str, seed: int) -> None:
    """Hold one random history of each of many worlds to the oracle."""
    kind = KINDS[called]
    scd_type = kind.changes.scd_type
    history = deal(random_from(seed), worlds=WORLDS, truncating=scd_type == 1, authorship=kind.authorship)
    with tempfile.TemporaryDirectory() as folder:
        world = world_of(spark, Path(folder), kind)
        tie = tie_of(world)
        deliver(world, history)
        found = shown(world)
    for number in range(WORLDS):
        mine = found.get(number, set())
        expected = expected_rows(history, number, tie, scd_type=scd_type, tracked=kind.tracked)
        assert expected == mine, f"{report(called, seed, history, number)}\n  {difference(expected, mine)}"
        if scd_type == 2:
            assert list(overlaps(mine)) == []
            newest = {(key, *values) for key, values in scd1(history.events(number), tie)}
            assert newest == {row[:-2] for row in mine if row[-1] is None}


def report(called: str, seed: int, history: History, number: int) -> str:
    """What was dealt, and how to see it again."""
    return (
        f"world {number} of {called}, seed {seed}; replay: SLUICE_SEED={seed} SLUICE_WORLDS={WORLDS} "
        f"python -m pytest tests/properties/test_auto_cdc_converges.py -k '[{called}]'\n{history.told(number)}"
    )


def difference(expected: set[Row], found: set[Row]) -> str:
    """What went wrong."""
    return f"missing: {sorted(expected - found, key=repr)}; too many: {sorted(found - expected, key=repr)}"


@pytest.mark.parametrize("called", KINDS if EVERY_KIND else [called for called in KINDS if called != "scd1_parts_fed"])
def test_any_delivery_ends_in_the_oracles_rows(interpreting: SparkSession, called: str) -> None:
    """Any order, batching, repetition, interleaving of flows and death at a failpoint ends in the same rows."""
    drawn: list[int] = []

    @settings(
        max_examples=EXAMPLES + 1,
        deadline=None,
        phases=[Phase.generate],  # one example is hundreds of worlds, of which the report shows one: no shrinking
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(seed=st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        if drawn:  # the first is always 0, not by chance
            check(interpreting, called, seed)
        drawn.append(seed)

    if SEED != "random":
        check(interpreting, called, int(SEED))
    else:
        run()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_scd_type_1_is_the_open_rows_of_type_2(seed: int) -> None:
    """The oracle's two readings of the same events agree, whatever is tracked."""
    history = deal(random_from(seed), worlds=5, truncating=False, authorship=PARTS)
    for number in range(history.worlds):
        events = history.events(number)
        for tracked in ((0, 1, 2), (0,), ()):
            rows = scd2(events, hash, tracked)
            assert scd1(events, hash) == {(key, values) for key, values, _, end in rows if end is None}
