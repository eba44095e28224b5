"""With a metastore, a pipeline's tables are known there by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.another_user import open_folder

# A separate process, because a session's metastore is configured at the start of its JVM.
SCRIPT = """
import json
import os
import sys
from pathlib import Path
from framework import Pipeline, pipelines as dp
from framework.session.spark_session import start_session, stop_session
from tests.support.another_user import exposed_to_another_user
from tests.support.settings import INTERPRETED

root, shared = sys.argv[1:]
os.umask(0)
spark = start_session(app_name="hive", master="local[2]", short=True, spark_conf={
    **INTERPRETED,
    "spark.driver.extraJavaOptions": "-Dstore.password=hunter2hunter2",
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

spark.sql("CREATE DATABASE other")
spark.range(7).write.format("delta").saveAsTable("other.named")
spark.sql("CREATE VIEW other.seen AS SELECT 8 AS id")
spark.range(2).write.format("parquet").saveAsTable("other.parquet")

def taken():
    for name in ("Named", "seen", "parquet"):
        @dp.materialized_view(name=name)
        def view():
            return spark.range(3)
    @dp.materialized_view
    def free():
        return spark.range(4)

def other(*modules):
    return Pipeline(
        name="q", modules=modules, storage=root + "/second", catalog="spark_catalog", schema="other", spark=spark
    )

def results():
    return [list(row)[0] for name in ("named", "seen", "parquet", "free")
            for row in spark.sql(f"SELECT count(*) FROM other.{name}").collect()]

refused = [(step.dataset.table, step.owner is not None) for step in other(taken).plan().steps if hasattr(step, "owner")]
ended = other(taken).run()
errors = {flow.error.condition for flow in ended.flows if flow.error}
print("TAKEN", refused, ended.state.value, sorted(errors), results())

def nothing():
    @dp.materialized_view
    def kept():
        return spark.range(1)

# The mark of a prune that was killed, whose catalog can't be loaded.
spark.conf.set("spark.sql.catalog.broken", "no.such.Catalog")
name = {"catalog": "broken", "schema": "other", "table": "old"}
marks = Path(root, "second", "prunes")
marks.mkdir()
(marks / "broken.other.old.json").write_text(json.dumps({"dataset": name, "path": root + "/second/tables/old"}))

gone = other(nothing)
dropped = gone.prune(gone.left_tables())
print("PRUNED", [table.name.table for table in dropped], other(nothing).run().state.value, list(marks.iterdir()),
      sorted(row.tableName for row in spark.sql("SHOW TABLES IN other").collect()))
print("RESULT", run(), run(), spark.sql("SELECT count(*) FROM sales.totals").first()[0],
      [row.tableName for row in spark.sql("SHOW TABLES IN sales").collect()])
java = spark._jvm.java.lang
arguments = Path("/proc", str(java.ProcessHandle.current().pid()), "cmdline").read_text()
exposed = [name for name in exposed_to_another_user(Path(shared)) if not name.startswith("hsperfdata")]
print("PRIVATE", java.System.getProperty("store.password"), "hunter2" in arguments, exposed if os.getuid() == 0 else [],
      any(Path(shared).iterdir()))
stop_session(spark)
"""


def test_tables_are_found_by_name_in_hives_metastore(tmp_path: Path) -> None:
    """`SELECT … FROM sales.totals` works for every program on that metastore; private tables stay private.

    Names of somebody else's tables and views are refused by the plan, in any letter case, and their rows stay. A prune
    removes the entry of its table. A prune that was killed ends, whatever the catalog says, and blocks no update.
    Another user of the machine neither sees passwords in Java's arguments nor opens temporary files.
    """
    with open_folder() as shared:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(shared)}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(shared)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path, env=environment
        )
    results = [line for line in done.stdout.splitlines() if line.startswith(("RESULT", "TAKEN", "PRUNED", "PRIVATE"))]
    assert results == [
        "TAKEN [('named', True), ('seen', True), ('parquet', True)] FAILED ['TABLE_NOT_OWNED'] [7, 1, 2, 4]",
        "PRUNED ['free'] COMPLETED [] ['kept', 'named', 'parquet', 'seen']",
        "RESULT COMPLETED COMPLETED 3 ['totals']",
        "PRIVATE hunter2hunter2 False [] True",
    ], done.stderr[-2000:]
