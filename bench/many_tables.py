"""(x) An ingestion of 200 tables of which 5 move, beside an ingestion of 5 that all move.

`dp.ingest_database` copies two schemas of one PostgreSQL server: a snapshot flow and a change flow for each table, and
one table with the changes of all. Triggered: the time of an update, in alternation. Continuous: the time from a
transaction at the source to its rows in the copies. Then nothing moves. `--tables N` is for a try.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg2

from bench.continuous import Feed, World, fed, idle_measures, session, spread, until, visible_events
from bench.measure import Measure
from bench.piled_up import Processes
from framework.demo.postgres_server import PostgresServer
from framework.run.update.continuous.units import FlowHealth
from framework.running_update import RunningUpdate

TRIGGERED_GOAL, CONTINUOUS_GOAL, MEMORY_GOAL = 1.5, 1.5, 1_024.0
TABLES = 200
_FEW, _ROWS, _COPIED = 5, 20, 100
_WARM_UP, _CHANGES_PER_SECOND, _MINUTES = 2, 0.5, 1.0
_UNMOVED = -1
"""The column `number` of a row that has not moved since its snapshot."""

_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name=f"of_{spark.conf.get('bench.flows')}",
    connection="bench",
    objects=[{"schema": {"source_schema": "public"}}],
    options={"connectionsFolder": spark.conf.get("bench.data")},
)
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source(Feed):
    """Moves some tables of a database: each transaction gives the same new numbers to rows of each of them.

    Args:
        uri: the database.
        tables: the number of tables that move.
    """

    uri: str
    tables: int

    def create(self, tables: int) -> None:
        """Create the tables, with rows that have not moved."""
        self._execute(
            f"CREATE TABLE table_{table} (id INT PRIMARY KEY, number BIGINT, name TEXT, amount NUMERIC(12,2), "
            "note TEXT, created TIMESTAMPTZ DEFAULT now(), is_open BOOLEAN DEFAULT true, weight DOUBLE PRECISION); "
            f"INSERT INTO table_{table} SELECT id, {_UNMOVED}, 'name ' || id, id * 1.5 "
            f"FROM generate_series(0, {_COPIED - 1}) AS id"
            for table in range(tables)
        )
        self._execute(["ANALYZE"])

    def file(self) -> None:
        """Change rows of the tables that move, in one transaction."""
        first = len(self.written) * self.events
        self._execute(
            f"UPDATE table_{table} SET number = {first} + id, amount = amount + 1 WHERE id < {self.events}"
            for table in range(self.tables)
        )
        self.written.append((first + self.events - 1, time.time()))

    def _execute(self, statements: Iterable[str]) -> None:
        with closing(psycopg2.connect(self.uri)) as connection, connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def measure(rounds: int, tables: int = TABLES, minutes: float = _MINUTES) -> list[Measure]:
    """Measure triggered rounds, then continuous updates."""
    with PostgresServer() as server, session() as (spark, folder):
        worlds = [
            World(spark=spark, folder=folder, name=f"of_{count}", module=_MODULE, flows=count)
            for count in (_FEW, tables)
        ]
        sources = [_begun(world, server) for world in worlds]
        few, many = _triggered(worlds, sources, rounds)
        few_seen, many_seen = (
            _latencies(world, source, minutes) for world, source in zip(worlds, sources, strict=True)
        )
        processes = Processes(spark)
        with worlds[1].running() as running:
            idle = idle_measures(running, processes, minutes, benchmark="x", settle=_until_settled)
            memory, python = processes.sample(), processes.python_megabytes()
    what = f"{tables} tables of which {_FEW} move / {_FEW} tables that move"
    return [
        Measure(
            benchmark="x", what=f"a triggered update of {what}", unit="x", goal=TRIGGERED_GOAL,
            value=median(b / a for a, b in zip(few, many, strict=True)), detail=f"{spread(many)} / {spread(few)}",
        ),
        Measure(
            benchmark="x", what=f"latency of a continuous update of {what}", unit="x", goal=CONTINUOUS_GOAL,
            value=median(many_seen) / median(few_seen), detail=f"{spread(many_seen)} / {spread(few_seen)}",
        ),
        *idle,
        Measure(
            benchmark="x", what=f"memory of all Python processes, {tables} tables", unit="MB", goal=MEMORY_GOAL,
            value=python, detail=f"the update's own {memory.python_megabytes:.0f} MB, Java's heap "
            f"{memory.heap_megabytes:.0f} MB",
        ),
    ]  # fmt: skip


def _begun(world: World, server: PostgresServer) -> Source:
    """Create a database and its copies."""
    server.run("createdb", world.name)
    source = Source(folder=world.data, events=_ROWS, uri=server.uri(world.name), tables=_FEW)
    source.create(world.flows)
    world.data.mkdir(parents=True)
    (world.data / "connections.yml").write_text(f"bench: {source.uri}\n", encoding="utf-8")
    begin = time.monotonic()
    _check(world.pipeline().run().state == "COMPLETED", "the first update completed")
    print(f"{world.flows} tables copied in {time.monotonic() - begin:.0f} s", flush=True)
    return source


def _triggered(worlds: Sequence[World], sources: Sequence[Source], rounds: int) -> tuple[list[float], ...]:
    """Run updates of both worlds in alternation, each after a transaction; the first ones are warm-up."""
    pipelines, seconds = [world.pipeline() for world in worlds], tuple(list[float]() for _ in worlds)
    for number in range(_WARM_UP + rounds):
        for pipeline, source, found in zip(pipelines, sources, seconds, strict=True):
            source.file()
            begin = time.monotonic()
            result = pipeline.run()
            if number < _WARM_UP:
                continue
            found.append(time.monotonic() - begin)
            moved = [flow for flow in result.flows if flow.state == "COMPLETED"]
            _check(len(moved) == _FEW + 1, f"{_FEW} flows and that of the changes ran, and not {len(moved)}")
    return seconds


def _latencies(world: World, source: Source, minutes: float) -> list[float]:
    """Return the seconds from each transaction to its rows in each copy that moves, in a continuous update."""
    tables = [world.table(f"table_{number}") for number in range(_FEW)]
    with world.running() as running:
        _until_settled(running)
        with fed([source], _CHANGES_PER_SECOND):
            time.sleep(minutes * 12)
            begin = time.time()
            time.sleep(minutes * 60)
            end = time.time()
        last = source.written[-1][0]
        until(lambda: all(_highest(table) >= last for table in tables), "read to the end", 300)
    return [each for table in tables for each in source.latencies(table, begin, end)]


def _until_settled(running: RunningUpdate) -> None:
    """Wait until nothing but the reader of the log runs, which has to ask the database."""

    def is_settled() -> bool:
        # Snapshot flows that are complete are not among the flows of the update.
        found = {flow.health for flow in running.flows if not flow.flow.table.endswith("_changes")}
        return bool(found) and found <= {FlowHealth.IDLE, FlowHealth.DONE}

    until(is_settled, "settled")


def _highest(table: Path) -> int:
    return (visible_events(table) or [(_UNMOVED, 0.0)])[-1][0]


def _check(holds: bool, what: str) -> None:  # noqa: FBT001 - a condition
    if not holds:
        msg = f"Not: {what}."
        raise RuntimeError(msg)
