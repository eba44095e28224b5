"""Snapshots of MariaDB through Spark: into committed staging, against Spark's JDBC and bare connectorx processes.

`python -m bench mysql_snapshots [--rows N] [--pairs N]`. As in `bench.snapshots`, all read the same table in turns,
in one warm session of two cores. The bare processes have started and are given their chunks before they are timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from bench.measure import Measure, pair_ratio, scratch_folder
from bench.snapshot_chunks import CHUNKS, ROWS, reader_pool
from framework.pipeline import Pipeline
from framework.session.spark_session import start_session, stop_session
from tests.support.mysql_programs import MARIADB, programs_of
from tests.support.mysql_servers import MysqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BARE_GOAL, JDBC_GOAL = 0.7, 2.5
_DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.3"
_SETTINGS = {"innodb-buffer-pool-size": "1G", "skip-log-bin": "1"}
_COLUMNS = (
    "id BIGINT PRIMARY KEY, customer INT, amount DECIMAL(12,2), price DOUBLE, quantity SMALLINT, created TIMESTAMP(6) "
    "NULL, updated DATETIME(6), day DATE, active TINYINT(1), code VARCHAR(20), city TEXT, note TEXT"
)
_VALUES = (
    "seq, seq % 100000, (seq % 1000000) / 100.0, seq / 3.0, seq % 100, '2020-01-01' + INTERVAL seq SECOND, "
    "'2020-01-01' + INTERVAL seq MINUTE, '2020-01-01' + INTERVAL seq % 1000 DAY, seq % 2 = 0, "
    "CONCAT('code-', seq % 5000), CONCAT('city number ', seq % 300), CONCAT(MD5(seq), MD5(seq + 1))"
)
_MODULE = """
from framework import pipelines as dp

@dp.table
def copy():
    reader = spark.readStream.format("database_snapshot").option("connection", "bench")
    reader = reader.option("connectionsFolder", spark.conf.get("bench.folder"))
    return reader.option("table", "bench.even").load()
"""


def measure(pairs: int, rows: int = ROWS) -> list[Measure]:
    """(a) One unmeasured pair warms the session and the server's cache."""
    with MysqlServer(programs_of(MARIADB), _SETTINGS) as server, scratch_folder() as folder, reader_pool() as pool:
        server.query("CREATE DATABASE bench CHARACTER SET utf8mb4")
        server.query(f"CREATE TABLE bench.even ({_COLUMNS})")
        server.query(f"INSERT INTO even SELECT {_VALUES} FROM seq_1_to_{rows}", database="bench")
        server.query("ANALYZE TABLE bench.even")
        uri = server.uri("bench")
        (folder / "connections.yml").write_text(f"bench: {uri}\n", "utf-8")
        spark = start_session(app_name="bench", master="local[2]", spark_conf={"spark.jars.packages": _DRIVER})
        times: dict[str, list[float]] = {}
        sides: dict[str, Callable[[Path], float]] = {
            "staging": lambda place: _flow(spark, place, folder, rows),
            "bare": lambda place: _bare(pool, place, server.port, rows),
            "JDBC": lambda place: _jdbc(spark, place, server.port, rows),
        }
        try:
            for turn in range(pairs + 1):
                for name, run in sides.items():
                    place = folder / f"{name}_{turn}"
                    place.mkdir()
                    times.setdefault(name, []).append(run(place))
        finally:
            stop_session(spark)
    return [
        _ratio(times, rows, "bare", BARE_GOAL, "two bare connectorx processes that write Parquet"),
        _ratio(times, rows, "JDBC", JDBC_GOAL, "Spark JDBC into Parquet"),
    ]


def _ratio(times: dict[str, list[float]], rows: int, theirs: str, goal: float, what: str) -> Measure:
    mine, other = (times[side][1:] or times[side] for side in ("staging", theirs))
    rates = " / ".join(f"{rows / median(each):,.0f}" for each in (mine, other))
    return Measure(
        benchmark="a46", what=f"snapshot of MariaDB into staging, rows/s / {what}", unit="x", goal=goal, at_most=False,
        value=1 / pair_ratio(mine, other), detail=f"{rates} rows/s, {len(mine)} pairs",
    )  # fmt: skip


def _flow(spark: SparkSession, place: Path, folder: Path, rows: int) -> float:
    """The wall time of an update with one flow."""
    (place / "module.py").write_text(_MODULE, "utf-8")
    begun = time.monotonic()
    pipeline = Pipeline(
        name=place.name, modules=[place / "module.py"], storage=str(place / "storage"),
        configuration={"bench.folder": str(folder)}, spark=spark,
    )  # fmt: skip
    result = pipeline.run()
    seconds = time.monotonic() - begun
    assert [flow.rows_written for flow in result.flows] == [rows], result
    return seconds


def _jdbc(spark: SparkSession, place: Path, port: int, rows: int) -> float:
    """The wall time of Spark's partitioned JDBC read into Parquet."""
    options = {
        "url": f"jdbc:mysql://127.0.0.1:{port}/bench?permitMysqlScheme", "user": "root", "password": "",
        "dbtable": "even",
        "driver": "org.mariadb.jdbc.Driver", "fetchsize": "10000", "partitionColumn": "id", "lowerBound": "1",
        "upperBound": str(rows), "numPartitions": str(CHUNKS),
    }  # fmt: skip
    begun = time.monotonic()
    spark.read.format("jdbc").options(**options).load().write.parquet(str(place / "table"))
    return time.monotonic() - begun


def _bare(pool: ProcessPoolExecutor, place: Path, port: int, rows: int) -> float:
    """The wall time of two processes that read chunks, with exact decimals, and write each as Parquet."""
    step = rows // CHUNKS
    tasks = [
        (str(place), port, number * step, rows if number == CHUNKS - 1 else (number + 1) * step)
        for number in range(CHUNKS)
    ]
    begun = time.monotonic()
    list(pool.map(_read_bare, tasks))
    return time.monotonic() - begun


def _read_bare(task: tuple[str, int, int, int]) -> None:
    import connectorx

    folder, port, after, upto = task
    columns = (
        "id, customer, CAST(amount AS CHAR) amount, price, quantity, created, updated, day, active, code, city, note"
    )
    query = f"SELECT {columns} FROM even WHERE id > {after} AND id <= {upto}"
    uri = f"mysql://root:@127.0.0.1:{port}/bench?prefer_socket=false"
    table = connectorx.read_sql(uri, query, protocol="binary", return_type="arrow")
    pq.write_table(table, Path(folder) / f"{after}.parquet", compression="snappy")
