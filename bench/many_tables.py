"""(x) An ingestion of 200 tables of which 5 move, beside an ingestion of 5 that all move; (x46) the same of MariaDB.

`dp.ingest_database` copies two schemas of one server: a snapshot flow and a change flow for each table, and
one table with the changes of all. Triggered: the time of an update, in alternation. Continuous: the time from a
transaction at the source to its rows in the copies. Then nothing moves. `--tables N` is for a try.

(y46) 300 tables of MariaDB, one of which has a date that can't be represented: the others are copied and follow. The
times of the first update, of one in which nothing moves, of one in which five tables move, and of a status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg2

from bench.continuous import Feed, World, fed, idle_measures, session, spread, until, visible_events
from bench.measure import Measure
from bench.piled_up import Processes
from framework.demo.postgres_server import PostgresServer
from framework.foundation.clock import SystemClock
from framework.ingest.gateway_status import IngestedState
from framework.ingest.status import read_status
from framework.run.update.continuous.units import FlowHealth
from framework.run.update.results import UpdateResult
from framework.running_update import RunningUpdate
from tests.support.mysql_programs import MARIADB, programs_of
from tests.support.mysql_servers import MysqlServer

TRIGGERED_GOAL, CONTINUOUS_GOAL, MEMORY_GOAL = 1.5, 1.5, 1_024.0
TABLES, ALL_TABLES = 200, 300
FIRST_GOAL, IDLE_GOAL, MOVED_GOAL, STATUS_GOAL = 300.0, 10.0, 15.0, 5.0
_FEW, _ROWS, _COPIED = 5, 20, 100
_WARM_UP, _CHANGES_PER_SECOND, _MINUTES = 2, 0.5, 1.0
_UNMOVED = -1
"""The column `number` of a row that has not moved since its snapshot."""

_MODULE = """
from framework import pipelines as dp

dp.ingest_database(
    name=f"of_{spark.conf.get('bench.flows')}",
    connection="bench",
    objects=[{"schema": {"source_schema": "SCHEMA"}}],
    options={"connectionsFolder": spark.conf.get("bench.data")},
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs.

    Args:
        letter: what the names of its figures end with.
        schema: of the tables; that of the database if empty.
        fill: creates a table with rows that have not moved.
        spoil: puts a date into `table_0` that can't be represented.
        create: makes a database, and returns its URI.
        run: runs statements at a database as one transaction.
    """

    letter: str
    schema: str
    fill: tuple[str, ...]
    spoil: str
    create: Callable[[str], str]
    run: Callable[[str, Iterable[str]], None]


_TABLE = (
    "CREATE TABLE {name} (id INT PRIMARY KEY, number BIGINT, name TEXT, amount NUMERIC(12,2), note TEXT, day DATE, "
    "created TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6), is_open BOOLEAN DEFAULT true, weight DOUBLE PRECISION)"
)
_INSERT = "INSERT INTO {name} (id, number, name, amount) SELECT"


@contextmanager
def open_postgres() -> Iterator[Server]:
    """Start PostgreSQL for the block."""
    with PostgresServer() as server:

        def create(name: str) -> str:
            server.run("createdb", name)
            return server.uri(name)

        def run(name: str, statements: Iterable[str]) -> None:
            with closing(psycopg2.connect(server.uri(name))) as connection, connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)

        yield Server(
            letter="", schema="public", create=create, run=run,
            spoil="UPDATE table_0 SET day = 'infinity' WHERE id = 0",
            fill=(
                _TABLE,
                f"{_INSERT} i, {_UNMOVED}, 'name ' || i, i * 1.5 FROM generate_series(0, {_COPIED - 1}) AS i",
                "ANALYZE {name}",
            ),
        )  # fmt: skip


@contextmanager
def open_mariadb() -> Iterator[Server]:
    """Start MariaDB for the block."""
    with MysqlServer(programs_of(MARIADB)) as server:

        def create(name: str) -> str:
            server.query(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
            return server.uri(name)

        def run(name: str, statements: Iterable[str]) -> None:
            with server.connect(name, autocommit=False) as connection, connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                connection.commit()

        yield Server(
            letter="46", schema="", spoil="UPDATE table_0 SET day = '0000-00-00' WHERE id = 0", create=create, run=run,
            fill=(
                _TABLE,
                f"{_INSERT} seq, {_UNMOVED}, CONCAT('name ', seq), seq * 1.5 FROM seq_0_to_{_COPIED - 1}",
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source(Feed):
    """Moves some tables of a database: each transaction gives the same new numbers to rows of each of them.

    Args:
        server: its server.
        database: its name.
        first: the first table that moves.
        tables: the number of tables that move.
    """

    server: Server
    database: str
    first: int = 0
    tables: int

    def create(self, tables: int) -> None:
        """Create the tables, with rows that have not moved."""
        for table in range(tables):
            self.server.run(self.database, [text.format(name=f"table_{table}") for text in self.server.fill])

    def file(self) -> None:
        """Change rows of the tables that move, in one transaction."""
        first = len(self.written) * self.events
        self.server.run(
            self.database,
            [
                f"UPDATE table_{table} SET number = {first} + id, amount = amount + 1 WHERE id < {self.events}"
                for table in range(self.first, self.first + self.tables)
            ],
        )
        self.written.append((first + self.events - 1, time.time()))


def measure_mariadb(rounds: int, tables: int = TABLES) -> list[Measure]:
    """Measure the same on MariaDB."""
    return measure(rounds, tables, start=open_mariadb)


def measure_all(rounds: int, tables: int = ALL_TABLES) -> list[Measure]:
    """Measure updates of many tables of MariaDB, of which one can't be copied."""
    with open_mariadb() as server, session() as (spark, folder):
        world = World(spark=spark, folder=folder, name="every", module=_module(server, "every"), flows=tables)
        source = _source(world, server, first=1)
        server.run("every", ["SET SESSION sql_mode = ''", server.spoil])
        first, result = _timed(world)
        _check(_failed(result) == ["table_0_snapshot_flow"], f"one table failed, and not {_failed(result)}")
        idle, moved, status = list[float](), list[float](), list[float]()
        for _ in range(_WARM_UP + rounds):
            idle.append(_timed(world)[0])
            source.file()
            seconds, result = _timed(world)
            moved.append(seconds)
            _check(_failed(result) == ["table_0_snapshot_flow"], "the others follow")
            _check(all(_highest(world.table(f"table_{n}")) == source.written[-1][0] for n in range(1, 6)), "they moved")
            status.append(_status_seconds(world, tables))
    what = f"of {tables} tables of MariaDB, one of which can't be copied"
    found = (
        ("the first update", [first], FIRST_GOAL),
        ("an update in which nothing moves,", idle[_WARM_UP:], IDLE_GOAL),
        (f"an update in which {_FEW} move,", moved[_WARM_UP:], MOVED_GOAL),
        ("a status", status[_WARM_UP:], STATUS_GOAL),
    )
    return [
        Measure(
            benchmark="y46", what=f"{each} {what}", unit="s", goal=goal, value=median(seconds),
            detail=f"{min(seconds):.1f} to {max(seconds):.1f} s, {len(seconds)} runs",
        )
        for each, seconds, goal in found
    ]  # fmt: skip


def _timed(world: World) -> tuple[float, UpdateResult]:
    """Run an update as a command does, which loads the pipeline; return its seconds and its result."""
    begin = time.monotonic()
    result = world.pipeline().run()
    return time.monotonic() - begin, result


def _failed(result: UpdateResult) -> list[str]:
    return [flow.flow.table for flow in result.flows if flow.state == "FAILED"]


def _status_seconds(world: World, tables: int) -> float:
    storage = world.pipeline().storage
    begin = time.monotonic()
    (found,) = read_status(storage, SystemClock().now())
    seconds = time.monotonic() - begin
    following = [each for each in found.tables if each.state is IngestedState.FOLLOWING]
    _check(len(following) == tables - 1, f"{tables - 1} tables follow, and not {len(following)}")
    return seconds


def measure(
    rounds: int,
    tables: int = TABLES,
    minutes: float = _MINUTES,
    start: Callable[[], AbstractContextManager[Server]] = open_postgres,
) -> list[Measure]:
    """Measure triggered rounds, then continuous updates."""
    with start() as server, session() as (spark, folder):
        letter = f"x{server.letter}"
        worlds = [
            World(spark=spark, folder=folder, name=name, module=_module(server, name), flows=count)
            for name, count in ((f"of_{count}", count) for count in (_FEW, tables))
        ]
        sources = [_begun(world, server) for world in worlds]
        few, many = _triggered(worlds, sources, rounds)
        few_seen, many_seen = (
            _latencies(world, source, minutes) for world, source in zip(worlds, sources, strict=True)
        )
        processes = Processes(spark)
        with worlds[1].running() as running:
            idle = idle_measures(running, processes, minutes, benchmark=letter, settle=_until_settled)
            memory, python = processes.sample(), processes.python_megabytes()
    what = f"{tables} tables of which {_FEW} move / {_FEW} tables that move"
    return [
        Measure(
            benchmark=letter, what=f"a triggered update of {what}", unit="x", goal=TRIGGERED_GOAL,
            value=median(b / a for a, b in zip(few, many, strict=True)), detail=f"{spread(many)} / {spread(few)}",
        ),
        Measure(
            benchmark=letter, what=f"latency of a continuous update of {what}", unit="x", goal=CONTINUOUS_GOAL,
            value=median(many_seen) / median(few_seen), detail=f"{spread(many_seen)} / {spread(few_seen)}",
        ),
        *idle,
        Measure(
            benchmark=letter, what=f"memory of all Python processes, {tables} tables", unit="MB", goal=MEMORY_GOAL,
            value=python, detail=f"the update's own {memory.python_megabytes:.0f} MB, Java's heap "
            f"{memory.heap_megabytes:.0f} MB",
        ),
    ]  # fmt: skip


def _module(server: Server, database: str) -> str:
    return _MODULE.replace("SCHEMA", server.schema or database)


def _source(world: World, server: Server, first: int = 0) -> Source:
    """Create a database with the tables of a world, and its connection."""
    uri = server.create(world.name)
    source = Source(folder=world.data, events=_ROWS, server=server, database=world.name, first=first, tables=_FEW)
    source.create(world.flows)
    world.data.mkdir(parents=True)
    (world.data / "connections.yml").write_text(f"bench: {uri}\n", encoding="utf-8")
    return source


def _begun(world: World, server: Server) -> Source:
    """Create a database and its copies."""
    source = _source(world, server)
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
