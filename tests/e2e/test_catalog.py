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
import shutil
import sys
from pathlib import Path
from framework import Pipeline, pipelines as dp
from framework.record.reader import read_events
from framework.session.spark_session import start_session, stop_session
from tests.support.another_user import exposed_to_another_user
from tests.support.interruption import interrupt
from tests.support.plain_tables import append_rows
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
dropping = {flow.flow.table: "DROP" in flow.error.remedy for flow in ended.flows if flow.error}
print("TAKEN", refused, ended.state.value, sorted(errors), results(), dropping)

def nothing():
    @dp.materialized_view
    def kept():
        return spark.range(1)

# The mark of a prune that was killed, whose catalog can't be loaded.
spark.conf.set("spark.sql.catalog.broken", "no.such.Catalog")
name = {"catalog": "broken", "schema": "other", "table": "old"}
marks = Path(root, "second", "prunes")
marks.mkdir()
second = root + "/second"
mark = {"format": 1, "dataset": name, "path": second + "/tables/old", "table_id": None, "storage": second}
(marks / "broken.other.old.json").write_text(json.dumps(mark))

gone = other(nothing)
found = [(each.condition, [way.text for way in each.ways]) for each in gone.doctor.examine().findings]
print("OPEN", found)
dropped = gone.prune(gone.left_tables())
print("PRUNED", [table.name.table for table in dropped], other(nothing).run().state.value, list(marks.iterdir()),
      sorted(row.tableName for row in spark.sql("SHOW TABLES IN other").collect()))
told = [event.message for event in read_events(gone.storage, level="WARN")]
print("LEFT", [(text[:20], "DROP TABLE `broken`.`other`.`old`" in text) for text in told if "CATALOG" in text])
print("RESULT", run(), run(), spark.sql("SELECT count(*) FROM sales.totals").first()[0],
      [row.tableName for row in spark.sql("SHOW TABLES IN sales").collect()])

def sales():
    @dp.table
    def events():
        return spark.readStream.format("delta").load(root + "/source")

    dp.create_streaming_table("keyed")
    dp.create_auto_cdc_flow(target="keyed", source="events", keys=["id"], sequence_by="id")

    @dp.materialized_view
    def sums():
        return spark.sql("SELECT sum(id) AS total FROM keyed")

def shop(place, *modules, name="shop"):
    return Pipeline(
        name=name, modules=modules or [sales], storage=root + place, catalog="spark_catalog", schema="shop", spark=spark
    )

def ended(pipeline, **request):
    result = pipeline.run(**request)
    return [result.state.value, *sorted({flow.error.condition for flow in result.flows if flow.error})]

def named():
    "The rows by name, and the folders of the names."
    rows = [sorted(row[0] for row in spark.sql(f"SELECT * FROM shop.{name}").collect())
            for name in ("events", "keyed", "sums")]
    folders = {str(Path(row.data_type.removeprefix("file:")).relative_to(root).parts[0])
               for name in ("events", "keyed", "sums")
               for row in spark.sql(f"DESCRIBE TABLE EXTENDED shop.{name}").collect() if row.col_name == "Location"}
    return rows, sorted(folders)

append_rows(spark, root + "/source", [(1,), (2,)], "id LONG")
print("SHOP", ended(shop("/shop")), *named())
spark.sql("DROP TABLE shop.events")
print("REFRESHED", ended(shop("/shop"), full_refresh_all=True), *named())
append_rows(spark, root + "/source", [(3,)], "id LONG")
spark.sql("DROP DATABASE shop CASCADE")
print("WITHOUT DATABASE", ended(shop("/shop")), *named())

def guest():
    @dp.materialized_view
    def seen():
        return spark.read.table("spark_catalog.shop.events")

    @dp.materialized_view
    def sums():
        return spark.range(1)

print("GUEST", ended(shop("/guest", guest, name="guest")), spark.table("shop.seen").count(), *named())
os.rename(root + "/shop", root + "/moved")
spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
print("PLANNED", [step.dataset.table for step in shop("/moved").plan().steps if hasattr(step, "owner")])
interrupt(shop("/moved").run, "catalog.after_drop")
append_rows(spark, root + "/source", [(4,)], "id LONG")
print("MOVED", ended(shop("/moved")), *named())
shutil.copytree(root + "/moved", root + "/copied")
print("COPIED", ended(shop("/copied")), *named())

def kept():
    @dp.materialized_view(name="silent.x.kept")
    def kept():
        return spark.range(2)

print("ANSWERED", ended(shop("/silent", kept)))
spark.conf.set("spark.sql.catalog.silent", "no.such.Catalog")
warned = [each.error() for each in shop("/silent", kept).plan().warnings]
print("SILENT", [(each.condition, "no.such.Catalog" in each.what) for each in warned], ended(shop("/silent", kept)),
      [event.message[:16] for event in read_events(shop("/silent").storage, level="WARN")])
print("SILENT DOCTOR", [(str(each.flow), each.condition, each.diagnosis.name, [way.text for way in each.ways])
                        for each in shop("/silent", kept).doctor.examine().findings])
pruning = shop("/silent", nothing)
pruned = pruning.prune(pruning.left_tables())
print("SILENT PRUNE", [(table.name.table, table.left_entry.condition) for table in pruned])

java = spark._jvm.java.lang
arguments = Path("/proc", str(java.ProcessHandle.current().pid()), "cmdline").read_text()
exposed = [name for name in exposed_to_another_user(Path(shared)) if not name.startswith("hsperfdata")]
print("PRIVATE", java.System.getProperty("store.password"), "hunter2" in arguments, exposed if os.getuid() == 0 else [],
      any(Path(shared).iterdir()))
stop_session(spark)
"""


def test_tables_are_found_by_name_in_hives_metastore(tmp_path: Path) -> None:
    """`SELECT … FROM sales.totals` works for every program on that metastore; private tables stay private.

    Names of somebody else's tables and views are refused by the plan, in any letter case, and their rows stay; no
    advice drops them. A prune removes the entry of its table. A prune that was killed is a finding, ends whatever the
    catalog says, and blocks no update; of an entry that may be left, the statement is told. A dropped name, or
    database, is made again, with the rows of a full refresh. The names follow a storage that was moved, also if the
    update is killed between, and not one that was copied. A catalog that does not answer is a warning.
    Another user of the machine neither sees passwords in Java's arguments nor opens temporary files.
    """
    with open_folder() as shared:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(shared)}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(shared)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path, env=environment
        )
    results = [line for line in done.stdout.splitlines() if line[:4].isupper()]
    three, moved = "[[1, 2, 3], [1, 2, 3], [6]] ['shop']", "[[1, 2, 3, 4], [1, 2, 3, 4], [10]] ['moved']"
    settings = "Check the settings of the catalog in `spark_conf`, and that its server can be reached."
    drops = dict.fromkeys(("named", "seen", "parquet"), False)
    way = "Finish the deletion: `sluice run` or `sluice prune`, whichever you run next. No row comes back."
    assert results == [
        f"TAKEN [('named', True), ('seen', True), ('parquet', True)] FAILED ['TABLE_NOT_OWNED'] [7, 1, 2, 4] {drops}",
        f"OPEN [('PRUNE_UNFINISHED', ['{way}'])]",
        "PRUNED ['free'] COMPLETED [] ['kept', 'named', 'parquet', 'seen']",
        "LEFT [('[CATALOG_ENTRY_LEFT]', True)]",
        "RESULT COMPLETED COMPLETED 3 ['totals']",
        "SHOP ['COMPLETED'] [[1, 2], [1, 2], [3]] ['shop']",
        "REFRESHED ['COMPLETED'] [[1, 2], [1, 2], [3]] ['shop']",
        f"WITHOUT DATABASE ['COMPLETED'] {three}",
        f"GUEST ['FAILED', 'TABLE_NOT_OWNED'] 3 {three}",
        "PLANNED []",
        f"MOVED ['COMPLETED'] {moved}",
        f"COPIED ['FAILED', 'TABLE_NOT_OWNED'] {moved}",
        "ANSWERED ['COMPLETED']",
        "SILENT [('CATALOG_SILENT', True)] ['COMPLETED'] ['[CATALOG_SILENT]']",
        f"SILENT DOCTOR [('None', 'CATALOG_SILENT', 'CATALOG_SILENT', ['{settings}'])]",
        "SILENT PRUNE [('kept', 'CATALOG_ENTRY_LEFT')]",
        "PRIVATE hunter2hunter2 False [] True",
    ], done.stderr[-2000:]
