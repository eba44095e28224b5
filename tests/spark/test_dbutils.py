"""`dbutils` and the other globals of a workspace, in the modules of a pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from framework import Pipeline
from framework.foundation.errors import GraphErrors
from tests.support.plain_tables import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = """
from databricks.sdk.runtime import dbutils as of_sdk, sql, udf
from pyspark import pipelines as dp
from pyspark.dbutils import DBUtils

token = dbutils.secrets.get(scope="shop", key="token")
if DBUtils(spark).secrets.getBytes("shop", "token") != token.encode() or of_sdk.secrets.list("shop")[0].key != "token":
    raise ValueError(token)
found = [dbutils.secrets.listScopes()[0].getName()]

for name, default in {"day": "monday", "size": "3", "color": "red"}.items():
    dbutils.widgets.text(name, default)
dbutils.widgets.dropdown("mode", "all", ["all", "some"], "Mode")
found += [f"{name}={value}" for name, value in dbutils.widgets.getAll().items()]
dbutils.widgets.removeAll()
found.append(dbutils.notebook.run("./other", 60, {"day": "friday", "n": 2}))
found.append(getArgument("day"))
found += [str(spark.sparkContext is sc), str(sqlContext is spark), str(sql("SELECT 1").count()), type(udf).__name__]
context = dbutils.notebook.entry_point.getDbutils().notebook().getContext()
found += [context.notebookPath().get().rpartition("/")[2], context.currentRunId().getOrElse("no run")]
dbutils.jobs.taskValues.set("rows", 5)
found += [str(dbutils.jobs.taskValues.get("load", "rows")), dbutils.jobs.taskValues.get("load", "x", debugValue="d")]
dbutils.library.restartPython()
dbutils.data.summarize(None)
displayHTML("<p>")


@dp.materialized_view
def values():
    display(spark.range(1))
    return spark.createDataFrame([(each,) for each in found], "value STRING")


for entry in dbutils.fs.ls("/Volumes/main/raw"):
    if entry.isDir():
        @dp.table(name=entry.name.rstrip("/"))
        def landed(path=entry.path):
            return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT").load(path)


@dp.materialized_view
def of_queries():
    return spark.sql(f'''SELECT Secret('shop', "token") = '{token}' AS a, try_secret('shop', 'none') AS b,
        '${{from_scope}}' = 'x{token}' AS c, "secret('shop', 'token')" AS d''')


@dp.materialized_view
def files():
    text = dbutils.fs.head("dbfs:/Volumes/main/raw/red/1.json", 5)
    rows = [(text, "", 0)] + [(each.path, each.name, each.size) for each in dbutils.fs.ls("dbfs:/Volumes/main/raw")]
    rows += [(each.mountPoint, each.source[-3:], 0) for each in dbutils.fs.mounts()]
    return spark.createDataFrame(rows, "path STRING, name STRING, size INT")


dbutils.notebook.exit("done")
raise ValueError("not reached")
"""
OTHER = """
# Databricks notebook source
dbutils.widgets.text("n", "1")
dbutils.notebook.exit(dbutils.widgets.get("day") + dbutils.widgets.get("n"))
"""
LOCAL = """
paths: {/Volumes/main/raw/: raw, /mnt/lake/: lake, "dbfs:/": dbfs}
secrets: {shop: {token: hunter-of-the-shop}}
parameters: {day: tuesday, size: 4}
"""


def project(folder: Path, module: str, local: str = LOCAL) -> Path:
    """A project with one module; returns its spec."""
    configuration = "{size: 5, color: blue, from_scope: 'x{{secrets/shop/token}}'}"
    spec = f"name: p\nconfiguration: {configuration}\nlibraries: [{{file: {{path: m.py}}}}]\n"
    for name, text in {
        "pipeline.yml": spec,
        "m.py": module,
        "other.py": OTHER.lstrip(),
        "sluice.local.yml": local,
    }.items():
        (folder / name).write_text(text, "utf-8")
    for color in ("red", "blue"):
        (folder / "raw" / color).mkdir(parents=True)
        (folder / "raw" / color / "1.json").write_text(json.dumps({"id": len(color)}), "utf-8")
    (folder / "raw" / "note.txt").write_text("note", "utf-8")
    return folder / "pipeline.yml"


def test_a_module_finds_the_utilities_of_its_workspace(spark: SparkSession, tmp_path: Path) -> None:
    """Secrets, parameters by their rank, listings, notebooks with parameters, and the names that need no import."""
    pipeline = Pipeline.from_spec(
        project(tmp_path, MODULE), spark=spark, storage=tmp_path / "storage", parameters={"mode": "some"}
    )
    assert pipeline.run().state == "COMPLETED"
    tables = str(tmp_path / "storage" / "tables" / "main" / "default")
    assert sorted(row.value for row in table_rows(spark, f"{tables}/values")) == sorted([
        "shop", "day=tuesday", "size=4", "color=blue", "mode=some", "friday2", "tuesday", "True", "True", "1",
        "function", "m", "no run", "5", "d",
    ])  # fmt: skip
    assert [row.id for name in ("red", "blue") for row in table_rows(spark, f"{tables}/{name}")] == [3, 4]
    (found,) = table_rows(spark, f"{tables}/of_queries")
    assert tuple(found) == (True, None, True, "secret('shop', 'token')")
    volume = "dbfs:/Volumes/main/raw"
    assert sorted(tuple(row) for row in table_rows(spark, f"{tables}/files")) == [
        ("/mnt/lake", "ake", 0),
        (f"{volume}/blue/", "blue/", 0),
        (f"{volume}/note.txt", "note.txt", 4),
        (f"{volume}/red/", "red/", 0),
        ('{"id"', "", 0),
    ]


WRITES = """
from pyspark import pipelines as dp

fs = dbutils.fs
fs.mkdirs("dbfs:/made/below")
fs.put("dbfs:/made/a.txt", "text", True)
fs.cp("/Volumes/main/raw", "dbfs:/made/copy", recurse=True)
fs.cp("dbfs:/made/a.txt", "dbfs:/made/below")
fs.mv("dbfs:/made/copy/note.txt", "dbfs:/made/moved.txt")
fs.rm("dbfs:/made/copy/red", True)


@dp.materialized_view
def nothing():
    return spark.range(1)
"""


def test_only_an_update_writes_files_while_it_loads_modules(spark: SparkSession, tmp_path: Path) -> None:
    """`validate` and `plan` refuse it, and write nothing."""
    pipeline = Pipeline.from_spec(project(tmp_path, WRITES), spark=spark, storage=tmp_path / "storage")
    for look in (pipeline.validate, pipeline.plan):
        with pytest.raises(GraphErrors) as caught:
            look()
        assert [error.condition for error in caught.value.errors] == ["DBUTILS_WRITE_REFUSED"]
    assert not (tmp_path / "dbfs").exists()
    assert pipeline.run().state == "COMPLETED"
    made = tmp_path / "dbfs" / "made"
    assert sorted(str(path.relative_to(made)) for path in made.rglob("[!.]*") if path.is_file()) == [
        "a.txt", "below/a.txt", "copy/blue/1.json", "moved.txt",
    ]  # fmt: skip
    assert (made / "a.txt").read_text("utf-8") == "text"


@pytest.mark.parametrize(
    ("line", "condition", "said"),
    [
        ("dbutils.secrets.get('shop', 'none')", "SECRET_MISSING", "SLUICE_SECRET_SHOP_NONE"),
        (
            "__import__('dlt').table(name='v')(lambda: spark.sql(\"SELECT secret('shop', 'none')\"))",
            "SECRET_MISSING",
            "SLUICE_SECRET_SHOP_NONE",
        ),
        (
            "__import__('dlt').table(name='v')(lambda: spark.range(1).selectExpr(\"secret('shop', 'token')\"))",
            "FLOW_QUERY_FAILED",
            "`dbutils.secrets.get`",
        ),
        ("dbutils.widgets.get('none')", "WIDGET_NOT_DEFINED", "`parameters: {none: VALUE}`"),
        ("dbutils.fs.ls('dbfs:/none')", "DBUTILS_FILE_FAILED", "File dbfs:/none does not exist"),
        ("dbutils.fs.ls('s3://bucket/in')", "FILE_SYSTEM_MISSING", "s3://bucket/"),
        ("dbutils.credentials.assumeRole('x')", "DBUTILS_NOT_AVAILABLE", "`dbutils.credentials`"),
        ("dbutils.fs.unheardOf()", "DBUTILS_NOT_AVAILABLE", "`dbutils.fs.unheardOf`"),
        ("dbutils.jobs.taskValues.get('t', 'k')", "DBUTILS_TASK_VALUE_MISSING", "`debugValue`"),
    ],
)
def test_what_is_not_here_is_one_error_with_its_line(
    spark: SparkSession, tmp_path: Path, line: str, condition: str, said: str
) -> None:
    """It names the entry to add, or says that it exists on Databricks only."""
    spec = project(tmp_path, f"import os\n{line}\n")
    with pytest.raises(GraphErrors) as caught:
        Pipeline.from_spec(spec, spark=spark).validate()
    (error,) = caught.value.errors
    assert (error.condition, error.location and error.location.line) == (condition, 2)
    assert said in error.render()
    assert "hunter-of-the-shop" not in error.render()
