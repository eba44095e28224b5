"""`python -m bench million`: an update of `cloudFiles` with ten new files, of a million known ones.

Each side is a process of its own. The list of known files is made directly; the folder has as many real files on both
sides, all of them known, and once more with many. Python's peak memory is that of the process, without the JVM.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench.cloud_files import pipeline_of, write_small
from bench.measure import Measure, pair_ratio, run_process, scratch_folder, seconds_of
from bench.results import render_line, save_measures
from framework.foundation.files.storage import LocalStorage
from framework.session.spark_session import start_session, stop_session
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.listing import list_new
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
    NothingKnown,
)
from framework.sources.cloud_files.settings.given_options import parse_options

KNOWN = 1_000_000
_FEW, _MANY_REAL, _NEW = 2_000, 100_000, 10
_TIMEOUT_SECONDS = 1800.0


def measure(pairs: int, known: int = KNOWN) -> list[Measure]:
    """Compare times and memory."""
    with scratch_folder() as folder:
        few = _side(folder / "few", known=_FEW, real=_FEW, pairs=pairs)
        many = _side(folder / "many", known=known, real=_FEW, pairs=pairs)
        real = min(_MANY_REAL, known)
        full = _side(folder / "full", known=known, real=real, pairs=pairs)
    return [
        _measure(
            f"time of {_NEW} new files, {known:,} known / {_FEW:,}", pair_ratio(many[0], few[0]), "x", 1.5,
            f"{seconds_of(many[0])} / {seconds_of(few[0])}, {pairs} updates",
        ),
        _measure(f"Python's peak with {known:,} known - with {_FEW:,}", many[1] - few[1], "MB", 50.0,
                 f"{many[1]:.0f} - {few[1]:.0f} MB"),
        _measure(
            f"time of {_NEW} new files, {known:,} known, {real:,} in the folder / {_FEW:,} and {_FEW:,}",
            pair_ratio(full[0], few[0]), "x", 3.0, f"{seconds_of(full[0])} / {seconds_of(few[0])}, {pairs} updates",
        ),
        _measure(f"Python's peak, {real:,} in the folder", full[1] - few[1], "MB", 100.0,
                 f"{full[1]:.0f} - {few[1]:.0f} MB"),
    ]  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the benchmark; figures of fewer known files than it is meant for are not kept."""
    if arguments[:1] == ["side"]:
        return _measured(Path(arguments[1]), *map(int, arguments[2:]))
    parser = argparse.ArgumentParser(prog="python -m bench million")
    parser.add_argument("--known", type=int, default=KNOWN, help="files in the list; fewer for a try")
    parser.add_argument("--pairs", type=int, default=5, help="how many updates of each side")
    chosen = parser.parse_args(arguments)
    measures = measure(chosen.pairs, chosen.known)
    for each in measures:
        print(render_line(each), flush=True)
    if chosen.known >= KNOWN:
        save_measures(measures)
    return 0 if all(each.met for each in measures) else 1


def _measure(what: str, value: float, unit: str, goal: float, detail: str) -> Measure:
    return Measure(benchmark="million", what=what, value=value, unit=unit, goal=goal, detail=detail)


def _side(folder: Path, *, known: int, real: int, pairs: int) -> tuple[list[float], float]:
    """The times of the updates of one side, and the peak of its process in megabytes."""
    folder.mkdir()
    write_small(folder / "data", range(real))
    peak = 0.0
    for updates in (0, pairs):  # the process that makes the list is another one
        command = [sys.executable, "-m", "bench", "million", "side", str(folder), str(known), str(updates)]
        place = {"PYTHONPATH": str(Path(__file__).parents[1])}
        peak = run_process(command, folder=folder, environment=place, timeout_seconds=_TIMEOUT_SECONDS).peak_megabytes
    times = json.loads((folder / "times.json").read_text("utf-8"))
    print(f"{folder.name}: {seconds_of(times)}, {peak:.0f} MB", flush=True)  # one side takes minutes
    return times, peak


def _measured(folder: Path, known: int, pairs: int) -> int:
    """Run updates with ten new files each; without pairs, begin with an empty folder and make the list."""
    data, empty = folder / "data", folder / "empty"
    spark = start_session(app_name="bench", master="local[2]", spark_conf={})
    try:
        if not pairs:
            data.rename(empty)
            data.mkdir()
        pipeline = pipeline_of(spark, folder, "known", data, kind="json", batch=1000)
        if not pairs:
            pipeline.run()
            data.rmdir()
            empty.rename(data)
            _make_list(folder, data, known)
            return 0
        times = []
        for pair in range(pairs + 1):
            write_small(data, range(10**7 + pair * _NEW, 10**7 + (pair + 1) * _NEW))
            begun = time.monotonic()
            written = [flow.rows_written for flow in pipeline.run().flows]
            times.append(time.monotonic() - begun)
            assert written == [_NEW], written
    finally:
        stop_session(spark)
    (folder / "times.json").write_text(json.dumps(times[1:]), "utf-8")
    return 0


def _make_list(folder: Path, data: Path, known: int) -> None:
    """Make the list of a source that has passed over the files of the folder and many that are gone."""
    (start,) = folder.rglob("cloud_files/0/files/start")
    options = parse_options(str(data), {"cloudfiles.format": "json"}, has_schema=True, zone="UTC")
    real = list_new(None, options, NothingKnown())
    gone = [
        FoundFile(uri=f"file:{data}/year=2025/part-{number:09d}.json", size=78, modified_ms=number)
        for number in range(known - len(real))
    ]
    log = FileLog(LocalStorage(str(folder)), str(start.parent)).load()
    log.begin([*gone, *real])
    log.index()
