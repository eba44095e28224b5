"""(a) One module of three append tables and two views: `sluice run` compared with `spark-pipelines run`.

Complete processes are timed as the shell sees them: the first run, and the second one without new data. Spark's side
is tuned as ours, with two shuffle and two snapshot partitions. It has Delta as `spark.sql.sources.default`, its Hive
catalog, and the jars on its class path; the module and the spec are the same files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from bench.measure import BIN, Measure, java_of_spark, pair_ratio, run_process, scratch_folder, seconds_of, sluice
from bench.warm_up import cached_jars

GOAL = 0.35
_PROJECTS = Path(__file__).parent / "projects"
_ROWS = 20_000
_TIMEOUT_SECONDS = 400


def measure(pairs: int) -> list[Measure]:
    """The ratio of the first runs and that of the second ones."""
    ours: list[list[float]] = [[], []]
    theirs: list[list[float]] = [[], []]
    for _ in range(pairs):
        for run, times in ((run_sluice, ours), (run_spark, theirs)):
            with scratch_folder() as folder:
                prepare_project(folder)
                for turn in range(2):
                    times[turn].append(run(folder))
    return [
        Measure(
            benchmark="a", what=f"`sluice run` / `spark-pipelines run`, {name} run", unit="x", goal=GOAL,
            value=pair_ratio(ours[turn], theirs[turn]),
            detail=f"{seconds_of(ours[turn])} / {seconds_of(theirs[turn])}, {pairs} pairs",
        )
        for turn, name in enumerate(("first", "second"))
    ]  # fmt: skip


def prepare_project(folder: Path) -> None:
    """The module, its spec with a storage of this folder, and its data."""
    copy_project("side_by_side", folder)
    makers: dict[str, Callable[[int], dict[str, object]]] = {
        "orders": lambda i: {"id": i, "customer": i % 50, "amount": i * 1.5},
        "customers": lambda i: {"id": i, "name": f"customer {i}"},
        "payments": lambda i: {"id": i, "order_id": i, "paid": i * 1.0},
    }
    for name, make in makers.items():
        path = folder / "data" / name / "0.json"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(make(i)) + "\n" for i in range(_ROWS)), encoding="utf-8")


def copy_project(name: str, folder: Path) -> None:
    """One of the projects, its module with a spec whose storage is in the folder."""
    shutil.copytree(_PROJECTS / name, folder, dirs_exist_ok=True)
    spec = (_PROJECTS / "spark-pipeline.yml").read_text("utf-8")
    (folder / "spark-pipeline.yml").write_text(spec.replace("/FOLDER", str(folder)), encoding="utf-8")


def run_sluice(folder: Path) -> float:
    """The wall time of `sluice run` in a folder with a spec."""
    command = sluice("run", "--spec", "spark-pipeline.yml", "--master", "local[2]")
    return run_process(command, folder=folder, timeout_seconds=_TIMEOUT_SECONDS).seconds


def run_spark(folder: Path) -> float:
    """The wall time of `spark-pipelines run` in a folder with a spec, on Delta."""
    settings = {
        "spark.driver.extraClassPath": ":".join(cached_jars()),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.sources.default": "delta",
        "spark.sql.catalogImplementation": "hive",
        "spark.ui.enabled": "false",
        # As a local session of ours is sized to two cores.
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    command = [str(BIN / "spark-pipelines"), "--remote", "local[2]", "run", "--spec", "spark-pipeline.yml"]
    environment = {"SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": str(BIN / "python"), **java_of_spark()}
    seconds = run_process(command, folder=folder, environment=environment, timeout_seconds=_TIMEOUT_SECONDS).seconds
    assert "Run is COMPLETED" in (folder / "bench.log").read_text("utf-8", errors="replace")
    return seconds
