"""A full refresh with history ends in the rows of a pipeline whose sources kept everything."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from delta import DeltaTable

from framework import Pipeline
from framework import pipelines as dp
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.recovery.backups import BackupSelection, drop_backups, list_backups
from framework.run.update.results import UpdateState
from tests.support.engine_world import EngineWorld
from tests.support.interruption import interrupt
from tests.support.plain_tables import append_rows, table_rows
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = int(os.environ.get("SLUICE_SEED", "20261123"))
EVENTS = "id INT, operation STRING, name STRING, city STRING, seq INT"
PAYMENTS = "id INT, tags MAP<STRING, INT>"
TABLES = ("customers", "history", "patches", "payments")
KEYS = 150
TRUNCATED_AT = 12
PAID = [(number % 40, {"a": number % 3, "b": 1}) for number in range(120)]
PAID_LATE = [(50, {"a": 1, "b": 1}), (39, {"a": 0, "b": 1})]
Event = tuple[int, str, str | None, str | None, int]


def bank(spark: SparkSession, folder: Path) -> Callable[[], None]:
    """The module: each kind of AUTO CDC target over the same events, two append tables, and a view."""

    def read(source: str) -> DataFrame:
        return spark.readStream.format("delta").load(str(folder / source))

    def declare() -> None:
        @dp.temporary_view
        def events() -> DataFrame:
            return read("events")

        @dp.temporary_view
        def changes() -> DataFrame:
            return read("events").where("operation <> 'TRUNCATE'")

        @dp.table
        def payments() -> DataFrame:
            return read("payments")

        @dp.table
        def arrivals() -> DataFrame:
            return read("payments").selectExpr("id", "uuid() AS arrival")

        @dp.materialized_view
        def names() -> DataFrame:
            return spark.read.table("customers").select("name")

        for table in ("customers", "history", "patches"):
            dp.create_streaming_table(table)
        common: dict[str, Any] = {
            "keys": ["id"],
            "sequence_by": "seq",
            "apply_as_deletes": "operation = 'DELETE'",
            "except_column_list": ["operation"],
        }
        truncates = "operation = 'TRUNCATE'"
        dp.create_auto_cdc_flow(target="customers", source="events", apply_as_truncates=truncates, **common)
        dp.create_auto_cdc_flow(target="history", source="changes", stored_as_scd_type=2, **common)
        dp.create_auto_cdc_flow(target="patches", source="changes", ignore_null_updates=True, **common)

    return declare


@dataclass(frozen=True, kw_only=True)
class World:
    """Sources in a folder, and the pipeline that reads them."""

    spark: SparkSession
    folder: Path

    def feed(self, source: str, rows: Sequence[tuple[Any, ...]], ddl: str) -> None:
        """Append rows to a source in one commit."""
        append_rows(self.spark, str(self.folder / source), rows, ddl)

    def lose(self, source: str, condition: str) -> None:
        """Delete rows of a source."""
        DeltaTable.forPath(self.spark, str(self.folder / source)).delete(condition)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline over the sources."""
        module = bank(self.spark, self.folder)
        return Pipeline(name="bank", modules=[module], storage=self.folder / "storage", spark=self.spark)

    def rows(self, table: str) -> Counter[tuple[Any, ...]]:
        """The rows of a table, as a multiset; a map is its text."""
        path = str(self.folder / "storage/tables/main/default" / table)
        values = map(tuple, table_rows(self.spark, path, without="__sluice"))
        return Counter(
            tuple(str(dict(sorted(value.items()))) if isinstance(value, dict) else value for value in row)
            for row in values
        )

    def run(self, **request: Any) -> dict[str, str]:
        """Run an update; return the conditions of the flows that failed."""
        result = self.pipeline.run(**request)
        failed = {flow.flow.table: flow.error.condition for flow in result.flows if flow.error}
        assert (result.state is UpdateState.COMPLETED) == (not failed)
        return failed


def batches(numbers: random.Random) -> tuple[list[Event], list[Event]]:
    """Events before the loss and after it, in any order; no two of a key are at one sequence, which are all even."""
    events: list[Event] = [
        (key, numbers.choice(["UPDATE", "UPDATE", "UPDATE", "DELETE"]), numbers.choice([None, "Ann", "Bob", "Cy"]),
         numbers.choice([None, "Rome", "Oslo"]), seq)
        for key in range(KEYS)
        for seq in numbers.sample(range(2, 100, 2), numbers.randint(1, 7))
    ]  # fmt: skip
    numbers.shuffle(events)
    middle = len(events) * 2 // 3
    return [*events[:middle], (-1, "TRUNCATE", None, None, TRUNCATED_AT)], events[middle:]


def expected(events: Sequence[Event]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of the three targets as functions of all events, key by key in plain Python."""
    histories: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event[-1]):
        histories[event[0]].append(event)
    del histories[-1]
    customers, intervals, patches = set(), set(), set()
    for key, history in histories.items():
        _, operation, *values = history[-1]
        if operation == "UPDATE" and history[-1][-1] >= TRUNCATED_AT:
            customers.add((key, *values))
        patch: list[Any] | None = None
        for event, following in zip_longest(history, history[1:]):
            _, operation, *values = event
            if operation == "UPDATE":
                intervals.add((key, *values, values[-1], following and following[-1]))
                old = patch or [None] * len(values)
                patch = [before if now is None else now for before, now in zip(old, values, strict=True)]
            else:
                patch = None
        if patch:
            patches.add((key, *patch))
    return {"customers": Counter(customers), "history": Counter(intervals), "patches": Counter(patches)}


@dataclass(frozen=True, kw_only=True)
class Lossy:
    """A world whose sources lost half of what the pipeline read, and all events that there ever were."""

    world: World
    events: Sequence[Event]


@pytest.fixture(scope="module")
def lossy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lossy:
    """The events of a random history, half of them read and then lost, and some that were not read yet."""
    session = spark.newSession()  # without code generation, as `interpreting`
    for key, value in INTERPRETED.items():
        session.conf.set(key, value)
    first, second = batches(random.Random(SEED))  # noqa: S311 - data of a test
    world = World(spark=session, folder=tmp_path_factory.mktemp("lossy"))
    world.feed("events", first, EVENTS)
    world.feed("payments", PAID, PAYMENTS)
    assert world.run(refresh=[*TABLES, "arrivals"]) == {}
    world.lose("events", f"xxhash64(id, seq, {SEED}) % 2 = 0 OR operation = 'TRUNCATE'")
    world.lose("payments", "id < 20")
    world.feed("events", second, EVENTS)
    world.feed("payments", PAID_LATE, PAYMENTS)
    return Lossy(world=world, events=[*first, *second])


def test_a_full_refresh_with_history_loses_and_doubles_nothing(lossy: Lossy) -> None:
    """Each kind of target has the rows of a pipeline whose sources kept all, also after a further update."""
    world = lossy.world
    before = {table: sum(world.rows(table).values()) for table in TABLES}
    assert world.run(full_refresh=TABLES, keep_history=True, history_keys=["*"]) == {}
    assert _differences(world, expected(lossy.events)) == {}
    assert world.rows("payments") == Counter((key, str(tags)) for key, tags in [*PAID, *PAID_LATE])
    made = {each.backup.dataset.table: each.backup for each in list_backups(world.pipeline.storage)}
    assert {table: backup.rows for table, backup in made.items()} == before
    compared = made["payments"].comparison
    assert compared is not None
    assert (compared.backup_rows, compared.table_rows, made["payments"].put_back) == (120, 122, 60)
    # New events find the state of those that were put back: deletes, authors of leaves, hidden events.
    late: list[Event] = [(key, "UPDATE", None, "Bern", 31) for key in range(0, KEYS, 3)]
    world.feed("events", late, EVENTS)
    assert world.run(refresh=TABLES) == {}
    assert _differences(world, expected([*lossy.events, *late])) == {}
    dropped = drop_backups(world.pipeline.storage, "bank", BackupSelection(dataset=_name("customers")))
    assert [each.dataset.table for each in dropped] == ["customers"]
    assert {each.backup.dataset.table for each in list_backups(world.pipeline.storage)} == {*TABLES} - {"customers"}


def test_rows_that_all_differ_are_not_doubled(lossy: Lossy) -> None:
    """A query that makes other rows each time is refused, and its table stays; keys identify the lost rows."""
    world = lossy.world
    before = world.rows("arrivals")
    request: dict[str, Any] = {"full_refresh": ["arrivals"], "keep_history": True}
    with pytest.raises(UserError, match="HISTORY_NEEDS_KEYS"):
        world.run(**request)
    assert world.run(**request, history_keys=["*"]) == {"arrivals": "HISTORY_NOT_RECOGNIZED"}
    assert world.rows("arrivals") == before
    storage, selection = world.pipeline.storage, BackupSelection(dataset=_name("arrivals"))
    with pytest.raises(UserError, match="BACKUP_IN_USE"):
        drop_backups(storage, "bank", selection)
    assert world.run(**request, history_keys=["id"]) == {}
    ids = Counter(row[0] for row in world.rows("arrivals").elements())
    assert ids == Counter({**dict.fromkeys(range(39), 3), 39: 4, 50: 1})
    # The second request took the backup of the first, because the table had not changed.
    assert [each.number for each in drop_backups(storage, "bank", selection)] == [1]
    with pytest.raises(UserError, match="BACKUP_NOT_FOUND"):
        drop_backups(storage, "bank", selection)
    # Which of the rows of a key are lost is unknown.
    world.lose("payments", "id = 30 AND tags['a'] = 0")
    assert world.run(**request, history_keys=["id"]) == {"arrivals": "HISTORY_KEYS_AMBIGUOUS"}


def test_rows_that_the_refresh_quarantines_are_not_put_back(interpreting: SparkSession, tmp_path: Path) -> None:
    """A row that the code of the refresh refuses is in the quarantine alone; one that its source lost stays there.

    A replay writes each of them once, and a rewind to before the refresh takes both back.
    """
    world = EngineWorld(interpreting, tmp_path)
    rules = ["note <> 'bad'"]

    def declare() -> None:
        def notes() -> DataFrame:
            return interpreting.readStream.format("delta").load(world.source())

        asked: dict[str, Any] = {
            "table_properties": {"sluice.quarantine": "true"}, "expect_all_or_drop": {"short": rules[0]}
        }  # fmt: skip
        dp.temporary_view(name="source_notes")(notes)
        dp.create_streaming_table("notes", **asked)
        dp.append_flow(target="notes", name="notes")(notes)
        for number in (1, 2):
            dp.create_streaming_table(f"notes{number}", **asked)
            dp.create_auto_cdc_flow(
                target=f"notes{number}", source="source_notes", keys=["id"], sequence_by="seq",
                stored_as_scd_type=number, column_list=["id", "note"],
            )  # fmt: skip

    tables = ["notes", "notes1", "notes2"]

    def is_open() -> dict[str, list[int]]:
        """The ids of the open rows, by table."""
        rows = world.pipeline(declare).quarantine.rows().where("state = 'open'")
        found = rows.selectExpr("dataset", "row:id::int AS id").collect()
        return {table: sorted(row.id for row in found if row.dataset == f"main.s.{table}") for table in tables}

    tables = ["notes", "notes1", "notes2"]
    rows = [(1, "a", 1), (1, "long", 2), (2, "long", 3), (3, "c", 4)]
    world.feed([*rows, (4, "bad", 5), (5, "bad", 6)], "id INT, note STRING, seq INT")
    first = world.run(declare)
    DeltaTable.forPath(interpreting, world.source()).delete("id IN (3, 4)")
    rules[0] = "note <> 'long'"
    result = world.run(declare, full_refresh=tables, keep_history=True, history_keys=["id", "seq"])
    assert result.state is UpdateState.COMPLETED
    assert world.rows("notes") == [(1, "a", 1), (3, "c", 4), (5, "bad", 6)]
    assert world.rows("notes1") == [(1, "a"), (3, "c"), (5, "bad")]
    assert world.rows("notes2") == [(1, "a", 1, None), (3, "c", 4, None), (5, "bad", 6, None)]
    # An event that the refresh has applied may stay open: it is in the target once, whatever is replayed.
    assert is_open() == {"notes": [1, 2, 4], "notes1": [1, 2, 4, 5], "notes2": [1, 2, 4, 5]}
    rules[0] = "true"
    for table in ("notes", "notes1"):
        world.pipeline(declare).quarantine.replay(table)
    assert world.rows("notes") == [*rows, (4, "bad", 5), (5, "bad", 6)]
    assert world.rows("notes1") == [(1, "long"), (2, "long"), (3, "c"), (4, "bad"), (5, "bad")]
    rewinds = world.pipeline(declare).rewinds
    rewinds.rewind(rewinds.plan(first.update_id))
    assert (world.rows("notes"), is_open()) == (rows, {table: [4, 5] for table in tables})


def test_equal_quarantined_rows_that_the_sources_lost_all_stay_open(interpreting: SparkSession, tmp_path: Path) -> None:
    """Rows of two flows, and more of one than it reads again; a kill before the mark of the refresh changes nothing."""
    world, rules = EngineWorld(interpreting, tmp_path), ["amount > 0"]

    def declare() -> None:
        asked: dict[str, Any] = {"table_properties": {"sluice.quarantine": "true"}}
        dp.create_streaming_table("paid", expect_all_or_drop={"positive": rules[0]}, **asked)

        def read(source: str) -> Callable[[], DataFrame]:
            return lambda: interpreting.readStream.format("delta").load(world.source(source))

        for source in ("shop", "web"):
            dp.append_flow(target="paid", name=source)(read(source))

    def open_ids() -> list[int]:
        rows = world.pipeline(declare).quarantine.rows().where("state = 'open'")
        return sorted(row.id for row in rows.selectExpr("row:id::int AS id").collect())

    twice, gone = (2, -5), (4, -1)
    for source, rows in {"shop": [(1, 5), twice, twice, gone], "web": [(3, 5), twice, gone]}.items():
        world.feed(rows, "id INT, amount INT", source)
    assert world.run(declare).state is UpdateState.COMPLETED
    DeltaTable.forPath(interpreting, world.source("shop")).delete("id = 4")
    DeltaTable.forPath(interpreting, world.source("web")).delete("id IN (2, 4)")
    request: dict[str, Any] = {"full_refresh": ["paid"], "keep_history": True, "history_keys": ["*"]}
    interrupt(lambda: world.run(declare, **request), "rebuilds.after_quarantine")
    assert world.run(declare).state is UpdateState.COMPLETED
    assert open_ids() == [2, 2, 2, 4, 4]
    rules[0] = "true"
    for flow in ("shop", "web"):
        world.pipeline(declare).quarantine.replay(flow)
    assert world.rows("paid") == [(1, 5), twice, twice, twice, (3, 5), gone, gone]


def _name(table: str) -> QualifiedName:
    return QualifiedName.parse(table, catalog="main", schema="default")


def _differences(world: World, wanted: dict[str, Counter[tuple[Any, ...]]]) -> dict[str, dict[tuple[Any, ...], int]]:
    """The rows of which a table has more (or fewer, negative) than wanted, by table; the failure prints the seed."""
    found = {}
    for table, rows in wanted.items():
        counts = world.rows(table)
        counts.subtract(rows)
        if differing := {row: count for row, count in counts.items() if count}:
            found[f"{table} with SLUICE_SEED={SEED}"] = differing
    return found
