"""(y) `cloudFiles`: many small files, large files; (known) few new files among many. `SLUICE_BENCH_SCALE` scales.

One warm session. The time of an update includes planning, listing and events. Each comparison has the same
files, the same columns and the same number of files in a micro-batch on both sides.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.measure import Measure, pair_ratio, scratch_folder, seconds_of
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session

_SCHEMA = "id BIGINT, sensor INT, reading DOUBLE, note STRING"
_SMALL_FILES, _KNOWN, _FEW_KNOWN, _NEW, _BATCH = 20_000, 200_000, 2_000, 10, 1_000
_BYTES = 2 * 10**9
_ROW_BYTES = {"json": 78, "parquet": 17}
_MODULE = """
from framework import pipelines as dp

@dp.table
def readings():
    reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "{format}").schema("{schema}")
    return reader.option("cloudFiles.maxFilesPerTrigger", {batch}).load("{data}")
"""


def measure(pairs: int, scale: float | None = None) -> list[Measure]:
    """Many small files and large ones, on data of `scale` times the full size."""
    with _session(scale) as (spark, folder, part):
        large = (_large(spark, folder, pairs, part, kind) for kind in _ROW_BYTES)
        return [_small(spark, folder, pairs, part), *large]


def measure_known(pairs: int, scale: float | None = None) -> list[Measure]:
    """Few new files among many known ones, whose number is `scale` times the full one."""
    with _session(scale) as (spark, folder, part):
        return [_known(spark, folder, pairs, part)]


@contextmanager
def _session(scale: float | None) -> Iterator[tuple[SparkSession, Path, float]]:
    part = float(os.environ.get("SLUICE_BENCH_SCALE", "1")) if scale is None else scale
    with scratch_folder() as folder:
        spark = start_session(app_name="bench", master="local[2]", spark_conf={})
        try:
            yield spark, folder, part
        finally:
            stop_session(spark)


def _small(spark: SparkSession, folder: Path, pairs: int, part: float) -> Measure:
    """Many small JSON files in one update, against Spark's file source with the same schema."""
    count = max(round(_SMALL_FILES * part), 20)
    data = folder / "small"
    write_small(data, range(count))
    return _compared(spark, folder, pairs, data, kind="json", what=f"{count:,} small JSON files", goal=1.0)


def _large(spark: SparkSession, folder: Path, pairs: int, part: float, kind: str) -> Measure:
    """Large files, against Spark's file source with the same schema."""
    rows = round(_BYTES * part / _ROW_BYTES[kind])
    data = folder / kind
    frame = spark.range(0, rows, 1, 16).selectExpr(
        "id", "CAST(id % 1000 AS INT) AS sensor", "rand(7) * 100 AS reading", "concat('note ', id) AS note"
    )
    frame.write.format(kind).save(str(data))
    size = sum(file.stat().st_size for file in data.iterdir()) / 1e9
    found = _compared(spark, folder, pairs, data, kind=kind, what=f"{size:.2f} GB of {kind}", goal=0.9)
    shutil.rmtree(data)
    return found


def _known(spark: SparkSession, folder: Path, pairs: int, part: float) -> Measure:
    """An update with ten new files, when many are known and when few are."""
    counts = [round(_FEW_KNOWN * part), round(_KNOWN * part)]
    folders = [folder / f"known_{number}_files" for number in range(2)]
    pipelines = []
    for number, (known, data) in enumerate(zip(counts, folders, strict=True)):
        write_small(data, range(known))
        pipelines.append(pipeline_of(spark, folder, f"known_{number}", data, kind="json", batch=known))
        pipelines[-1].run()
    times: list[list[float]] = [[], []]
    for pair in range(pairs + 1):
        for known, data, pipeline, taken in zip(counts, folders, pipelines, times, strict=True):
            first = known + pair * _NEW
            write_small(data, range(first, first + _NEW))
            begun = time.monotonic()
            written = [flow.rows_written for flow in pipeline.run().flows]
            taken.append(time.monotonic() - begun)
            assert written == [_NEW], written
    few, many = times[0][1:], times[1][1:]
    return Measure(
        benchmark="known", what=f"{_NEW} new files, {round(_KNOWN * part):,} known / {round(_FEW_KNOWN * part):,}",
        unit="x", goal=1.5, value=pair_ratio(many, few),
        detail=f"{seconds_of(many)} / {seconds_of(few)}, {pairs} pairs",
    )  # fmt: skip


def _compared(
    spark: SparkSession, folder: Path, pairs: int, data: Path, *, kind: str, what: str, goal: float
) -> Measure:
    """The speed of an update relative to the same stream written by hand; one unmeasured pair warms both."""
    expected = spark.read.schema(_SCHEMA).format(kind).load(str(data)).count()
    ours, by_hand = [], []
    for pair in range(pairs + 1):
        name = f"{data.name}_{pair}"
        begun = time.monotonic()
        written = [
            flow.rows_written for flow in pipeline_of(spark, folder, name, data, kind=kind, batch=_BATCH).run().flows
        ]
        ours.append(time.monotonic() - begun)
        assert written == [expected], (written, expected)
        by_hand.append(_time_by_hand(spark, folder / f"{name}_by_hand", data, kind))
        shutil.rmtree(folder / name)
        shutil.rmtree(folder / f"{name}_by_hand")
    return Measure(
        benchmark="y", what=f"speed of `cloudFiles` / of Spark's file source, {what}", unit="x", goal=goal,
        at_most=False, value=pair_ratio(by_hand[1:], ours[1:]),
        detail=f"{seconds_of(ours[1:])} / {seconds_of(by_hand[1:])}, {pairs} pairs",
    )  # fmt: skip


def pipeline_of(spark: SparkSession, folder: Path, name: str, data: Path, *, kind: str, batch: int) -> Pipeline:
    """A pipeline with one table over a folder; in its own folder, which may be there from an earlier process."""
    home = folder / name
    home.mkdir(exist_ok=True)
    module = home / "readings.py"
    module.write_text(_MODULE.format(format=kind, schema=_SCHEMA, data=data, batch=batch), encoding="utf-8")
    return Pipeline(name=name, modules=[str(module)], storage=str(home / "storage"), spark=spark)


def _time_by_hand(spark: SparkSession, home: Path, data: Path, kind: str) -> float:
    """The wall time of the same stream without us."""
    begun = time.monotonic()
    source = spark.readStream.format(kind).schema(_SCHEMA).option("maxFilesPerTrigger", _BATCH).load(str(data))
    stream = source.writeStream.format("delta").trigger(availableNow=True)
    stream.option("checkpointLocation", str(home / "checkpoint")).start(str(home / "table")).awaitTermination()
    return time.monotonic() - begun


def write_small(folder: Path, numbers: range) -> None:
    """One JSON file with one row for each number."""
    folder.mkdir(exist_ok=True)
    for number in numbers:
        row: Mapping[str, object] = {"id": number, "sensor": number % 1000, "reading": 0.5, "note": f"note {number}"}
        text = ", ".join(f'"{name}": {value!r}' for name, value in row.items()).replace("'", '"')
        (folder / f"{number:07d}.json").write_text(f"{{{text}}}\n", encoding="utf-8")
