"""The main pipeline on real data, on a standalone cluster on loopback; its executors read a database in parallel.

One update fills all tables. The demo's tables equal those that pandas computes from the package's frames.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import psycopg2
import pytest
import yaml
from pyspark.sql import functions as sql

from framework import Pipeline
from framework.demo import feeder
from framework.demo.demo import RESULT, run_demo
from framework.demo.postgres_server import PostgresServer
from framework.demo.project import prepare_folder
from framework.demo.source_data import read_flights, read_weather
from tests.e2e.flights_oracle import EXPECTED, expected_weather_counts, sorted_rows
from tests.e2e.standalone_cluster import standalone_cluster
from tests.support.settings import INTERPRETED, NO_ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.record.events import Event

pytestmark = pytest.mark.cluster
# Of a month of the demo; the feed of the other days is left out.
DAYS, MONTHS = 16, 1
# What an operator sets for a small cluster, in Spark's own file. Spark shuffles into 200 tasks by default and Delta
# reads a table in 50. Processes that live for a minute are done before their compilers pay off.
FOR_A_SMALL_CLUSTER = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.executor.cores": "1",  # two executors in a worker of two cores
    "spark.executor.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {NO_ARCHIVE}",
    **INTERPRETED,
}
PASSWORD = "of-the-cluster-hunter2"  # noqa: S105 - of nothing
# A filter that is evaluated once for each chunk, and waits for the reader of another one: chunks that are read in
# parallel are seen together, however late the process of one of them starts.
WAIT_FOR_ANOTHER_READER = """
CREATE FUNCTION wait_for_another_reader() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR turn IN 1..20 LOOP
        PERFORM pg_sleep(0.1), pg_stat_clear_snapshot();
        EXIT WHEN EXISTS (
            SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND pid <> pg_backend_pid()
        );
    END LOOP;
    PERFORM pg_sleep(0.3);
    RETURN true;
END $$
"""
DATABASE_MODULE = """
import json
from pathlib import Path

from pyspark.sql import SparkSession

from framework import pipelines as dp

spark = SparkSession.active()
seen = [
    spark._jvm.java.lang.System.getProperty("store.password"),
    spark.sparkContext._jsc.hadoopConfiguration().get("store.secret"),
    spark.conf.get("spark.sql.shuffle.partitions"),
]
file = Path(spark.conf.get("folder"), "seen.json")
if not file.exists():  # the tests read the module again
    file.write_text(json.dumps(seen))


def read():
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bank").option("table", "public.orders")
    reader = reader.option("connectionsFolder", spark.conf.get("folder")).option("chunkBytes", "64k")
    return reader.option("rowFilter", "(SELECT wait_for_another_reader())").load()


@dp.table
def orders():
    return read()


dp.create_streaming_table("merged")


@dp.snapshot_flow(target="merged", keys=["id"], sequence_by="position", except_column_list=["position"])
def merged_snapshot():
    return read().selectExpr("*", "0L AS position")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The demo's folder after the update.

    Args:
        spark: the test's session.
        folder: the demo's folder.
        result: what the command printed.
        orders: the rows of the database.
        at_once: how many sessions of the database read a chunk at the same time.
        told: the arguments of processes that had the password.
    """

    spark: SparkSession
    folder: Path
    result: Any
    orders: list[tuple[Any, ...]]
    at_once: set[int]
    told: set[str]

    def pipeline(self, spec: str = "pipeline.yml") -> Pipeline:
        """The pipeline in the test's session."""
        return Pipeline.from_spec(self.folder / spec, spark=self.spark)


def run_on_cluster(root: Path, spec: Path) -> Any:
    """Run an update on a cluster of two executors, and return its result."""
    configured = root / "conf"
    configured.mkdir()
    settings = "".join(f"{key} {value}\n" for key, value in FOR_A_SMALL_CLUSTER.items())
    (configured / "spark-defaults.conf").write_text(settings, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "SPARK_CONF_DIR": str(configured),
        "JDK_JAVA_OPTIONS": f"-XX:TieredStopAtLevel=1 {NO_ARCHIVE}",
    }
    with standalone_cluster(root / "cluster", cores=2) as master:
        command = [sys.executable, "-m", "framework", "run", "--spec", str(spec), "--master", master, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def spec_with_database(folder: Path) -> Path:
    """Write a spec of the same pipeline with the tables of the database, beside the demo's own."""
    spec = yaml.safe_load((folder / "pipeline.yml").read_text("utf-8"))
    spec["libraries"].append({"file": {"path": "database.py"}})
    spec["configuration"]["folder"] = str(folder)
    spec["spark_conf"] = {
        **(spec.get("spark_conf") or {}),
        "spark.driver.extraJavaOptions": f"-Dstore.password={PASSWORD}",
        "spark.hadoop.store.secret": f"{PASSWORD}: = #",
    }
    (folder / "database.py").write_text(DATABASE_MODULE, "utf-8")
    path = folder / "cluster.yml"
    path.write_text(yaml.safe_dump(spec), "utf-8")
    return path


def first_days(read: Callable[[int], pd.DataFrame], months: int) -> pd.DataFrame:
    """The first days of a frame of the package."""
    frame = read(months)
    return frame[frame["day"] <= DAYS].reset_index(drop=True)


@pytest.fixture(scope="module")
def updated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Updated:
    """The demo's folder after one update of half of January and of a table of a database."""
    root = tmp_path_factory.mktemp("cluster")
    folder = root / "flights"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeder, "read_flights", partial(first_days, read_flights))
        patch.setattr(feeder, "read_weather", partial(first_days, read_weather))
        prepare_folder(folder, MONTHS)
    spec = spec_with_database(folder)
    with PostgresServer() as server, closing(psycopg2.connect(server.uri())) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(WAIT_FOR_ANOTHER_READER)
        cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
        cursor.execute("INSERT INTO orders SELECT i, repeat('x', 99) || i FROM generate_series(1, 3000) i")
        cursor.execute("ANALYZE orders")
        (folder / "connections.yml").write_text(f"bank: {server.uri()}\n", "utf-8")
        at_once: set[int] = set()
        told: set[str] = set()
        ended = threading.Event()
        watching = threading.Thread(target=_watch, args=(server.uri(), ended, at_once, told), daemon=True)
        watching.start()
        result = run_on_cluster(root, spec)
        ended.set()
        watching.join(10)
        cursor.execute("SELECT id, name FROM orders ORDER BY id")
        orders = cursor.fetchall()
    return Updated(spark=spark, folder=folder, result=result, orders=orders, at_once=at_once, told=told)


def _watch(uri: str, ended: threading.Event, at_once: set[int], told: set[str]) -> None:
    """Collect how many sessions read a chunk at the same time, and arguments of processes that have the password."""
    with closing(psycopg2.connect(uri)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        while not ended.wait(0.05):
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            at_once.add(cursor.fetchone()[0])  # type: ignore[index]
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    arguments = path.read_text("utf-8", errors="replace")
                    told |= {arguments} if PASSWORD in arguments else set()


def plain(frame: DataFrame) -> DataFrame:
    """The frame with dates as text and times as text in UTC, as the oracle has them."""
    columns = []
    for field in frame.schema.fields:
        kind = field.dataType.typeName()
        column = sql.col(field.name)
        if kind == "timestamp":
            column = sql.date_format(column, "yyyy-MM-dd'T'HH:mm:ss'Z'").alias(field.name)
        elif kind == "date":
            column = column.cast("string").alias(field.name)
        columns.append(column)
    return frame.select(*columns)


def rounded(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows with floats to nine digits: sums of floats depend on their order."""
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


@pytest.mark.parametrize("table", sorted(EXPECTED))
def test_every_final_table_agrees_with_pandas_to_the_row(updated: Updated, table: str) -> None:
    """Snapshot, late, repeated and cancelled events together end in the figures of the source itself.

    The modules run on a cluster as they are: the same pipeline, `--master`, the same tables.
    """
    assert updated.result["state"] == "COMPLETED"
    found = plain(updated.pipeline().table(table)).toPandas()
    expected = EXPECTED[table](DAYS)
    assert sorted(found.columns) == sorted(expected.columns)
    assert rounded(sorted_rows(found)) == rounded(sorted_rows(expected))


def test_the_expectations_count_what_is_wrong_with_the_weather(updated: Updated) -> None:
    """Passed and failed of each expectation, as pandas counts them."""
    flow = next(each for each in updated.result["flows"] if each["flow"].endswith(".weather_observations"))
    counts = {each["name"]: (each["passed"], each["failed"]) for each in flow["expectations"]}
    assert counts == expected_weather_counts(DAYS)


def test_executors_read_chunks_of_a_database_in_parallel(updated: Updated) -> None:
    """Two executors read two chunks at a time; each row is in the table once."""
    pipeline = updated.pipeline("cluster.yml")
    for target in ("orders", "merged"):
        assert [tuple(row) for row in pipeline.table(target).orderBy("id").collect()] == updated.orders, target
    storage = updated.folder / ".sluice" / "flights"
    files = {path.name for path in storage.rglob("*.parquet") if "_delta_log" not in str(path)}
    assert any(name.startswith("snapshot-") for name in files)  # the files of the readers are those of the table
    assert not [*(storage / "staged").rglob("*.parquet")]
    assert max(updated.at_once) >= 2


def test_settings_reach_spark_but_not_the_arguments_of_its_processes(updated: Updated) -> None:
    """Those of the spec, with all that separates settings in a file, beside those of Spark's own file."""
    seen = json.loads((updated.folder / "seen.json").read_text("utf-8"))
    assert seen == [PASSWORD, f"{PASSWORD}: = #", "2"]
    assert updated.told == set()


def test_the_demo_of_the_same_folder_finds_nothing_to_do_and_shows_the_worst_delays(updated: Updated) -> None:
    """Another process, without the cluster, goes on where the update ended; the tables are not touched."""
    heard: list[Event] = []
    demo = run_demo(folder=updated.folder, months=MONTHS, master=None, progress=heard.append)
    assert demo.update.is_idle
    assert heard
    shown = pd.DataFrame(demo.result_rows, columns=list(demo.result_columns))
    expected = EXPECTED[RESULT](DAYS).sort_values("mean_delay_minutes", ascending=False).head(len(shown))
    assert len(shown) == 8
    assert rounded(sorted_rows(shown)) == rounded(sorted_rows(expected))
    assert shown["mean_delay_minutes"].is_monotonic_decreasing
