"""(o) to (s) Continuous updates: latency, many flows, idle cost, other ways to run them, and what piles up.

`python -m bench continuous --part a --minutes 10` runs one part. The time at which a row is visible is the time of
the commit that has it, read from the table's log afterwards, so that the measurement costs the update nothing.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from bench.measure import Measure, scratch_folder
from bench.piled_up import Processes, measure_pile
from bench.results import render_line, save_measures
from framework.pipeline import Pipeline
from framework.run.update.continuous.units import FlowHealth
from framework.running_update import RunningUpdate
from framework.session.spark_session import start_session, stop_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_MINUTE_GOAL, MEMORY_GOAL, MANY_GOAL, IDLE_GOAL, WAYS_GOAL = 1.3, 1.15, 1.5, 0.05, 1.0
_EVENTS_PER_SECOND, _FILES_PER_SECOND, _KEYS = 1_000, 2, 50_000
_FEW, _MANY, _SOME = 5, 200, 50
_MOVING_FILES_PER_SECOND = 0.5
_SETTLE_SECONDS, _POLL_SECONDS = 1800.0, 0.25
_SCHEMA = "number BIGINT, id BIGINT, name STRING, amount DOUBLE"

_TWO_FLOWS = f"""
from framework import pipelines as dp


@dp.table
def appended():
    return spark.readStream.schema("{_SCHEMA}").json(spark.conf.get("bench.data"))


@dp.temporary_view
def changes():
    return spark.readStream.schema("{_SCHEMA}").json(spark.conf.get("bench.data"))


dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="changes", keys=["id"], sequence_by="number")
"""

_MANY_FLOWS = f"""
from framework import pipelines as dp


def declare(number):
    @dp.table(name=f"table_{{number}}")
    def rows():
        return spark.readStream.schema("{_SCHEMA}").json(f"{{spark.conf.get('bench.data')}}/{{number}}")


for number in range(int(spark.conf.get("bench.flows"))):
    declare(number)
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Feed:
    """Writes numbered events as JSON files at a constant rate.

    Args:
        folder: the folder of the files.
        events: the number of events in a file.
        written: the last event of each file, and the time at which the file was visible.
    """

    folder: Path
    events: int
    written: list[tuple[int, float]] = field(default_factory=list)

    def file(self) -> None:
        """Write the next file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        first = len(self.written) * self.events
        numbers = range(first, first + self.events)
        rows = ({"number": n, "id": n * 7919 % _KEYS, "name": f"name {n}", "amount": n / 10} for n in numbers)
        hidden = self.folder / f".{first:09d}.json"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        hidden.rename(self.folder / f"{first:09d}.json")
        self.written.append((numbers[-1], time.time()))

    def latencies(self, table: Path, since: float, until: float) -> list[float]:
        """Return the seconds from a file to its rows in the table, of the files written in a time span.

        Raises:
            RuntimeError: the table has no rows of a file.
        """
        visible, found = iter(visible_events(table)), []
        highest, at = -1, 0.0
        for last, written in self.written:
            while highest < last:
                highest, at = next(visible, (-1, 0.0))
                if highest < 0:
                    msg = f"{table} has no rows of event {last}."
                    raise RuntimeError(msg)
            if since <= written < until:
                found.append(at - written)
        return found


def visible_events(table: Path) -> list[tuple[int, float]]:
    """Return the highest event number of a table after each commit that raises it, and the time of the commit."""
    found, highest = [], -1
    for file in sorted((table / "_delta_log").glob("*[0-9].json")):
        for line in file.read_text("utf-8").splitlines():
            stats = json.loads(line).get("add", {}).get("stats") if line.startswith('{"add"') else None
            number = json.loads(stats).get("maxValues", {}).get("number", -1) if stats else -1
            if number > highest:
                highest = number
                found.append((highest, file.stat().st_mtime))
    return found


@contextmanager
def fed(feeds: Sequence[Feed], files_per_second: float) -> Iterator[None]:
    """Write a file to each feed at a constant rate until the end of the block."""
    stop = threading.Event()

    def write() -> None:
        due = time.monotonic()
        while not stop.wait(max(due - time.monotonic(), 0.0)):
            for feed in feeds:
                feed.file()
            due += 1 / files_per_second

    thread = threading.Thread(target=write, name="feed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """A pipeline in a folder of its own.

    Args:
        name: the name of pipeline and folder.
        module: the source of its module.
        flows: the number of flows that the module declares, where it is variable.
    """

    spark: SparkSession
    folder: Path
    name: str
    module: str
    flows: int = 0

    @property
    def data(self) -> Path:
        """The folder of its sources."""
        return self.folder / self.name / "data"

    def table(self, name: str) -> Path:
        """Return the folder of a table."""
        return self.folder / self.name / "storage" / "tables" / "main" / "default" / name

    def feeds(self, moving: int, events: int = 100) -> list[Feed]:
        """Return a feed for each flow, each with its first file; only the first `moving` get more."""
        feeds = [Feed(folder=self.data / str(number), events=events) for number in range(self.flows)]
        for feed in feeds:
            feed.file()
        return feeds[:moving]

    def pipeline(self) -> Pipeline:
        """Return the pipeline."""
        module = self.folder / self.name / "module.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(self.module, encoding="utf-8")
        self.data.mkdir(exist_ok=True)
        return Pipeline(
            name=self.name, modules=[str(module)], storage=self.folder / self.name / "storage", spark=self.spark,
            configuration={"bench.data": str(self.data), "bench.flows": str(self.flows)},
        )  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[RunningUpdate]:
        """Run the pipeline continuously until the end of the block."""
        running = self.pipeline().start()
        try:
            yield running
        finally:
            running.stop()


def until(holds: Callable[[], bool], what: str, seconds: float = _SETTLE_SECONDS) -> None:
    """Wait until a condition holds.

    Raises:
        RuntimeError: it does not hold in time.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            msg = f"After {seconds:.0f} s: not {what}."
            raise RuntimeError(msg)
        time.sleep(_POLL_SECONDS)


def until_idle(running: RunningUpdate) -> None:
    """Wait until each flow has run and has nothing to read."""
    until(lambda: bool(running.flows) and {flow.health for flow in running.flows} == {FlowHealth.IDLE}, "idle")


def _all_visible(tables: Sequence[tuple[Feed, Path]]) -> bool:
    return all((visible_events(table) or [(-1, 0.0)])[-1][0] >= feed.written[-1][0] for feed, table in tables)


@contextmanager
def session() -> Iterator[tuple[SparkSession, Path]]:
    """A session with two cores, and a folder."""
    with scratch_folder() as folder:
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            yield spark, folder
        finally:
            stop_session(spark)


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1] if len(values) > 1 else values[0]


def spread(values: Sequence[float]) -> str:
    """Return median and 95th percentile as text."""
    return f"median {median(values):.2f} s, p95 {_percentile(values, 95):.2f} s"


def measure_steady(minutes: float) -> list[Measure]:
    """(o) An append flow and an AUTO CDC flow over 1,000 events/s: the last minute beside the first.

    A tenth of the time is warm-up.
    """
    span = min(60.0, minutes * 60 / 3)
    with session() as (spark, folder):
        world = World(spark=spark, folder=folder, name="steady", module=_TWO_FLOWS)
        processes, feed = Processes(spark), Feed(folder=world.data, events=_EVENTS_PER_SECOND // _FILES_PER_SECOND)
        world.data.mkdir(parents=True)
        feed.file()
        tables = {name: world.table(name) for name in ("appended", "latest")}
        with world.running() as running:
            until(lambda: _all_visible([(feed, table) for table in tables.values()]), "started")
            with fed([feed], _FILES_PER_SECOND):
                time.sleep(max(minutes * 6, 5))
                begin, first = time.time(), processes.sample()
                time.sleep(minutes * 60)
                end, last = time.time(), processes.sample()
            until(lambda: _all_visible([(feed, table) for table in tables.values()]), "read to the end", 120)
            print(*(f"{flow.flow.table}: {flow.health}" for flow in running.flows), sep=", ")
        found = []
        for name, table in tables.items():
            early, late = feed.latencies(table, begin, begin + span), feed.latencies(table, end - span, end)
            batches = sum(begin <= at < end for _, at in visible_events(table)) / minutes
            what = "an append flow" if name == "appended" else "an AUTO CDC flow"
            found.append(
                Measure(
                    benchmark="o", what=f"latency of {what} at 1,000 events/s: last minute / first minute", unit="x",
                    goal=LAST_MINUTE_GOAL, value=median(late) / median(early),
                    detail=f"first {spread(early)}; last {spread(late)}; {batches:.0f} batches/min, {minutes:g} min",
                )
            )  # fmt: skip
    return [
        *found,
        Measure(
            benchmark="o", what="Java heap after GC, end / begin", unit="x", goal=MEMORY_GOAL,
            value=last.heap_megabytes / first.heap_megabytes,
            detail=f"{first.heap_megabytes:.0f} MB, {last.heap_megabytes:.0f} MB",
        ),
        Measure(
            benchmark="o", what="resident memory of the Python process, end / begin", unit="x", goal=MEMORY_GOAL,
            value=last.python_megabytes / first.python_megabytes,
            detail=f"{first.python_megabytes:.0f} MB, {last.python_megabytes:.0f} MB",
        ),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What a span of time showed: latencies, and the share of a core in use."""

    latencies: list[float]
    cores: float


def _watch(world: World, feeds: Sequence[Feed], processes: Processes, seconds: float) -> _Window:
    """Feed some flows for a while, and wait until their rows are visible."""
    tables = [(feed, world.table(f"table_{number}")) for number, feed in enumerate(feeds)]
    with fed(feeds, _MOVING_FILES_PER_SECOND):
        time.sleep(seconds / 5)
        begin, cpu = time.time(), processes.cpu_seconds()
        time.sleep(seconds)
        end, cpu = time.time(), processes.cpu_seconds() - cpu
    until(lambda: _all_visible(tables), "read to the end", 300)
    latencies = [each for feed, table in tables for each in feed.latencies(table, begin, end)]
    return _Window(latencies=latencies, cores=cpu / (end - begin))


def measure_many(minutes: float, flows: int = _MANY) -> list[Measure]:
    """(p) Latency of 5 flows that move among 200, beside 5 flows; and (q) the 200 flows when nothing moves."""
    windows, idle = list[_Window](), list[Measure]()
    for count in (_FEW, flows):
        with session() as (spark, folder):
            world = World(spark=spark, folder=folder, name="many", module=_MANY_FLOWS, flows=count)
            processes, feeds = Processes(spark), world.feeds(_FEW)
            with world.running() as running:
                until_idle(running)
                windows.append(_watch(world, feeds, processes, minutes * 60))
                idle = idle_measures(running, processes, minutes)
    few, many = (window.latencies for window in windows)
    return [
        Measure(
            benchmark="p", what=f"latency of 5 flows among {flows} / of 5 flows alone", unit="x", goal=MANY_GOAL,
            value=median(many) / median(few), detail=f"{spread(many)} / {spread(few)}",
        ),
        *idle,
    ]  # fmt: skip


def measure_idle(minutes: float, flows: int = _MANY) -> list[Measure]:
    """(q) The share of a core that 200 flows take while nothing moves."""
    with session() as (spark, folder):
        world = World(spark=spark, folder=folder, name="idle", module=_MANY_FLOWS, flows=flows)
        processes = Processes(spark)
        world.feeds(0)
        with world.running() as running:
            return idle_measures(running, processes, minutes)


def idle_measures(
    running: RunningUpdate,
    processes: Processes,
    minutes: float,
    benchmark: str = "q",
    settle: Callable[[RunningUpdate], None] = until_idle,
) -> list[Measure]:
    """Return the share of a core that an update takes while nothing moves; `settle` waits for that."""
    settle(running)
    time.sleep(10)  # the session's own work after the last batch: its context cleaner, its metrics
    before, begin = processes.cpu_seconds_by_process(), time.monotonic()
    after, seconds = before, 0.0
    while seconds < minutes * 60:
        time.sleep(1)
        seconds = time.monotonic() - begin
        after = processes.cpu_seconds_by_process()
    python, java = ((late - early) / seconds for early, late in zip(before, after, strict=True))
    return [
        Measure(
            benchmark=benchmark, what=f"share of a core of {len(running.flows)} flows while nothing moves", unit="",
            goal=IDLE_GOAL, value=python + java,
            detail=f"Python {python:.3f}, Java {java:.3f}, {minutes:g} min",
        )
    ]  # fmt: skip


def measure_ways(minutes: float, flows: int = _SOME) -> list[Measure]:
    """(r) 5 flows that move among 50: a continuous update, rounds of triggered updates, one query for each flow."""
    windows = {way: _watch_way(run, way, flows, minutes) for way, run in _WAYS.items()}
    ours = windows.pop(_OURS)
    return [
        Measure(
            benchmark="r", what=f"latency of 5 flows among {flows}, a continuous update / {way}", unit="x",
            goal=WAYS_GOAL, value=median(ours.latencies) / median(other.latencies),
            detail=f"{spread(ours.latencies)}, {ours.cores:.2f} cores / "
            f"{spread(other.latencies)}, {other.cores:.2f} cores",
        )
        for way, other in windows.items()
    ]  # fmt: skip


def _watch_way(run: Callable[[World], AbstractContextManager[None]], way: str, flows: int, minutes: float) -> _Window:
    """Run some flows in one way, and watch those that move after each flow has run once."""
    with session() as (spark, folder):
        world = World(spark=spark, folder=folder, name="ways", module=_MANY_FLOWS, flows=flows)
        feeds = world.feeds(_FEW)
        with run(world):
            until(lambda: all(visible_events(world.table(f"table_{n}")) for n in range(flows)), f"begun: {way}")
            return _watch(world, feeds, Processes(spark), minutes * 60)


@contextmanager
def _continuously(world: World) -> Iterator[None]:
    with world.running() as running:
        until_idle(running)
        yield


@contextmanager
def _in_rounds(world: World) -> Iterator[None]:
    """Run triggered updates one after the other."""
    stop, pipeline = threading.Event(), world.pipeline()

    def rounds() -> None:
        while not stop.is_set():
            pipeline.run()

    pipeline.run()
    thread = threading.Thread(target=rounds, name="rounds", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _with_queries(world: World) -> Iterator[None]:
    """Keep one hand-written query for each flow."""
    with ExitStack() as queries:
        for number in range(world.flows):
            stream = world.spark.readStream.schema(_SCHEMA).json(str(world.data / str(number))).writeStream
            stream = stream.format("delta").option("checkpointLocation", str(world.folder / f"checkpoint_{number}"))
            queries.callback(stream.start(str(world.table(f"table_{number}"))).stop)
        yield


_OURS = "a continuous update"
_WAYS = {_OURS: _continuously, "rounds of triggered updates": _in_rounds, "a query for each flow": _with_queries}

PARTS: dict[str, tuple[Callable[..., list[Measure]], float]] = {
    "a": (measure_steady, 10),
    "b": (measure_many, 2),
    "c": (measure_idle, 2),
    "d": (measure_ways, 2),
    "e": (measure_pile, 10),
}
"""The parts by letter, and their default minutes."""


def main(arguments: Sequence[str]) -> int:
    """Run parts and keep their figures; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench continuous", description=__doc__)
    parser.add_argument("--part", action="append", choices=sorted(PARTS), help="may be repeated; none: all but c")
    parser.add_argument("--minutes", type=float, help="how long a part measures")
    parser.add_argument("--flows", type=int, help="the number of flows of b, c and d")
    parser.add_argument("--batches", type=int, help="the most micro-batches of e")
    parser.add_argument("--try", dest="trial", action="store_true", help="print the figures, but don't keep them")
    chosen = parser.parse_args(arguments)
    met = True
    for part in chosen.part or ("a", "b", "d", "e"):
        run, minutes = PARTS[part]
        more: dict[str, Any] = {"flows": chosen.flows} if chosen.flows and part in "bcd" else {}
        more |= {"batches": chosen.batches} if chosen.batches and part == "e" else {}
        found = run(chosen.minutes or minutes, **more)
        print(*map(render_line, found), sep="\n", flush=True)
        met = met and all(measure.met for measure in found)
        if not chosen.trial:
            save_measures(found)
    return 0 if met else 1
