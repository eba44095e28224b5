"""Paths of a workspace on this machine: every way to name one, under the author's name, and those that are nowhere."""

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

ACCOUNT = "abfss://landing@acct.dfs.core.windows.net"
MODULE = """
import glob
import json
import os
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import functions as F

with open("/dbfs/conf/sizes.json") as file:
    SIZES = json.load(file)
NAMES = [*os.listdir("/Volumes/main/raw/in"), *glob.glob("/Volumes/main/raw/i*/*"), Path("here.txt").read_text()]


def landed(path):
    reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT")
    return reader.load(path).select("id", F.col("_metadata.file_path").alias("file"))


for name, path in {
    "of_volume": "/Volumes/main/raw/in", "of_dbfs": "dbfs:/Volumes/main/raw/in", "of_azure": "ABFSS/in",
    "of_google": "gs://bucket/in", "of_amazon": "s3://bucket/in",
}.items():
    @dp.table(name=name)
    def rows(path=path):
        return landed(path)


@dp.materialized_view
def of_batches():
    path = "/Volumes/main/raw/in"
    read = [
        spark.read.json(path, schema="id INT"),
        spark.read.schema("id INT").json([path]),
        spark.read.format("json").schema("id INT").load(path),
        spark.read.format("json").schema("id INT").option("path", path).load(),
        spark.sql("SELECT int(id) id FROM json.`/Volumes/main/raw/in`"),
        spark.sql("SELECT int(id) id FROM json.`gs://bucket/in`"),
        spark.sql("SELECT id FROM read_files('/Volumes/main/raw/in', format => 'json')"),
        spark.read.json("/mnt/more/*.json", schema="id INT"),
    ]
    first, *others = [frame.select("id", F.input_file_name().alias("file")) for frame in read]
    for number, other in enumerate(others, 1):
        first = first.union(other)
    return first


@dp.table(name="placed", path="/Volumes/main/out/placed")
def placed():
    return landed("/Volumes/main/raw/in").select("id")


@dp.materialized_view(path="dbfs:/Volumes/main/out/view")
def view():
    return spark.read.table("placed")


@dp.materialized_view
def of_placed():
    return spark.read.table("view").union(spark.read.table("placed"))


@dp.materialized_view
def of_python():
    return spark.createDataFrame([(name,) for name in [*NAMES, str(SIZES)]], "name STRING")


dp.create_sink("outlet", "delta", {"path": "/Volumes/main/out/t"})


@dp.append_flow(target="outlet")
def out():
    return spark.readStream.table("of_volume")
"""
LOCAL = """
paths:
  /Volumes/main/raw/: volume
  /Volumes/main/out: out
  dbfs:/: dbfs
  ABFSS/: a
  gs://bucket/: g
  s3://bucket/in: s/in
"""


def workspace(folder: Path, module: str, local: str | None) -> Path:
    """A project with one module; returns its spec."""
    (folder / "pipeline.yml").write_text("name: p\nlibraries: [{file: {path: m.py}}]\n", "utf-8")
    (folder / "m.py").write_text(module.replace("ABFSS", ACCOUNT), "utf-8")
    if local is not None:
        (folder / "sluice.local.yml").write_text(local.replace("ABFSS", ACCOUNT), "utf-8")
    return folder / "pipeline.yml"


def land(folder: Path, key: int) -> None:
    """A file with one row."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{key}.json").write_text(json.dumps({"id": key}) + "\n", "utf-8")


def test_each_name_of_a_mapped_path_finds_its_files_and_keeps_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """Streams, batches, SQL, sinks and Python's files; two buckets of one name; a moved folder is the same source."""
    spec = workspace(tmp_path, MODULE, LOCAL)
    for key, name in enumerate(("volume/in", "a/in", "g/in", "s/in", "dbfs/mnt/more")):
        land(tmp_path / name, key)
    (tmp_path / "dbfs" / "conf").mkdir()
    (tmp_path / "dbfs" / "conf" / "sizes.json").write_text("[3]", "utf-8")
    (tmp_path / "here.txt").write_text("here", "utf-8")
    storage, volume = tmp_path / "storage", "dbfs:/Volumes/main/raw/in/0.json"

    def run() -> dict[str, list[tuple[object, ...]]]:
        pipeline = Pipeline.from_spec(spec, spark=spark, storage=storage)
        result = pipeline.run()
        assert [flow.error for flow in result.flows if flow.error] == []
        assert result.state == "COMPLETED"
        tables = {path.name: path for path in (storage / "tables" / "main" / "default").iterdir()}
        return {name: sorted(tuple(row) for row in table_rows(spark, str(path))) for name, path in tables.items()}

    expected: dict[str, list[tuple[object, ...]]] = {
        "of_volume": [(0, volume)],
        "of_dbfs": [(0, volume)],
        "of_azure": [(1, f"{ACCOUNT}/in/1.json")],
        "of_google": [(2, "gs://bucket/in/2.json")],
        "of_amazon": [(3, "s3://bucket/in/3.json")],
        "of_batches": [*[(0, volume)] * 6, (2, "gs://bucket/in/2.json"), (4, "dbfs:/mnt/more/4.json")],
        "of_placed": [(0,), (0,)],
        "of_python": [("/Volumes/main/raw/in/0.json",), ("0.json",), ("[3]",), ("here",)],
    }
    assert run() == expected
    for name in ("t", "placed", "view"):
        assert [row["id"] for row in table_rows(spark, str(tmp_path / "out" / name))] == [0]
    assert not Path("/Volumes/main/out").exists()

    (tmp_path / "volume").rename(tmp_path / "moved")
    (tmp_path / "sluice.local.yml").write_text(LOCAL.replace("volume\n", "moved\n").replace("ABFSS", ACCOUNT), "utf-8")
    land(tmp_path / "moved" / "in", 9)
    found = run()
    assert found["of_placed"] == [(0,), (0,), (9,), (9,)]
    assert found["of_volume"] == [(0, volume), (9, "dbfs:/Volumes/main/raw/in/9.json")]
    assert sorted(row["id"] for row in table_rows(spark, str(tmp_path / "out" / "t"))) == [0, 9]


UNMAPPED = """
from pyspark import pipelines as dp


def landed(path):
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id INT").load(path)


@dp.table
def one():
    return landed("dbfs:/FileStore/in/")


@dp.table
def two():
    return landed("s3://bucket/in")


@dp.table
def again():
    return landed("s3://bucket/in")


@dp.materialized_view
def three():
    return spark.read.csv("/Volumes/main/shop/raw/in")


@dp.materialized_view
def four():
    return spark.sql("SELECT * FROM json.`/mnt/landing/in`")
"""


def test_a_path_that_no_entry_covers_is_one_error_with_its_line_and_the_entry(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also with a schema, and with a map that covers another bucket of the scheme."""
    spec = workspace(tmp_path, UNMAPPED, "paths: {s3://other/: other}\n")
    with pytest.raises(GraphErrors) as caught:
        Pipeline.from_spec(spec, spark=spark).validate()
    errors = [(error, error.location) for error in caught.value.errors]
    found = [(error.condition, error.fields["path"], where.line) for error, where in errors if where]
    assert sorted(found, key=lambda each: each[2]) == [
        ("FILE_SYSTEM_MISSING", "dbfs:/FileStore/in/", 6),
        ("FILE_SYSTEM_MISSING", "s3://bucket/in", 6),
        ("FILE_SYSTEM_MISSING", "/Volumes/main/shop/raw/in", 26),
        ("FILE_SYSTEM_MISSING", "/mnt/landing/in", 31),
    ]
    entries = [str(error.fields["advice"]).partition(": FOLDER")[0] for error in caught.value.errors]
    assert set(entries) == {
        'Add `paths: {"dbfs:/"', 'Add `paths: {"s3://bucket/"', 'Add `paths: {"/Volumes/main/shop/raw/"',
        'Add `paths: {"/mnt/landing/"',
    }  # fmt: skip
