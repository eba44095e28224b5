"""(w) Six AUTO CDC batches of 100,000 events into 2 million rows, as complete processes.

`sluice run`, cold and in a session, is compared with the stream that an engineer writes by hand: `foreachBatch` with
`row_number` and MERGE, tuned as a session of ours is. Each batch is one Parquet file; keys are random. The session has
done one such update before, as it has on any day after the first minutes; its time is printed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bench.measure import Measure, java_of_spark, pair_ratio, run_process, scratch_folder, seconds_of, sluice
from bench.side_by_side import copy_project
from bench.warm_up import cached_jars
from framework.session.spark_session import start_session, stop_session

COLD_GOAL, WARM_GOAL = 1.6, 2.0
_ROWS, _EVENTS, _BATCHES = 2_000_000, 100_000, 6
_TIMEOUT_SECONDS = 600
_PROJECT = ("--spec", "spark-pipeline.yml", "--master", "local[2]")


def measure(pairs: int) -> list[Measure]:
    """Events per second of the whole processes."""
    cold: list[float] = []
    warm: list[float] = []
    by_hand: list[float] = []
    with scratch_folder() as folder:
        _write_events(folder / "events", rounds=2 * pairs + 1)
        for name in ("ours", "hand"):
            copy_project("six_batches", folder / name)
            (folder / name / "data").mkdir()
            _feed(folder, name, 0)
        _sluice(folder, "run")
        _by_hand(folder)
        for pair in range(1, pairs + 1):
            _feed(folder, "ours", pair)
            _feed(folder, "hand", pair)
            cold.append(_sluice(folder, "run"))
            by_hand.append(_by_hand(folder))
        _sluice(folder, "session", "start")
        try:
            for pair in range(pairs + 1, 2 * pairs + 2):
                _feed(folder, "ours", pair)
                warm.append(_sluice(folder, "run"))
            print(f"the first update of the session: {warm.pop(0):.1f} s", flush=True)
        finally:
            run_process(sluice("session", "stop"), folder=folder / "ours", timeout_seconds=_TIMEOUT_SECONDS)
    return [
        Measure(
            benchmark="w", what=f"six AUTO CDC batches, events/s of a whole {name} / of a stream by hand", unit="x",
            at_most=False, goal=goal, value=1 / pair_ratio(ours, by_hand),
            detail=f"{seconds_of(ours)} / {seconds_of(by_hand)}, {pairs} pairs",
        )
        for name, goal, ours in (
            ("cold `sluice run`", COLD_GOAL, cold),
            ("`sluice run` in a session", WARM_GOAL, warm),
        )
    ]  # fmt: skip


def _write_events(folder: Path, *, rounds: int) -> None:
    """A first file with all keys, and six files of events for each round, newer than all before."""
    spark = start_session(app_name="bench", master="local[2]", spark_conf={})
    spark.range(0, _ROWS, 1, 1).selectExpr(
        "id", "concat('name ', id) AS name", "concat('city ', id % 1000) AS city", "rand(3) * 100 AS amount",
        "'U' AS op", "id AS seq",
    ).write.parquet(str(folder / "0"))  # fmt: skip
    for number in range(1, rounds * _BATCHES + 1):
        seed = number * 7919
        spark.range(0, _EVENTS, 1, 1).selectExpr(
            f"CAST(rand({seed}) * {_ROWS} AS BIGINT) AS id", "concat('name ', id) AS name",
            f"concat('town ', id % 1000, ' {number}') AS city", "rand(5) * 100 AS amount",
            f"IF(rand({seed + 1000}) < 0.02, 'D', 'U') AS op", f"{number} * 1000000000L + id AS seq",
        ).write.parquet(str(folder / str(number)))  # fmt: skip
    stop_session(spark)


def _feed(folder: Path, name: str, turn: int) -> None:
    """Move the files of a round to where a side reads them: the first one has all keys."""
    numbers = [0] if turn == 0 else range((turn - 1) * _BATCHES + 1, turn * _BATCHES + 1)
    for number in numbers:
        (file,) = (folder / "events" / str(number)).glob("*.parquet")
        shutil.copy(file, folder / name / "data" / f"{number:05}.parquet")


def _sluice(folder: Path, *command: str) -> float:
    run = run_process(sluice(*command, *_PROJECT), folder=folder / "ours", timeout_seconds=_TIMEOUT_SECONDS)
    log = (folder / "ours" / "bench.log").read_text("utf-8", errors="replace")
    assert "started Spark itself" not in log, log
    return run.seconds


def _by_hand(folder: Path) -> float:
    environment = {**java_of_spark(), "BENCH_JARS": ":".join(cached_jars())}
    command = [sys.executable, "by_hand.py"]
    return run_process(
        command, folder=folder / "hand", environment=environment, timeout_seconds=_TIMEOUT_SECONDS
    ).seconds
