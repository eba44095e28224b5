"""AUTO CDC ends in the oracle's rows, for any order and repetition of events and a crash at any failpoint.

Keys and values have types drawn from all types that Delta stores. Most runs use the same seed, so that CI tests the
change and not the draw; one run uses a fresh seed. A seed that failed goes to `kept_seeds.txt`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.cdc.delta import transaction_write
from framework.cdc.model.equality import fingerprint
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.failpoints import arm, disarm
from tests.support.cdc_draws import draw_alphabets
from tests.support.cdc_histories import (
    TRUNCATED,
    Authorship,
    Dealt,
    History,
    Row,
    Turn,
    TypedHistories,
    deal,
    expected_rows,
    random_from,
    writes_all,
    writes_listed,
    writes_values,
)
from tests.support.cdc_oracle import DELETES_FIRST, RANK, Tie, Values, scd1, scd2
from tests.support.cdc_world import ALL_ROWS, NO_ROWS, World
from tests.support.seeds import fresh_seed, kept_seeds, repeatable

WORLDS = int(os.environ.get("SLUICE_WORLDS", "150"))
FRESH_RUNS = int(os.environ.get("SLUICE_FRESH_RUNS", "1"))
SEED = int(os.environ.get("SLUICE_SEED", "294"))

SHOWN = ColumnSelection(columns=("op", "seq", "listed"), excluded=True)
CHANGES = AutoCdcSpec(keys=("test", "k"), sequence_by="seq", apply_as_deletes="op = 'delete'", columns=SHOWN)
IGNORING = replace(CHANGES, ignore_null_updates=ColumnSelection())
LISTING = replace(CHANGES, columns_to_update="listed")


class Stopped(BaseException):
    """Simulates the death of the process; no handler may catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of target, and the columns that events write.

    With a change data feed, only MERGE can write it. Deletes are first where the flows read a change data feed.
    """

    changes: AutoCdcSpec
    other: AutoCdcSpec
    authorship: Mapping[str, Authorship]
    tracked: Sequence[int] = (0, 1, 2)
    is_fed: bool = False
    deletes_first: bool = False

    @property
    def rank(self) -> Mapping[str, int]:
        """The order of operations at one point."""
        return DELETES_FIRST if self.deletes_first else RANK


WHOLE: Mapping[str, Authorship] = dict.fromkeys(("changes", "other", "snapshot"), writes_all)
PARTS = {**WHOLE, "changes": writes_values, "other": writes_listed}
FIRST = ColumnSelection(columns=("a",))


def in_history(spec: AutoCdcSpec, tracked: ColumnSelection) -> AutoCdcSpec:
    """The flow with SCD type 2."""
    return replace(spec, scd_type=2, track_history=tracked, apply_as_truncates=None)


def truncating(spec: AutoCdcSpec) -> AutoCdcSpec:
    """The flow with truncates."""
    return replace(spec, apply_as_truncates="op = 'truncate'")


def softly(spec: AutoCdcSpec) -> AutoCdcSpec:
    """The flow with soft deletes."""
    return replace(spec, soft_deletes="gone")


ALL = ColumnSelection()
KINDS = {
    "scd1": Kind(changes=truncating(CHANGES), other=CHANGES, authorship=WHOLE),
    "scd1_parts": Kind(changes=truncating(IGNORING), other=LISTING, authorship=PARTS),
    "scd1_parts_fed": Kind(changes=truncating(IGNORING), other=LISTING, authorship=PARTS, is_fed=True),
    "scd1_soft": Kind(changes=truncating(softly(CHANGES)), other=CHANGES, authorship=WHOLE),
    "scd1_soft_fed": Kind(changes=truncating(softly(CHANGES)), other=CHANGES, authorship=WHOLE, is_fed=True),
    "scd1_soft_parts": Kind(changes=truncating(softly(IGNORING)), other=LISTING, authorship=PARTS),
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
FEED = "_of_feed"
KINDS |= {f"{called}{FEED}": replace(kind, deletes_first=True) for called, kind in KINDS.items()}
FIXED = ("scd1_parts", "scd1_soft", "scd2_parts_tracked", "scd2_parts_of_feed")
"""Kinds that each run of CI plays: of each type, the one that remembers most. The fresh run plays any kind."""


def stop() -> None:
    """Die."""
    raise Stopped


def world_of(spark: SparkSession, root: Path, kind: Kind, typed: TypedHistories) -> World:
    """An empty target with the three flows."""
    ddl = typed.ddl
    snapshot = AutoCdcSpec(
        keys=("test", "k"), sequence_by="0", columns=SHOWN, scd_type=kind.changes.scd_type,
        track_history=kind.changes.track_history,
    )  # fmt: skip
    return World(
        spark,
        root,
        {"changes": (kind.changes, ddl, False), "other": (kind.other, ddl, False), "snapshot": (snapshot, ddl, True)},
        {"delta.enableChangeDataFeed": "true"} if kind.is_fed else {},
        deletes_first=kind.deletes_first,
    )


def deliver(world: World, history: History, typed: TypedHistories) -> None:
    """Deliver the turns to the writers, with the kills and repetitions of the history."""
    waiting: list[tuple[int, Turn]] = []
    for number, turn in enumerate(history.turns):
        if any(cut.flow == turn.flow for _, cut in waiting):
            retry(world, waiting, typed)
        if turn.place is not None and dies(world, turn, number, typed):
            waiting.append((number, turn))
            if not turn.is_late:
                retry(world, waiting, typed)
            continue
        apply(world, turn, number, typed)
        retry(world, waiting, typed)
        if turn.repeated:
            world.generation[turn.flow] += 1 if turn.anew else 0
            apply(world, turn, number, typed)
    retry(world, waiting, typed)


def dies(world: World, turn: Turn, number: int, typed: TypedHistories) -> bool:
    """Return whether the process died at the turn's failpoint; False if it was not reached."""
    assert turn.place is not None
    arm(turn.place, action=stop)
    try:
        apply(world, turn, number, typed)
    except Stopped:
        return True
    finally:
        disarm()
    return False


def retry(world: World, waiting: list[tuple[int, Turn]], typed: TypedHistories) -> None:
    """Redeliver the interrupted batch."""
    while waiting:
        number, turn = waiting.pop(0)
        apply(world, turn, number, typed)


def apply(world: World, turn: Turn, number: int, typed: TypedHistories) -> None:
    """Apply a turn as the batch with its number, written in one of four ways, in turn.

    Odd turns filter and shuffle rows, even turns broadcast the batch. Of four turns, two remove rows by Delta's job.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction_write, "SHUFFLED_ROWS_PER_KEY", ALL_ROWS if number % 2 else NO_ROWS)
        patch.setattr(transaction_write, "FEW_ROWS", ALL_ROWS if number % 4 < 2 else NO_ROWS)
        patch.setattr(transaction_write, "FILTERED_ROWS", NO_ROWS)
        world.apply_frame(turn.flow, typed.frame(world.spark, turn.events), batch_id=number)


def tie_of(world: World, typed: TypedHistories) -> Tie:
    """Return the tie-break between upserts at one point: the product's own fingerprint of their values."""
    options = (None, "x", "y")
    values = [(a, b, c) for a in options for b in options for c in options]
    frame = typed.frame(world.spark, [Dealt(TRUNCATED, "changes", "upsert", "", each) for each in values])
    content = fingerprint(world.target.value_fields).alias("content")
    rows = frame.select(*map(F.expr, typed.symbols(frame.schema)), content).collect()
    contents: dict[Values, int] = {(row["a"], row["b"], row["c"]): row["content"] for row in rows}
    assert contents.keys() == set(values)
    assert len(set(contents.values())) == len(values)
    return contents.__getitem__


def shown(world: World, typed: TypedHistories) -> Mapping[int, set[Row]]:
    """Return the rows that the target displays of each world, in symbols; no row is duplicated."""
    interval = ["__START_AT", "__END_AT"] if world.target.scd_type == 2 else []
    interval += [] if world.target.flag is None else [world.target.flag]
    table = world.spark.table(world.table.sql)
    rows = table.selectExpr("test", *typed.symbols(table.schema), *interval).collect()
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
    """Compare one random history of each of many worlds with the oracle."""
    kind = KINDS[called]
    scd_type = kind.changes.scd_type
    is_whole, is_soft = kind.authorship is WHOLE, kind.changes.soft_deletes is not None
    typed = TypedHistories(
        draw_alphabets(seed, table=list(KINDS).index(called.removesuffix(FEED)), values=3, structs=is_whole)
    )
    history = deal(random_from(seed), worlds=WORLDS, truncating=scd_type == 1, authorship=kind.authorship)
    with tempfile.TemporaryDirectory() as folder, repeatable(__file__, called, seed, str(typed)):
        world = world_of(spark, Path(folder), kind, typed)
        tie = tie_of(world, typed)
        deliver(world, history, typed)
        found = shown(world, typed)
        for number in range(WORLDS):
            mine = found.get(number, set())
            expected = expected_rows(
                history, number, tie, scd_type=scd_type, tracked=kind.tracked, rank=kind.rank, is_soft=is_soft
            )
            assert expected == mine, f"world {number}:\n{history.told(number)}\n  {difference(expected, mine)}"
            if is_soft and is_whole:
                living = {(key, *values) for key, values in scd1(history.events(number), tie, kind.rank)}
                assert living == {row[:-1] for row in mine if not row[-1]}
            if scd_type == 2:
                assert list(overlaps(mine)) == []
                newest = {(key, *values) for key, values in scd1(history.events(number), tie, kind.rank)}
                assert newest == {row[:-2] for row in mine if row[-1] is None}


def difference(expected: set[Row], found: set[Row]) -> str:
    """Return the differences to the oracle."""
    return f"missing: {sorted(expected - found, key=repr)}; too many: {sorted(found - expected, key=repr)}"


@pytest.mark.parametrize(("called", "seed"), [(called, SEED) for called in FIXED] + kept_seeds(KINDS))
def test_any_delivery_ends_in_the_oracles_rows(interpreting: SparkSession, called: str, seed: int) -> None:
    """Any order, batching, repetition, interleaving of flows and death at a failpoint ends in the same rows."""
    check(interpreting, called, seed)


@pytest.mark.parametrize("run", range(FRESH_RUNS))
def test_a_fresh_delivery_ends_in_the_oracles_rows(interpreting: SparkSession, run: int) -> None:
    """The same holds for a kind of target, types and histories that no run had before."""
    seed = fresh_seed()
    check(interpreting, list(KINDS)[(seed + run) % len(KINDS)], seed)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_scd_type_1_is_the_open_rows_of_type_2(seed: int) -> None:
    """The oracle's two readings of the same events agree, whatever is tracked."""
    history = deal(random_from(seed), worlds=5, truncating=False, authorship=PARTS)
    for number in range(history.worlds):
        events = history.events(number)
        for tracked, rank in product(((0, 1, 2), (0,), ()), (RANK, DELETES_FIRST)):
            rows = scd2(events, hash, tracked, rank)
            assert scd1(events, hash, rank) == {(key, values) for key, values, _, end in rows if end is None}
