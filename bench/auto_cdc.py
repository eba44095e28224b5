"""(i) to (m), (u) AUTO CDC compared with the hand-written solution: row_number over the key, then MERGE.

Both sides process their batches alternately in one session; both get the DataFrame that `foreachBatch` passes. Both
read the same Parquet files; 2 % of the events are deletes. The hand-written table has no deletion vectors, which is
Delta's default. A stream runs for thousands of batches, so batches into small tables come first, until Java has
compiled the code of both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, Self

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.measure import Measure, scratch_folder, seconds_of
from framework.cdc.analysis.target_schema import CdcInput, plan_target
from framework.cdc.writer import AutoCdcWriter, table_properties
from framework.declare.specs import AutoCdcSpec, ColumnSelection
from framework.foundation.names import QualifiedName
from framework.foundation.table_address import TableAddress
from framework.session.spark_session import start_session, stop_session

RANDOM_GOAL, CLOSE_GOAL, LOAD_GOAL, HISTORY_GOAL, DRIFT_GOAL, HEAP_GOAL = 2.0, 3.0, 0.6, 0.5, 1.3, 1.0
CLOSE_GROWTH_GOAL, RANDOM_GROWTH_GOAL = 1.3, 3.0

_MILLION = 1_000_000
_ROWS, _LARGE_ROWS, _LOADED_ROWS = 2 * _MILLION, 20 * _MILLION, 5 * _MILLION
_EVENTS, _GROWTH_EVENTS = 100_000, 50_000
_WARM_UP_ROWS, _WARM_UP_EVENTS, _WARM_UP_BATCHES = 200_000, 20_000, 12
_LARGE_WARM_UP_ROWS, _LARGE_WARM_UP_EVENTS = 600_000, 300_000
"""A batch of so many events is not broadcast, as one of a million."""
_SMALL_BATCHES, _SMALL_EVENTS, _EDGE = 300, 1_000, 50
_COLUMNS = "id BIGINT, name STRING, city STRING, amount DOUBLE, op STRING, seq BIGINT"

Apply = Callable[[DataFrame, int], object]
Make = Callable[[str], Apply]


def measure_batches(pairs: int) -> list[Measure]:
    """(i) Events per second into 2 million rows: keys at random, and close together."""
    return [
        *_batches(pairs, "keys at random", RANDOM_GOAL, spread=_ROWS),
        *_batches(pairs, "keys close together", CLOSE_GOAL, spread=_EVENTS * 2),
    ]


def measure_large_batches(pairs: int) -> list[Measure]:
    """(u) The same with a million events in each batch."""
    return [
        *_batches(pairs, "keys at random", RANDOM_GOAL, spread=_ROWS, events=_MILLION),
        *_batches(
            pairs, "keys close together", CLOSE_GOAL, spread=_MILLION * 2, events=_MILLION, rows=_LARGE_ROWS // 2
        ),
    ]


def measure_load(pairs: int) -> list[Measure]:
    """(j) The first load of 5 million rows, compared with a plain append of them."""
    with scratch_folder() as folder, _Bench(folder) as bench:
        path = bench.write(_snapshot(bench.spark, _LOADED_ROWS), "snapshot")
        ours, plain = [], []
        for number in range(pairs + 1):
            ours.append(_seconds(bench.ours(f"ours_{number}"), bench.read(path), 0))
            plain.append(_seconds(bench.append(f"plain_{number}"), bench.read(path), 0))
    ratios = [b / a for a, b in zip(ours[1:], plain[1:], strict=True)]
    return [
        Measure(
            benchmark="j", what="rows/s of a first load of 5 million rows / of a plain append", unit="x", at_most=False,
            goal=LOAD_GOAL, value=median(ratios), detail=f"{seconds_of(ours[1:])} / {seconds_of(plain[1:])}",
        )
    ]  # fmt: skip


def measure_growth(pairs: int) -> list[Measure]:
    """(k) A batch of 50,000 events into 20 million rows, compared with one into 2 million."""
    found = []
    for what, close, goal in (
        ("close together", True, CLOSE_GROWTH_GOAL),
        ("at random", False, RANDOM_GROWTH_GOAL),
    ):
        with scratch_folder() as folder, _Bench(folder) as bench:
            times: dict[int, list[float]] = {}
            _warm_up(bench, bench.ours)
            sides = {rows: bench.ours(f"rows_{rows}") for rows in (_ROWS, _LARGE_ROWS)}
            for rows, apply in sides.items():
                apply(_snapshot(bench.spark, rows), 0)
            paths = {
                rows: bench.write_batches(
                    f"rows_{rows}",
                    events=_GROWTH_EVENTS,
                    spread=_GROWTH_EVENTS * 2 if close else rows,
                    batches=pairs + 1,
                )
                for rows in sides
            }
            for number in range(1, pairs + 2):
                for rows, apply in sides.items():
                    times.setdefault(rows, []).append(_seconds(apply, bench.read(paths[rows][number - 1]), number))
        small, large = times[_ROWS][1:], times[_LARGE_ROWS][1:]
        ratio = median(b / a for a, b in zip(small, large, strict=True))
        found.append(
            Measure(
                benchmark="k", what=f"time of a batch into 20 million rows / into 2 million, keys {what}", unit="x",
                goal=goal, value=ratio, detail=f"{seconds_of(large)} / {seconds_of(small)}",
            )
        )  # fmt: skip
    return found


def measure_drift(_pairs: int) -> list[Measure]:
    """(l) 300 batches of 1,000 events: the last fifty compared with the first fifty, after ten to warm up."""
    with scratch_folder() as folder, _Bench(folder) as bench:
        apply = bench.ours("target")
        apply(_snapshot(bench.spark, _SMALL_EVENTS * 100), 0)
        batches = bench.write_batches(
            "batches", events=_SMALL_EVENTS, spread=_SMALL_EVENTS * 100, batches=_SMALL_BATCHES + 10
        )
        times = [_seconds(apply, bench.read(path), number) for number, path in enumerate(batches, start=1)]
        first, last = times[10 : 10 + _EDGE], times[-_EDGE:]
    return [
        Measure(
            benchmark="l", what="300 batches of 1,000 events: the last fifty / the first fifty", unit="x",
            goal=DRIFT_GOAL, value=mean(last) / mean(first), detail=f"{mean(last):.2f} s / {mean(first):.2f} s a batch",
        )
    ]  # fmt: skip


def measure_history(pairs: int) -> list[Measure]:
    """(m) Events per second of SCD type 2 compared with SCD type 1, keys at random."""
    with scratch_folder() as folder, _Bench(folder) as bench:
        sides = _turns(bench, (partial(bench.ours, scd_type=2), bench.ours), pairs, spread=_ROWS)
    two, one = (side.seconds for side in sides)
    return [
        Measure(
            benchmark="m", what="events/s of SCD type 2 / of SCD type 1, 2 million rows", unit="x", at_most=False,
            goal=HISTORY_GOAL, value=median(b / a for a, b in zip(two, one, strict=True)),
            detail=f"{seconds_of(two)} / {seconds_of(one)} a batch of {_EVENTS:,}",
        )
    ]  # fmt: skip


@dataclass(slots=True)
class _Side:
    """What the batches of one side took.

    Args:
        seconds: of each batch.
        peaks: the peak of Java's heap in each batch in megabytes, as its memory pools report it.
    """

    seconds: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)


def _batches(
    pairs: int, what: str, goal: float, *, spread: int, events: int = _EVENTS, rows: int = _ROWS
) -> list[Measure]:
    with scratch_folder() as folder, _Bench(folder) as bench:
        ours, by_hand = _turns(bench, (bench.ours, bench.by_hand), pairs, spread=spread, events=events, rows=rows)
    letter = "i" if events == _EVENTS else "u"
    size = f"batches of {events:,} into {rows // _MILLION} million rows"
    return [
        Measure(
            benchmark=letter, what=f"events/s of AUTO CDC / of row_number and MERGE by hand, {what}", unit="x",
            at_most=False, goal=goal,
            value=median(b / a for a, b in zip(ours.seconds, by_hand.seconds, strict=True)),
            detail=f"{seconds_of(ours.seconds)} / {seconds_of(by_hand.seconds)}, {size}, {pairs} pairs",
        ),
        Measure(
            benchmark=letter, what=f"peak heap of AUTO CDC / of row_number and MERGE by hand, {what}", unit="x",
            goal=HEAP_GOAL, value=max(ours.peaks) / max(by_hand.peaks),
            detail=f"{max(ours.peaks):.0f} MB / {max(by_hand.peaks):.0f} MB of 3 GB, {size}",
        ),
    ]  # fmt: skip


def _warm_up(bench: _Bench, *makes: Make, rows: int = _WARM_UP_ROWS, events: int = _WARM_UP_EVENTS) -> None:
    """Small batches into small tables, by the same code."""
    path = bench.write(_snapshot(bench.spark, rows), "warm_up")
    sides = [make(f"warm_up_{number}") for number, make in enumerate(makes)]
    for apply in sides:
        apply(bench.read(path), 0)
    batches = bench.write_batches("warm_ups", events=events, spread=rows, batches=_WARM_UP_BATCHES)
    for number, path in enumerate(batches, start=1):
        for apply in sides:
            apply(bench.read(path), number)


def _turns(
    bench: _Bench, makes: tuple[Make, Make], pairs: int, *, spread: int, events: int = _EVENTS, rows: int = _ROWS
) -> tuple[_Side, _Side]:
    """The batches of both sides, in turn; the first pair is not counted."""
    if events > _LARGE_WARM_UP_EVENTS:
        _warm_up(bench, *makes, rows=_LARGE_WARM_UP_ROWS, events=_LARGE_WARM_UP_EVENTS)
    else:
        _warm_up(bench, *makes)
    applies = [make(f"side_{number}") for number, make in enumerate(makes)]
    snapshot = bench.write(_snapshot(bench.spark, rows), "snapshot")
    for apply in applies:
        apply(bench.read(snapshot), 0)
    sides = _Side(), _Side()
    batches = bench.write_batches("batches", events=events, spread=spread, batches=pairs + 1)
    for number, path in enumerate(batches, start=1):
        for apply, side in zip(applies, sides, strict=True):
            with bench.peak_heap() as peak:
                seconds = _seconds(apply, bench.read(path), number)
            if number > 1:
                side.seconds.append(seconds)
                side.peaks.append(peak())
    return sides


def _seconds(apply: Apply, batch: DataFrame, number: int) -> float:
    begun = time.monotonic()
    apply(batch, number)
    return time.monotonic() - begun


def _name(table: str) -> QualifiedName:
    return QualifiedName(catalog="main", schema="default", table=table)


def _snapshot(spark: SparkSession, rows: int) -> DataFrame:
    """So many keys, in their order."""
    return spark.range(0, rows, 1, 4).selectExpr(
        "id", "concat('name ', id) AS name", "concat('city ', id % 1000) AS city", "rand(3) * 100 AS amount",
        "'U' AS op", "id AS seq",
    )  # fmt: skip


def _events(spark: SparkSession, events: int, spread: int, number: int) -> DataFrame:
    """So many events over keys from 0 to `spread`, newer than all before them."""
    seed = number * 7919  # far apart, for Spark adds the partition's number: the next batch would have half of the keys
    return spark.range(0, events, 1, 2).selectExpr(
        f"CAST(rand({seed}) * {spread} AS BIGINT) AS id", "concat('name ', id) AS name",
        f"concat('town ', id % 1000, ' {number}') AS city", "rand(5) * 100 AS amount",
        f"IF(rand({seed + 1000}) < 0.02, 'D', 'U') AS op", f"{number} * 1000000000L + id AS seq",
    )  # fmt: skip


class _Bench:
    """A session with 3 GB, and tables in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        self.spark = start_session(
            app_name="bench", master="local[2]", spark_conf={"spark.driver.memory": "3g"}
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        stop_session(self.spark)

    @contextmanager
    def peak_heap(self) -> Iterator[Callable[[], float]]:
        """Collect garbage, reset the peaks of Java's heap pools, and return what reads their sum in megabytes."""
        java: Any = self.spark._jvm.java.lang  # type: ignore[union-attr]  # a started session has a JVM
        beans = java.management.ManagementFactory.getMemoryPoolMXBeans()
        pools = [bean for bean in beans if bean.getType().toString() == "Heap memory"]
        java.System.gc()
        for pool in pools:
            pool.resetPeakUsage()
        yield lambda: sum(pool.getPeakUsage().getUsed() for pool in pools) / 2**20

    def write(self, rows: DataFrame, name: str) -> Path:
        """Rows as Parquet files."""
        path = self._folder / "sources" / name
        rows.write.parquet(str(path))
        return path

    def write_batches(self, name: str, *, events: int, spread: int, batches: int) -> list[Path]:
        """Write all batches before the first measurement; otherwise Java compiles the writing code during the next."""
        numbers = range(1, batches + 1)
        return [self.write(_events(self.spark, events, spread, number), f"{name}_{number}") for number in numbers]

    def read(self, path: Path) -> DataFrame:
        """The rows again."""
        return self.spark.read.schema(_COLUMNS).parquet(str(path))

    def ours(self, name: str, *, scd_type: int = 1) -> Apply:
        """AUTO CDC into a new table: batch 0 by a once flow, the others by an incremental one."""
        columns = ColumnSelection(columns=("op", "seq"), excluded=True)
        snapshot = AutoCdcSpec(keys=("id",), sequence_by="0", scd_type=scd_type, columns=columns)
        changes = replace(snapshot, sequence_by="seq", apply_as_deletes="op = 'D'")
        source = self.spark.createDataFrame([], _COLUMNS)
        flows = [
            CdcInput(name=_name(flow), spec=spec, once=spec is snapshot, location=None, source=source)
            for flow, spec in (("snapshot", snapshot), ("changes", changes))
        ]
        target = plan_target(_name(name), flows)
        table = TableAddress(path=str(self._folder / name))
        builder = DeltaTable.create(self.spark).location(str(table.path)).addColumns(target.table_schema)
        for key, value in table_properties({}).items():
            builder = builder.property(key, value)
        builder.execute()
        loader, writer = (
            AutoCdcWriter(
                target=target, flow=flow.name, spec=flow.spec, table=table, application_id=flow.name.table,
                auxiliary=TableAddress(path=str(self._folder / f"{name}_companion")),
            )
            for flow in flows
        )  # fmt: skip
        return lambda batch, number: (writer if number else loader).apply(batch, number)

    def by_hand(self, name: str) -> Apply:
        """The hand-written solution: the newest row of each key, merged if it is newer."""
        path = str(self._folder / name)
        newest = Window.partitionBy("id").orderBy(F.desc("seq"))

        def apply(batch: DataFrame, number: int) -> None:
            if number == 0:
                batch.drop("op").write.format("delta").save(path)
                return
            latest = batch.withColumn("rank", F.row_number().over(newest)).where("rank = 1").drop("rank")
            values = {column: f"s.{column}" for column in ("id", "name", "city", "amount", "seq")}
            merge = DeltaTable.forPath(self.spark, path).alias("t").merge(latest.alias("s"), "t.id = s.id")
            merge = merge.whenMatchedDelete("s.op = 'D' AND s.seq > t.seq")
            merge = merge.whenMatchedUpdate("s.seq > t.seq", set=dict(values))
            merge.whenNotMatchedInsert("s.op <> 'D'", values=dict(values)).execute()

        return apply

    def append(self, name: str) -> Apply:
        """A plain append."""
        path = str(self._folder / name)
        return lambda batch, _: batch.drop("op", "seq").write.format("delta").mode("append").save(path)
