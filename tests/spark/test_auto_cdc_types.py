"""AUTO CDC compares, hashes and orders the values of every type that a Delta table stores exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from framework.cdc.model.equality import comparable, fingerprint
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.errors import UserError
from tests.support.cdc_cases import CHANGES
from tests.support.cdc_types import CASES, ORDERED, TypeCase, spelled, spellings, spellings_of, text_of
from tests.support.cdc_world import World
from tests.support.snapshot_world import SnapshotWorld

Value = tuple[str, int] | None
"""The case and the number of a value; None is NULL."""

NOTHING = -1
"""The number of the spelling of NULL."""

COLUMNS = {case.name: f"c{number}" for number, case in enumerate(CASES)}


@pytest.fixture(scope="module")
def compared(spark: SparkSession) -> Mapping[tuple[int, int], Mapping[str, tuple[bool, bool, bool]]]:
    """For each pair and each case: are the values equal, are their hashes equal, is the first one less?"""
    places = spark.range(max(len(spellings_of(case)) for case in CASES)).repartition(2)
    firsts = [spellings_of(case)[0].number for case in CASES]
    rows = places.selectExpr(
        "id",
        *(
            f"{spelled(f'id + {first}', spellings_of(case), case.ddl)} AS {COLUMNS[case.name]}"
            for case, first in zip(CASES, firsts, strict=True)
        ),
    )
    told = []
    for case in CASES:
        field = rows.schema[COLUMNS[case.name]]
        left, right = (comparable(F.col(f"{side}.{field.name}"), field.dataType) for side in ("l", "r"))
        hashes = [fingerprint([field], of=side) for side in ("l", "r")]
        told.append(F.struct(left.eqNullSafe(right), hashes[0] == hashes[1], left < right))
    collected = rows.alias("l").crossJoin(rows.alias("r")).select("l.id", "r.id", *told).collect()
    return {(i, j): {c.name: tuple(each) for c, each in zip(CASES, flags, strict=True)} for i, j, *flags in collected}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_equality_hash_and_order_of_a_type_are_exact(
    compared: Mapping[tuple[int, int], Mapping[str, tuple[bool, bool, bool]]], case: TypeCase
) -> None:
    """Spellings of one value are equal and have one hash; other values differ in both, and have their order."""
    mine = spellings_of(case)
    for place, left in enumerate(mine):
        for other, right in enumerate(mine):
            equal, same_hash, less = compared[place, other][case.name]
            told = f"{left.sql} and {right.sql}"
            assert (left.value == right.value,) * 2 == (equal, same_hash), told
            if case in ORDERED:
                assert (left.value < right.value) == less, told


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two spellings that a key gets one after the other, of values of one case."""

    case: TypeCase
    first: int
    second: int

    @property
    def changes(self) -> bool:
        """Whether they are spellings of two values."""
        return value_of(self.first) != value_of(self.second)

    @property
    def reversed(self) -> Pair:
        """The second first."""
        return replace(self, first=self.second, second=self.first)


def value_of(number: int) -> Value:
    """Return the value of a spelling."""
    return None if number == NOTHING else spellings()[number].value


def all_pairs() -> Iterator[Pair]:
    """Return for each case the neighbouring pairs of its spellings, in both directions; NULL comes first."""
    for case in CASES:
        numbers = [NOTHING, *(each.number for each in spellings_of(case))]
        for first, second in pairwise(numbers):
            pair = Pair(case=case, first=first, second=second)
            yield from (pair, pair.reversed)
        yield Pair(case=case, first=numbers[-1], second=numbers[-1])


PAIRS = tuple(all_pairs())
ROW = ", ".join(f"{COLUMNS[case.name]} {case.ddl}" for case in CASES)
SPEC = AutoCdcSpec(keys=("pair", "tie"), sequence_by="seq", columns=ColumnSelection(columns=("seq",), excluded=True))

Shown = Mapping[tuple[int, bool], list[tuple[object, ...]]]
"""Per pair, and whether its events tie: the values shown, and their intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The turns of the keys: `turn 0` and `turn 1`, the first and the second spelling of each pair.

    `texts` maps a text to its value, by the name of its case.
    """

    folder: str
    texts: Mapping[tuple[str, str], Value]

    def read(self, session: SparkSession, number: int) -> DataFrame:
        """The events of a turn: one after the other, and tying."""
        return session.read.parquet(f"{self.folder}/{number}")

    def shown(self, session: SparkSession, table: str, *interval: str) -> Shown:
        """Return the pairs in a table, with values identified by their texts."""
        rows = session.table(table)
        found: dict[tuple[int, bool], list[tuple[object, ...]]] = {}
        for key, tie, text, *rest in rows.selectExpr("pair", "tie", _text(rows.schema), *interval).collect():
            found.setdefault((key, tie), []).append((self.texts[PAIRS[key].case.name, text], *rest))
        return {key: sorted(values, key=lambda each: each[1:]) for key, values in found.items()}


@pytest.fixture(scope="module")
def turns(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Turns:
    """Both turns, in the column of each pair's case."""
    folder = str(tmp_path_factory.mktemp("turns"))
    columns = [f"{spelled('number', spellings_of(case), case.ddl)} AS {COLUMNS[case.name]}" for case in CASES]
    for number in (0, 1):
        rows = [(key, (pair.first, pair.second)[number]) for key, pair in enumerate(PAIRS)]
        typed = spark.createDataFrame(rows, "pair int, number int").selectExpr("pair", *columns)
        ties = spark.createDataFrame([(False, number + 1), (True, 1)], "tie boolean, seq int")
        events = typed.crossJoin(ties).select("pair", "tie", *COLUMNS.values(), "seq")
        events.repartition(2).write.parquet(f"{folder}/{number}")
    texts: dict[tuple[str, str], Value] = {}
    first = spark.read.parquet(f"{folder}/0")
    for key, text in first.where("tie").selectExpr("pair", _text(first.schema)).collect():
        pair = PAIRS[key]
        assert value_of(pair.first) == texts.setdefault((pair.case.name, text), value_of(pair.first)), (pair, text)
    return Turns(folder=folder, texts=texts)


def _text(schema: StructType) -> str:
    """The SQL of the text of a pair's value."""
    texts = [text_of(COLUMNS[case.name], schema[COLUMNS[case.name]].dataType) for case in CASES]
    keys = [[str(key) for key, pair in enumerate(PAIRS) if pair.case == case] for case in CASES]
    branches = [f"WHEN pair IN ({', '.join(mine)}) THEN {text}" for mine, text in zip(keys, texts, strict=True)]
    return f"CASE {' '.join(branches)} END"


def apply_turns(session: SparkSession, root: Path, turns: Turns, *, scd_type: int) -> World:
    """A target after both turns."""
    spec = replace(SPEC, scd_type=scd_type)
    world = World(session, root, {"changes": (spec, f"pair int, tie boolean, {ROW}, seq int", False)})
    for number in (0, 1):
        world.apply_frame("changes", turns.read(session, number))
    return world


def check_ties(found: Shown) -> None:
    """Of two values of one key and sequence the same one stays for a pair and for the pair turned round."""
    for key, pair in enumerate(PAIRS):
        values = [row[0] for row in found[key, True]]
        assert values == [row[0] for row in found[PAIRS.index(pair.reversed), True]], pair
        assert values in ([value_of(pair.first)], [value_of(pair.second)]), pair


def test_scd_type_1_ends_a_tie_the_same_whatever_comes_first(
    interpreting: SparkSession, tmp_path: Path, turns: Turns
) -> None:
    """Of tied values of any type, the same one stays in any order of arrival; a later one replaces an earlier one."""
    world = apply_turns(interpreting, tmp_path, turns, scd_type=1)
    found = turns.shown(interpreting, world.table.sql)
    check_ties(found)
    assert [[(value_of(pair.second),)] for pair in PAIRS] == [found[key, False] for key in range(len(PAIRS))]


def test_scd_type_2_keeps_a_version_for_each_change_of_a_value(
    interpreting: SparkSession, tmp_path: Path, turns: Turns
) -> None:
    """Two spellings of a value are one version, two values are two, for every type; ties end as in type 1."""
    world = apply_turns(interpreting, tmp_path, turns, scd_type=2)
    found = turns.shown(interpreting, world.table.sql, "__START_AT", "__END_AT")
    check_ties(found)
    for key, pair in enumerate(PAIRS):
        first, second = value_of(pair.first), value_of(pair.second)
        expected = [(first, 1, 2), (second, 2, None)] if pair.changes else [(second, 1, None)]
        assert expected == found[key, False], pair


def test_a_snapshot_changes_the_rows_whose_values_changed(
    interpreting: SparkSession, tmp_path: Path, turns: Turns
) -> None:
    """The second of two snapshots makes a version for each value that is another, and touches no other row."""
    spec = replace(SPEC, sequence_by="", columns=ColumnSelection(), scd_type=2)
    world = SnapshotWorld(interpreting, tmp_path, spec, ddl=f"pair int, tie boolean, {ROW}")
    done = [
        world.take_frame(number + 1, turns.read(interpreting, number).where("tie").drop("seq")) for number in (0, 1)
    ]
    # A version that ends and one that begins are a row each.
    assert [len(PAIRS), 2 * sum(pair.changes for pair in PAIRS)] == [each.upserted for each in done]
    found = turns.shown(interpreting, world.table.sql, "__START_AT", "__END_AT")
    for key, pair in enumerate(PAIRS):
        first, second = value_of(pair.first), value_of(pair.second)
        expected = [(first, 1, 2), (second, 2, None)] if pair.changes else [(first, 1, None)]
        assert expected == found[key, True], pair


UNSTORABLE = {
    "string COLLATE UTF8_LCASE": "string collate UTF8_LCASE",
    "interval year to month": "interval year to month",
    "interval day to second": "interval day to second",
    "interval": "interval",
    "time(6)": "time(6)",
    "geometry(4326)": "geometry(4326)",
    "geography(4326)": "geography(4326)",
    "array<void>": "array<void>",
    "map<string, void>": "map<string,void>",
    "struct<>": "struct<>",
    "struct<x: array<map<string, interval>>>": "interval",
}
"""Types that Delta refuses, and the part of each that it cannot store."""


@pytest.mark.parametrize("ddl", UNSTORABLE)
def test_a_type_that_delta_cannot_store_is_a_fault_of_the_flow(spark: SparkSession, tmp_path: Path, ddl: str) -> None:
    """A column of such a type, or a sequence, is rejected when the target is planned."""
    with pytest.raises(UserError) as raised:
        World(spark, tmp_path, {"changes": (CHANGES, f"test int, k string, v {ddl}, op string, seq int", False)})
    assert ("AUTOCDC_COLUMN_TYPE", "v", UNSTORABLE[ddl]) == (
        raised.value.condition,
        raised.value.fields["column"],
        raised.value.fields["part"],
    )
