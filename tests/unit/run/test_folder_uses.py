"""The folder of an undeclared table at a user's path is deleted only if Delta wrote everything in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from framework.declare.specs import DatasetKind, DatasetSpec
from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.graph.graph import DataflowGraph, GraphDataset
from framework.plan.state import TableKind
from framework.run.tables.folder_uses import FolderUses, foreign_entry
from framework.run.tables.table_record import TableRecord, write_record
from framework.run.tables.table_store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "_delta_log/00000000000000000000.json"
PART = "part-00000-0a1b-c000.snappy.parquet"
COLUMNS = ("id", "Day", "hour", "a:b")
MAPPED = {"delta.columnMapping.mode": "name"}


def record_of(name: str, path: Path, *, pipeline: str = "p") -> TableRecord:
    """The record of a table with the columns of all cases."""
    return TableRecord(
        dataset=QualifiedName(catalog="main", schema="s", table=name), path=str(path), definition="", table_id="t-1",
        schema=json.dumps({"fields": [{"name": column} for column in COLUMNS]}), pipeline=pipeline,
        kind=TableKind.STREAMING_TABLE,
    )  # fmt: skip


def write_log(table: Path, properties: dict[str, str]) -> None:
    """The first commit of a table."""
    commit = table / LOG
    commit.parent.mkdir(parents=True)
    commit.write_text(json.dumps({"metaData": {"id": "t-1", "configuration": properties}}, separators=(",", ":")))


@pytest.mark.parametrize(
    ("properties", "files", "foreign"),
    [
        ({}, [PART, f".{PART}.crc", "deletion_vector_0a1b.bin", f"_change_data/cdc-{PART}"], None),
        ({}, [f"Day=1/hour=2/{PART}", "day=__HIVE_DEFAULT_PARTITION__/" + PART], None),
        ({}, [f"Day=1/{PART}", f"hour=2/{PART}", f"a%3Ab=3/{PART}"], None),  # the partitioning was changed twice
        ({}, [f"year=2/{PART}"], "year=2"),
        ({}, [f"id/{PART}"], "id"),
        (MAPPED, [f"a1/{PART}", "Zz/deletion_vector_0a1b.bin"], None),
        ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "3"}, [f"a1b/{PART}"], None),
        ({}, [PART, "notes.txt"], "notes.txt"),
        ({}, [PART, "mine.parquet"], "mine.parquet"),
        ({}, [PART, f"inner/{PART}"], "inner"),
        ({}, [f"us/{PART}"], "us"),
        ({"delta.columnMapping.mode": "none"}, [f"us/{PART}"], "us"),
        (MAPPED, ["de/customers.csv"], "de"),
        (MAPPED, [f"de/{LOG}", f"de/{PART}"], "de"),
        (MAPPED, ["ab"], "ab"),
        ({}, [], None),
    ],
)
def test_a_file_that_delta_did_not_write_is_found(
    tmp_path: Path, properties: dict[str, str], files: list[str], foreign: str | None
) -> None:
    """Data files, deletion vectors, the change feed, partitions and prefix folders are Delta's; all else is foreign."""
    table = tmp_path / "table"
    write_log(table, properties)
    for file in files:
        (table / file).parent.mkdir(parents=True, exist_ok=True)
        (table / file).touch()
    assert foreign_entry(LocalStorage(str(tmp_path)), record_of("t", table)) == foreign


def test_records_of_one_undeclared_table_do_not_keep_each_other(tmp_path: Path) -> None:
    """A dataset was renamed and then removed; a record of another pipeline and an inner table still keep a table."""
    storage = LocalStorage(str(tmp_path / "storage"))
    store = TableStore(pipeline="p", spark=cast("SparkSession", cast("Any", None)), storage=storage)
    records = {
        name: record_of(name, tmp_path / folder, pipeline=pipeline)
        for name, folder, pipeline in (
            ("old", "same", "p"), ("new", "same", "p"), ("ours", "shared", "p"), ("theirs", "shared", "q"),
            ("outer", "nest", "p"), ("inner", "nest/inner", "p"), ("before", "kept", "p"),
        )
    }  # fmt: skip
    for folder in ("same", "shared", "nest", "nest/inner", "kept"):
        write_log(tmp_path / folder, {})
    for record in records.values():
        write_record(storage, store.layout, record)
    spec = DatasetSpec(
        name=QualifiedName(catalog="main", schema="s", table="after"), kind=DatasetKind.MATERIALIZED_VIEW,
        path=str(tmp_path / "kept"),
    )  # fmt: skip
    graph = DataflowGraph(pipeline="p", datasets=(GraphDataset(spec=spec, kind=spec.kind),), flows=())
    uses = FolderUses(graph=graph, store=store)
    overlaps = "its folder overlaps with that of main.s."
    assert {name: uses.why_kept(record) for name, record in records.items() if name != "theirs"} == {
        "old": None, "new": None, "ours": f"{overlaps}theirs", "outer": f"{overlaps}inner",
        "inner": f"{overlaps}outer", "before": f"{overlaps}after",
    }  # fmt: skip


def test_what_a_user_keeps_beside_a_table_below_the_root_is_not_deleted(tmp_path: Path) -> None:
    """A file or another storage in the folder of a table with a path of its own keeps it, also inside the storage."""
    storage = LocalStorage(str(tmp_path / "storage"))
    store = TableStore(pipeline="p", spark=cast("SparkSession", cast("Any", None)), storage=storage)
    uses = FolderUses(graph=DataflowGraph(pipeline="p", datasets=(), flows=()), store=store)
    found = {}
    for table, foreign in (("alone", None), ("notes", "notes.txt"), ("nested", "project/storage/tables/x")):
        record = record_of(table, tmp_path / "storage" / "mine" / table)
        write_log(Path(record.path), {})
        if foreign is not None:
            (Path(record.path) / foreign).parent.mkdir(parents=True, exist_ok=True)
            (Path(record.path) / foreign).touch()
        found[table] = uses.why_kept(record)
    own = record_of("own", Path(store.layout.table(record_of("own", tmp_path).dataset)))
    write_log(Path(own.path), {})
    (Path(own.path) / "left.txt").touch()
    assert {**found, "own": uses.why_kept(own)} == {
        "alone": None, "notes": "its folder also contains notes.txt, which does not belong to the table",
        "nested": "its folder also contains project, which does not belong to the table", "own": None,
    }  # fmt: skip
