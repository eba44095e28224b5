"""(a), (v) One module of three append tables and two views: `sluice run` compared with `spark-pipelines run`.

Complete processes are timed as the shell sees them: the first run, and the second one without new data. Spark's side
is tuned as ours, with two shuffle partitions and one snapshot partition. It has Delta as `spark.sql.sources.default`,
its Hive catalog, and the jars on its class path; the module and the spec are the same files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from bench.measure import BIN, Measure, java_of_spark, pair_ratio, run_process, scratch_folder, seconds_of, sluice
from bench.warm_up import cached_jars

GOAL, WARM_GOAL = 0.35, 0.12
_PROJECTS = Path(__file__).parent / "projects"
_PROJECT = ("--spec", "spark-pipeline.yml", "--master", "local[2]")
_ROWS = 20_000
_WARM_UPS = 3
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


def measure_warm(pairs: int) -> list[Measure]:
    """(v) An update with 20,000 new rows for each table in a session, and the first run of Spark, as whole processes.

    The session has done three such updates, as it has on any day after the first minutes.
    """
    ours: list[float] = []
    theirs: list[float] = []
    with scratch_folder() as folder:
        prepare_project(folder)
        run_process(sluice("session", "start", *_PROJECT), folder=folder, timeout_seconds=_TIMEOUT_SECONDS)
        try:
            for number in range(1, _WARM_UPS + 1):
                run_sluice(folder)
                write_data(folder, number)
            for number in range(_WARM_UPS + 1, _WARM_UPS + pairs + 1):
                ours.append(run_sluice(folder))
                log = (folder / "bench.log").read_text("utf-8", errors="replace")
                assert "started Spark itself" not in log, log
                write_data(folder, number)
                with scratch_folder() as other:
                    prepare_project(other)
                    theirs.append(run_spark(other))
        finally:
            run_process(sluice("session", "stop"), folder=folder, timeout_seconds=_TIMEOUT_SECONDS)
    return [
        Measure(
            benchmark="v", what="`sluice run` in a session / `spark-pipelines run`", unit="x", goal=WARM_GOAL,
            value=pair_ratio(ours, theirs), detail=f"{seconds_of(ours)} / {seconds_of(theirs)}, {pairs} pairs",
        )
    ]  # fmt: skip


def prepare_project(folder: Path) -> None:
    """The module, its spec with a storage of this folder, and its data."""
    copy_project("side_by_side", folder)
    write_data(folder, 0)


def write_data(folder: Path, number: int) -> None:
    """20,000 new rows for each of the three tables, as one file."""
    makers: dict[str, Callable[[int], dict[str, object]]] = {
        "orders": lambda i: {"id": i, "customer": i % 50, "amount": i * 1.5},
        "customers": lambda i: {"id": i, "name": f"customer {i}"},
        "payments": lambda i: {"id": i, "order_id": i, "paid": i * 1.0},
    }
    for name, make in makers.items():
        path = folder / "data" / name / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = range(number * _ROWS, (number + 1) * _ROWS)
        path.write_text("".join(json.dumps(make(i)) + "\n" for i in rows), encoding="utf-8")


def copy_project(name: str, folder: Path) -> None:
    """One of the projects, its module with a spec whose storage is in the folder."""
    shutil.copytree(_PROJECTS / name, folder, dirs_exist_ok=True)
    spec = (_PROJECTS / "spark-pipeline.yml").read_text("utf-8")
    (folder / "spark-pipeline.yml").write_text(spec.replace("/FOLDER", str(folder)), encoding="utf-8")


def run_sluice(folder: Path) -> float:
    """The wall time of `sluice run` in a folder with a spec."""
    command = sluice("run", *_PROJECT)
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
        "spark.databricks.delta.snapshotPartitions": "1",
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
