"""With a metastore, a pipeline's tables are known there by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# A separate process, because a session's metastore is configured at the start of its JVM.
SCRIPT = """
import sys
from framework import Pipeline, pipelines as dp
from framework.session.spark_session import start_session, stop_session
from tests.support.settings import INTERPRETED

root = sys.argv[1]
spark = start_session(app_name="hive", master="local[2]", short=True, spark_conf={
    **INTERPRETED,
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": root + "/warehouse",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/metastore;create=true",
})

def declare():
    @dp.materialized_view
    def totals():
        return spark.range(3)

    @dp.materialized_view(private=True)
    def secret():
        return spark.range(1)

def run():
    pipeline = Pipeline(
        name="p", modules=[declare], storage=root + "/storage", catalog="spark_catalog", schema="sales", spark=spark
    )
    return pipeline.run().state.value

print("RESULT", run(), run(), spark.sql("SELECT count(*) FROM sales.totals").first()[0],
      [row.tableName for row in spark.sql("SHOW TABLES IN sales").collect()])
stop_session(spark)
"""


def test_tables_are_found_by_name_in_hives_metastore(tmp_path: Path) -> None:
    """`SELECT … FROM sales.totals` works for every program on that metastore; private tables stay private."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path, env=environment
    )
    results = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert results == ["RESULT COMPLETED COMPLETED 3 ['totals']"], done.stderr[-2000:]
