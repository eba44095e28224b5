"""`sluice adopt --samples`: files with the columns that the code names, where the local file has what it reads."""

from __future__ import annotations

from pathlib import Path

from framework.adoption.read_columns import reads_of
from framework.adoption.samples import write_samples

MODULE = """
import dlt
from pyspark.sql import functions as F
from lib.names import FOLDER, read

KEY = "customer_id"

@dlt.table
@dlt.expect("has a day", "order_date IS NOT NULL AND total > 0")
def orders():
    files = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
    rows = files.load("/Volumes/main/shop/raw/orders")
    rows = rows.withColumn("total", F.col("total").cast("int")).withColumn("year", F.year("order_date"))
    return rows.where("state <> 'x'").select(KEY, "total", "year", rows["note"], F.sum("n").alias("sum"))

@dlt.table
def joined():
    left = spark.read.table("crm.public.people")
    return left.join(spark.read.csv("/Volumes/main/shop/raw/towns.csv", header=True), ["town"])

@dlt.table
def binary():
    return spark.read.parquet("/Volumes/main/shop/raw/p").select("a")
"""
SQL = """CREATE MATERIALIZED VIEW v AS
SELECT t.id, upper(c.name) AS name
FROM ref.x.codes AS c JOIN STREAM read_files('/Volumes/main/shop/raw/t', format => 'csv') t
ON c.id = t.id WHERE t.at > INTERVAL 1 DAY + c.since AND '${p}' <> '';
"""
LOCAL = """paths: {/Volumes/main/shop/raw/: data/}
tables:
  crm.public.people: {format: csv, path: tables/people/, header: true}
  ref.x.codes: {format: csv, path: tables/codes.csv, header: true}
"""


def test_each_read_has_a_row_with_its_columns(tmp_path: Path) -> None:
    """Computed columns are left out; a format that is no text is not written, and no file is replaced."""
    spec = "name: p\nlibraries: [{file: {path: m.py}}, {file: {path: v.sql}}]\n"
    for name, text in {"pipeline.yml": spec, "sluice.local.yml": LOCAL, "m.py": MODULE, "v.sql": SQL}.items():
        (tmp_path / name).write_text(text, "utf-8")
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_text("utf-8")
        for path in write_samples(tmp_path / "pipeline.yml")
    }
    assert found == {
        "data/orders/sample.json": '{"order_date": "2026-01-01", "total": 1, "customer_id": 1, "note": "a", '
        '"state": "a", "n": "a"}\n',
        "tables/people/sample.csv": "town\na\n",
        "data/towns.csv": "town\na\n",
        "tables/codes.csv": "name,id,since\na,1,a\n",
        "data/t/sample.csv": "id,at\n1,2026-01-01T00:00:00\n",
    }
    (tmp_path / "data/towns.csv").write_text("mine\n", "utf-8")
    (tmp_path / "data/orders/sample.json").rename(tmp_path / "data/orders/own.json")
    assert write_samples(tmp_path / "pipeline.yml") == ()


def test_columns_of_a_parameter_and_of_a_query_in_python_are_known() -> None:
    """A path of a parameter without a value is not known."""
    code = "f = lambda: spark.sql('SELECT a.b FROM x.y a')\ndef g(): return spark.read.json(spark.conf.get('p'))\n"
    assert [(each.name, each.columns) for each in reads_of(code, {})] == [("x.y", ("b",))]
    assert [(each.name, each.kind) for each in reads_of(code, {"p": "/mnt/a"})] == [("/mnt/a", "json"), ("x.y", None)]
