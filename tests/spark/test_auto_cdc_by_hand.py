"""Rows of AUTO CDC targets that a user inserts, changes or deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cdc.scd1 import merge as scd1
from framework.declare.specs import AutoCdcSpec, ColumnSelection
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
        promise: the expected behaviour.
        before: names from events, with their sequences.
        put_in: rows that are then inserted manually.
        edit: a manual statement on rows of the key.
        then: names from later events; None deletes.
        late: one more event, in a separate batch.
        rows: the final history.
    """

    promise: str
    before: Sequence[tuple[str | None, int]] = ()
    put_in: Sequence[Row] = ()
    edit: str = ""
    then: Sequence[tuple[str | None, int]] = (("z", 9),)
    late: Sequence[tuple[str, int]] = ()
    rows: Sequence[Row] = ()


Z = ("z", 9, None)

CASES = (
    Case(promise="an open row is an event", put_in=[("a", 1, None)], rows=[("a", 1, 9), Z]),
    Case(promise="a closed row keeps its end", put_in=[("a", 1, 4)], rows=[("a", 1, 4), Z]),
    Case(
        promise="the end of a row is no delete of the row that begins there",
        put_in=[("a", 1, 5), ("b", 5, None)], rows=[("a", 1, 5), ("b", 5, 9), Z],
    ),
    Case(
        promise="an event splits a closed row",
        put_in=[("a", 2, 6)], then=[("b", 4)], rows=[("a", 2, 4), ("b", 4, 6)],
    ),
    Case(
        promise="an event before a closed row changes nothing of it",
        put_in=[("a", 5, 7)], then=[("b", 3)], rows=[("b", 3, 5), ("a", 5, 7)],
    ),
    Case(
        promise="of rows that overlap the later one counts, and an end closes what is open",
        put_in=[("a", 1, 8), ("b", 5, None)], rows=[("a", 1, 5), ("b", 5, 8), Z],
    ),
    Case(promise="a row put in twice is one", put_in=[("a", 5, None), ("a", 5, None)], rows=[("a", 5, 9), Z]),
    Case(
        promise="a row that is there already is the same one",
        before=[("a", 1)], put_in=[("a", 1, None)], rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="a closed row that ends within another one closes it until that one's next event",
        before=[("a", 5), ("a", 7)], put_in=[("b", 4, 6)], rows=[("b", 4, 5), ("a", 5, 6), ("a", 7, 9), Z],
    ),
    Case(
        promise="the event of a row may come again",
        put_in=[("a", 1, None)], then=[("a", 1), ("z", 9)], rows=[("a", 1, 9), Z],
    ),
    Case(promise="a delete closes a row", put_in=[("a", 1, None)], then=[(None, 9)], rows=[("a", 1, 9)]),
    Case(
        promise="a value changed by hand holds until the next event",
        before=[("a", 1)], edit="UPDATE {table} SET name = 'e' WHERE {key}", rows=[("e", 1, 9), Z],
    ),
    Case(
        promise="a row closed by hand stays closed",
        before=[("a", 1)], edit="UPDATE {table} SET __END_AT = 4 WHERE {key}", rows=[("a", 1, 4), Z],
    ),
    Case(
        promise="a row opened by hand is open",
        before=[("a", 1), (None, 4)], edit="UPDATE {table} SET __END_AT = NULL WHERE {key}", rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="a start moved by hand stays there",
        before=[("a", 3)], edit="UPDATE {table} SET __START_AT = 1 WHERE {key}", rows=[("a", 1, 9), Z],
    ),
    Case(
        promise="no row grows into the place of one deleted by hand",
        before=[("a", 1), ("b", 5)], edit="DELETE FROM {table} WHERE {key} AND name = 'b'", late=[("c", 3)],
        rows=[("a", 1, 3), ("c", 3, 5), Z],
    ),
)  # fmt: skip


def source_rows(key: int, changes: Sequence[tuple[str | None, int]]) -> list[tuple[object, ...]]:
    """Events of a key as rows of the source; without a name a delete."""
    return [(key, name, None, "UPDATE" if name else "DELETE", sequence) for name, sequence in changes]


def put_in(world: World, ddl: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Append rows to the target, as any program may."""
    frame = world.spark.createDataFrame([tuple(row) for row in rows], ddl)
    frame.write.format("delta").mode("append").save(str(world.table.path))


def by_case(world: World) -> dict[str, list[tuple[object, ...]]]:
    """Return the displayed rows of each case, in order."""
    rows = world.rows("userId", "__START_AT", "name", "__END_AT")
    shown: dict[str, list[tuple[object, ...]]] = {case.promise: [] for case in CASES}
    for key, start, name, end in sorted(rows, key=lambda row: (row[0], row[1], repr(row))):
        shown[CASES[int(str(key))].promise].append((name, start, end))
    return shown


@pytest.mark.parametrize("spec", [HISTORY, replace(IGNORING, scd_type=2)], ids=["whole", "authored"])
@pytest.mark.parametrize("version", ["4.4.0", "0.0.0"], ids=["replaced", "merged"])
def test_a_row_put_in_by_hand_is_an_event_at_its_start(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, version: str, spec: AutoCdcSpec
) -> None:
    """Its end closes it unless another row starts there; a redelivered batch does not change that."""
    swap.setattr("framework.cdc.delta.table_version._TESTED", frozenset({version}))
    world, cases = World(interpreting, tmp_path, {"changes": (spec, DDL, False)}), list(enumerate(CASES))
    world.apply("changes", [row for key, case in cases for row in source_rows(key, case.before)])
    put_in(world, SHOWN, [(key, name, None, start, end) for key, case in cases for name, start, end in case.put_in])
    for key, case in cases:
        if case.edit:
            interpreting.sql(case.edit.format(table=world.table.sql, key=f"userId = {key}"))
    then = [row for key, case in cases for row in source_rows(key, case.then)]
    world.apply("changes", then)
    world.apply("changes", [row for key, case in cases for row in source_rows(key, case.late)])
    expected = {case.promise: list(case.rows) for case in CASES}
    assert expected == by_case(world)
    world.apply("changes", then)
    assert expected == by_case(world)


@pytest.mark.parametrize(
    ("version", "rows_a_fact"),
    [("4.4.0", ALL_ROWS), ("4.4.0", NO_ROWS), ("0.0.0", NO_ROWS)],
    ids=["rows come to the facts", "facts come to the rows", "merged"],
)
def test_a_row_of_type_1_put_in_by_hand_comes_before_everything(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, version: str, rows_a_fact: int
) -> None:
    """Any event of its key replaces or deletes it; an earlier recorded delete does so with the next event."""
    swap.setattr("framework.cdc.delta.table_version._TESTED", frozenset({version}))
    swap.setattr(scd1, "SHUFFLED_ROWS_A_FACT", rows_a_fact)
    world = World(interpreting, tmp_path, FLOWS)
    world.apply("changes", [(3, None, None, "DELETE", 5), (5, "Eve", "E", "INSERT", 1), (6, None, None, "DELETE", 5)])
    put_in(world, "userId int, name string, city string", [(key, "Hand", "H") for key in (1, 2, 3, 4, 6)])
    interpreting.sql(f"UPDATE {world.table.sql} SET name = 'Eva' WHERE userId = 5")
    late = [(1, "Ann", "A", "UPDATE", 0), (2, None, None, "DELETE", 0), (3, "Cleo", "C", "UPDATE", 3)]
    metrics = world.apply("changes", [*late, (6, "Fay", "F", "UPDATE", 6)])
    shown = [(1, "Ann", "A"), (4, "Hand", "H"), (5, "Eva", "E"), (6, "Fay", "F")]
    assert (shown, 2, 2) == (world.rows(), metrics.upserted, metrics.deleted)


def test_a_row_put_in_by_hand_wrote_all_of_its_columns(interpreting: SparkSession, tmp_path: Path) -> None:
    """A NULL that an event ignores keeps the row's value; a NULL of the row is a value, and its end clears all."""
    world = World(interpreting, tmp_path, {"changes": (replace(IGNORING, scd_type=2), DDL, False)})
    by_hand = [(1, "a", "X", 1, 5), (1, "b", None, 5, None), (2, "a", "X", 1, 5), (3, "a", "X", 1, None)]
    put_in(world, SHOWN, by_hand)
    world.apply("changes", [(1, "c", None, "UPDATE", 3), (2, "c", None, "UPDATE", 7), (3, None, "Y", "UPDATE", 7)])
    world.apply("changes", [(1, "d", None, "UPDATE", 9)])
    expected = [
        *[(1, "a", "X", 1, 3), (1, "c", "X", 3, 5), (1, "b", None, 5, 9), (1, "d", None, 9, None)],
        *[(2, "a", "X", 1, 5), (2, "c", None, 7, None)],
        *[(3, "a", "X", 1, 7), (3, "a", "Y", 7, None)],
    ]
    rows = world.rows("userId", "name", "city", "__START_AT", "__END_AT")
    assert expected == sorted(rows, key=lambda row: (row[0], row[3]))


@pytest.mark.parametrize("version", ["4.4.0", "0.0.0"], ids=["replaced", "merged"])
def test_a_row_of_type_1_put_in_by_hand_keeps_what_events_ignore(
    interpreting: SparkSession, tmp_path: Path, swap: pytest.MonkeyPatch, version: str
) -> None:
    """Each of its values stays until an event writes it; an earlier recorded delete clears all of them."""
    swap.setattr("framework.cdc.delta.table_version._TESTED", frozenset({version}))
    world = World(interpreting, tmp_path, {"changes": (IGNORING, DDL, False)})
    world.apply("changes", [(2, None, None, "DELETE", 5), (3, None, None, "DELETE", 5), (4, "Eve", "E", "INSERT", 1)])
    put_in(world, "userId int, name string, city string", [(key, "Hand", "H") for key in (1, 2, 3)])
    events = [(1, "Ann", None, "UPDATE", 0), (2, "Bob", None, "UPDATE", 3), (3, "Cleo", None, "UPDATE", 6)]
    world.apply("changes", events)
    assert [(1, "Ann", "H"), (3, "Cleo", None), (4, "Eve", "E")] == world.rows()
