"""A standalone cluster on loopback: pipelines run on it as they are, and its executors read a database in parallel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import pytest

from framework import Pipeline
from framework.demo.postgres_server import PostgresServer
from framework.demo.project import prepare_folder
from tests.e2e.flights_oracle import expected_flights, sorted_rows
from tests.e2e.standalone_cluster import standalone_cluster
from tests.e2e.test_flights import MONTHS, plain, rounded
from tests.support.settings import INTERPRETED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.cluster
# What an operator sets for a small cluster, in Spark's own file. Spark shuffles into 200 tasks by default and Delta
# reads a table in 50. Three processes that live for a minute are done before their compilers pay off.
FOR_A_SMALL_CLUSTER = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    **INTERPRETED,
}
# A filter that takes half a second for each chunk, once: chunks that are read in parallel are seen together.
MODULE = """
from pyspark.sql import SparkSession

from framework import pipelines as dp

spark = SparkSession.active()


def read():
    reader = spark.readStream.format("postgres_snapshot").option("connection", "bank").option("table", "public.orders")
    reader = reader.option("connectionsFolder", spark.conf.get("folder")).option("chunkBytes", "64k")
    return reader.option("rowFilter", "(SELECT length(pg_sleep(0.5)::text)) = 0").load()


@dp.table
def orders():
    return read()


dp.create_streaming_table("merged")


@dp.snapshot_flow(target="merged", keys=["id"], sequence_by="position", except_column_list=["position"])
def merged_snapshot():
    return read().selectExpr("*", "0L AS position")
"""


@pytest.fixture(scope="module")
def update(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], None]]:
    """Runs an update of the pipeline in a folder on a cluster of two executors."""
    root = tmp_path_factory.mktemp("cluster")
    configured = root / "conf"
    configured.mkdir()
    (configured / "spark-defaults.conf").write_text(
        "".join(f"{key} {value}\n" for key, value in FOR_A_SMALL_CLUSTER.items()), encoding="utf-8"
    )
    with standalone_cluster(root / "cluster", workers=2) as master:

        def run(folder: Path) -> None:
            spec = str(folder / "pipeline.yml")
            command = [sys.executable, "-m", "framework", "run", "--spec", spec, "--master", master]
            environment = {
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "SPARK_CONF_DIR": str(configured),
                "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
            }
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
            assert done.returncode == 0, done.stderr[-3000:]

        yield run


def test_the_pipeline_runs_on_a_cluster_as_it_is(
    spark: SparkSession, update: Callable[[Path], None], tmp_path: Path
) -> None:
    """The same spec, `--master`, the same table."""
    folder = tmp_path / "flights"
    prepare_folder(folder, MONTHS)
    update(folder)
    pipeline = Pipeline.from_spec(folder / "pipeline.yml", spark=spark)
    found = plain(pipeline.table("flights")).toPandas()
    assert rounded(sorted_rows(found)) == rounded(sorted_rows(expected_flights(MONTHS)))


def test_executors_read_chunks_of_a_database_in_parallel(
    spark: SparkSession, update: Callable[[Path], None], tmp_path: Path
) -> None:
    """Two executors read two chunks at a time; each row is in the table once."""
    with PostgresServer() as server, closing(psycopg2.connect(server.uri())) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name TEXT)")
        cursor.execute("INSERT INTO orders SELECT i, repeat('x', 99) || i FROM generate_series(1, 3000) i")
        cursor.execute("ANALYZE orders")
        (tmp_path / "connections.yml").write_text(f"bank: {server.uri()}\n", "utf-8")
        (tmp_path / "module.py").write_text(MODULE, "utf-8")
        spec = {
            "name": "shop", "storage": str(tmp_path / "storage"), "configuration": {"folder": str(tmp_path)},
            "libraries": [{"file": {"path": "module.py"}}],
        }  # fmt: skip
        (tmp_path / "pipeline.yml").write_text(json.dumps(spec), "utf-8")
        at_once: set[int] = set()
        ended = threading.Event()
        watching = threading.Thread(target=_watch, args=(server.uri(), ended, at_once), daemon=True)
        watching.start()
        update(tmp_path)
        ended.set()
        watching.join(10)
        pipeline = Pipeline.from_spec(tmp_path / "pipeline.yml", spark=spark)
        cursor.execute("SELECT id, name FROM orders ORDER BY id")
        expected = cursor.fetchall()
        for target in ("orders", "merged"):
            assert [tuple(row) for row in pipeline.table(target).orderBy("id").collect()] == expected, target
    files = {path.name for path in (tmp_path / "storage").rglob("*.parquet") if "_delta_log" not in str(path)}
    assert any(name.startswith("snapshot-") for name in files)  # the files of the readers are those of the table
    assert not [*(tmp_path / "storage" / "staged").rglob("*.parquet")]
    assert max(at_once) >= 2


def _watch(uri: str, ended: threading.Event, at_once: set[int]) -> None:
    """Collect how many sessions read a chunk at the same time."""
    with closing(psycopg2.connect(uri)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        while not ended.wait(0.05):
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
            at_once.add(cursor.fetchone()[0])  # type: ignore[index]
