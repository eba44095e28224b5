"""Rows that were inserted, changed or deleted manually: how AUTO CDC treats them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cdc.delta import transaction_write
from framework.declare.specs import ColumnSelection
from tests.spark.test_auto_cdc_scd1 import CHANGES, DDL, FLOWS
from tests.spark.test_auto_cdc_scd2 import HISTORY
from tests.support.cdc_world import ALL_ROWS, NO_ROWS, World

IGNORING = replace(CHANGES, ignore_null_updates=ColumnSelection())
SHOWN = "userId int, name string, city string, __START_AT int, __END_AT int"

Row = tuple[str, int, int | None]
"""A name, and the interval in which it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One key of a history.

    Args:
        promise: the behaviour that the case shows.
        before: names of events, with their sequences.
        inserted: rows that are then inserted manually.
        edit: columns that a manual statement then changes, and their SQL.
        dropped: the name of a row that is deleted manually.
        then: names of later events; None is a delete.
        late: names of events in one more batch, with those of `then` once more.
        rows: the history at the end.
    """

    promise: str
    before: Sequence[tuple[str | None, int]] = ()
    inserted: Sequence[Row] = ()
    edit: Mapping[str, str] = field(default_factory=dict)
    dropped: str = ""
    then: Sequence[tuple[str | None, int]] = (("z", 9),)
    late: Sequence[tuple[str, int]] = ()
    rows: Sequence[Row] = ()


Z = ("z", 9, None)

CASES = (
    Case(promise="an open row is an event", inserted=[("a", 1, None)], rows=[("a", 1, 9), Z]),
    Case(promise="a closed row keeps its end", inserted=[("a", 1, 4)], rows=[("a", 1, 4), Z]),
    Case(
        promise="the end of a row is no delete of the row that begins there",
        inserted=[("a", 1, 5), ("b", 5, None)], rows=[("a", 1, 5), ("b", 5, 9), Z],
    ),
    Case(
        promise="an event splits a closed row",
        inserted=[("a", 2, 6)], then=[("b", 4)], rows=[("a", 2, 4), ("b", 4, 6)],
    ),
    Case(
        promise="an event before a closed row changes nothing of it",
        inserted=[("a", 5, 7)], then=[("b", 3)], rows=[("b", 3, 5), ("a", 5, 7)],
    ),
    Case(
        promise="of overlapping rows the later one counts, and an end closes an open row",
        inserted=[("a", 1, 8), ("b", 5, None)], rows=[("a", 1, 5), ("b", 5, 8), Z],
    ),
    Case(promise="a row inserted twice is one row", inserted=[("a", 5, None), ("a", 5, None)], rows=[("a", 5, 9), Z]),
    Case(
        promise="a row that exists already is the same row",
        before=[("a", 1)], inserted=[("a", 1, None)], rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="a closed row that ends within another one closes it until that one's next event",
        before=[("a", 5), ("a", 7)], inserted=[("b", 4, 6)], rows=[("b", 4, 5), ("a", 5, 6), ("a", 7, 9), Z],
    ),
    Case(
        promise="the event of a row may arrive too",
        inserted=[("a", 1, None)], then=[("a", 1), ("z", 9)], rows=[("a", 1, 9), Z],
    ),
    Case(promise="a delete closes a row", inserted=[("a", 1, None)], then=[(None, 9)], rows=[("a", 1, 9)]),
    Case(
        promise="a manually changed value stays until the next event",
        before=[("a", 1)], edit={"name": "'e'"}, rows=[("e", 1, 9), Z],
    ),
    Case(
        promise="a manually closed row stays closed",
        before=[("a", 1)], edit={"__END_AT": "4"}, rows=[("a", 1, 4), Z],
    ),
    Case(
        promise="a manually opened row is open",
        before=[("a", 1), (None, 4)], edit={"__END_AT": "NULL"}, rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="a manually moved start stays",
        before=[("a", 3)], edit={"__START_AT": "1"}, rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="no row is extended over a manually deleted one",
        before=[("a", 1), ("b", 5)], dropped="b", late=[("c", 3)],
        rows=[("a", 1, 3), ("c", 3, 5), Z],
    ),
)  # fmt: skip


LATE = {case.promise for case in CASES if case.late}


def source_rows(key: int, changes: Sequence[tuple[str | None, int]]) -> list[tuple[object, ...]]:
    """Events of a key as rows of the source; without a name a delete."""
    return [(key, name, None, "UPDATE" if name else "DELETE", sequence) for name, sequence in changes]


def insert_manually(world: World, ddl: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Append rows to the target manually."""
    frame = world.spark.createDataFrame([tuple(row) for row in rows], ddl)
    frame.write.format("delta").mode("append").save(str(world.table.path))


def edit_manually(world: World) -> None:
    """Run the manual statements of all cases as one MERGE."""
    edits = dict(enumerate(case.edit for case in CASES))
    changes = []
    for column in ("name", "__START_AT", "__END_AT"):
        whens = [f"WHEN {key} THEN {edit[column]}" for key, edit in edits.items() if column in edit]
        changes.append(f"{column} = CASE userId {' '.join(whens)} ELSE {column} END")
    rows = [f"userId = {key} AND name = '{case.dropped}'" for key, case in enumerate(CASES) if case.dropped]
    touched = ", ".join(f"({key})" for key, case in enumerate(CASES) if case.edit or case.dropped)
    edited = ", ".join(str(key) for key, edit in edits.items() if edit)
    world.spark.sql(
        f"MERGE INTO {world.table.sql} USING (VALUES {touched} AS t(key)) ON userId = key "
        f"WHEN MATCHED AND ({' OR '.join(rows)}) THEN DELETE "
        f"WHEN MATCHED AND userId IN ({edited}) THEN UPDATE SET {', '.join(changes)}"
    )


def by_case(world: World) -> dict[str, list[tuple[object, ...]]]:
    """Return the target's rows of each case, in order."""
    rows = world.rows("userId", "__START_AT", "name", "__END_AT")
    shown: dict[str, list[tuple[object, ...]]] = {case.promise: [] for case in CASES}
    of_cases = (row for row in rows if row[0] in range(len(CASES)))
    for key, start, name, end in sorted(of_cases, key=lambda row: (row[0], row[1], repr(row))):
        shown[CASES[int(str(key))].promise].append((name, start, end))
    return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Histories:
    """A history of each case, and keys with manually inserted cities.

    Args:
        before_late: the rows of each case before its late events.
        rows: the rows of each case at the end.
        cities: the rows of the other keys, with their intervals.
    """

    before_late: Mapping[str, Sequence[tuple[object, ...]]]
    rows: Mapping[str, Sequence[tuple[object, ...]]]
    cities: Sequence[tuple[Any, ...]]


WAYS = {
    "whole rows, merged": ("0.0.0", HISTORY),
    "authored leaves, replaced": ("4.4.0", replace(IGNORING, scd_type=2)),
}
CITIES = [(101, "a", "X", 1, 5), (101, "b", None, 5, None), (102, "a", "X", 1, 5), (103, "a", "X", 1, None)]
OF_CITIES = [(101, "c", None, "UPDATE", 3), (102, "c", None, "UPDATE", 7), (103, None, "Y", "UPDATE", 7)]


def play(world: World) -> Histories:
    """Apply the events of all cases and what is done manually between them, those of one turn together."""
    cases = list(enumerate(CASES))
    world.apply("changes", [row for key, case in cases for row in source_rows(key, case.before)])
    by_hand = [(key, name, None, start, end) for key, case in cases for name, start, end in case.inserted]
    insert_manually(world, SHOWN, [*by_hand, *CITIES])
    edit_manually(world)
    then = [row for key, case in cases for row in source_rows(key, case.then)]
    world.apply("changes", [*then, *OF_CITIES])
    before_late = by_case(world)
    late = [row for key, case in cases for row in source_rows(key, case.late)]
    world.apply("changes", [*then, *late, (101, "d", None, "UPDATE", 9)])
    rows = world.rows("userId", "name", "city", "__START_AT", "__END_AT")
    cities = [row for row in rows if row[0] in {101, 102, 103}]
    return Histories(before_late=before_late, rows=by_case(world), cities=sorted(cities, key=lambda r: (r[0], r[3])))


@pytest.fixture(scope="module")
def histories(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Histories]:
    """Plays all cases once in each way."""

    @cache
    def played(way: str) -> Histories:
        version, spec = WAYS[way]
        with pytest.MonkeyPatch.context() as swap:
            swap.setattr("framework.engine.delta.table_version._TESTED", frozenset({version}))
            return play(World(spark.newSession(), tmp_path_factory.mktemp("by_hand"), {"changes": (spec, DDL, False)}))

    return played


@pytest.mark.parametrize("way", WAYS)
def test_a_manually_inserted_row_is_an_event_at_its_start(histories: Callable[[str], Histories], way: str) -> None:
    """Its end closes it unless another row begins there; events that are read again change nothing."""
    expected = {case.promise: list(case.rows) for case in CASES}
    found = histories(way)
    assert {promise: rows for promise, rows in expected.items() if promise not in LATE} == {
        promise: rows for promise, rows in found.before_late.items() if promise not in LATE
    }
    assert expected == found.rows


@pytest.mark.parametrize(
    ("version", "rows_per_key"), [("4.4.0", NO_ROWS), ("0.0.0", NO_ROWS)], ids=["broadcast", "merged"]
)
def test_a_manually_inserted_row_of_type_1_is_older_than_all_events(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, version: str, rows_per_key: int
) -> None:
    """Any event of its key replaces or deletes it; a recorded delete deletes it with the key's next event."""
    swap.setattr("framework.engine.delta.table_version._TESTED", frozenset({version}))
    swap.setattr(transaction_write, "SHUFFLED_ROWS_PER_KEY", rows_per_key)
    world = World(interpreting, tmp_path, FLOWS)
    world.apply("changes", [(3, None, None, "DELETE", 5), (5, "Eve", "E", "INSERT", 1), (6, None, None, "DELETE", 5)])
    insert_manually(world, "userId int, name string, city string", [(key, "Hand", "H") for key in (1, 2, 3, 4, 6)])
    interpreting.sql(f"UPDATE {world.table.sql} SET name = 'Eva' WHERE userId = 5")
    late = [(1, "Ann", "A", "UPDATE", 0), (2, None, None, "DELETE", 0), (3, "Cleo", "C", "UPDATE", 3)]
    metrics = world.apply("changes", [*late, (6, "Fay", "F", "UPDATE", 6)])
    shown = [(1, "Ann", "A"), (4, "Hand", "H"), (5, "Eva", "E"), (6, "Fay", "F")]
    assert (shown, 2, 2) == (world.rows(), metrics.upserted, metrics.deleted)


def test_a_manually_inserted_row_writes_all_of_its_columns(histories: Callable[[str], Histories]) -> None:
    """An ignored null of an event keeps the row's value; a null of the row is a value; the row's end clears all."""
    assert histories("authored leaves, replaced").cities == [
        *[(101, "a", "X", 1, 3), (101, "c", "X", 3, 5), (101, "b", None, 5, 9), (101, "d", None, 9, None)],
        *[(102, "a", "X", 1, 5), (102, "c", None, 7, None)],
        *[(103, "a", "X", 1, 7), (103, "a", "Y", 7, None)],
    ]


def test_a_manually_inserted_row_of_type_1_keeps_values_that_events_ignore(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch
) -> None:
    """Each of its values stays until an event writes it; a recorded delete undoes all of them."""
    swap.setattr(transaction_write, "SHUFFLED_ROWS_PER_KEY", ALL_ROWS)
    world = World(interpreting, tmp_path, {"changes": (IGNORING, DDL, False)})
    world.apply("changes", [(2, None, None, "DELETE", 5), (3, None, None, "DELETE", 5), (4, "Eve", "E", "INSERT", 1)])
    insert_manually(world, "userId int, name string, city string", [(key, "Hand", "H") for key in (1, 2, 3)])
    events = [(1, "Ann", None, "UPDATE", 0), (2, "Bob", None, "UPDATE", 3), (3, "Cleo", None, "UPDATE", 6)]
    world.apply("changes", events)
    assert [(1, "Ann", "H"), (3, "Cleo", None), (4, "Eve", "E")] == world.rows()
