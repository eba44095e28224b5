"""Which tables a copied storage must not write to: those that do not name their storage, such as in its folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from framework.foundation.files.storage import LocalStorage
from framework.foundation.names import QualifiedName
from framework.plan.state import TableKind
from framework.run.tables.table_record import TableRecord, write_record
from framework.run.tables.table_store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = QualifiedName(catalog="main", schema="s", table="t")


def store_at(root: Path) -> TableStore:
    """The tables of the storage at a folder."""
    return TableStore(pipeline="p", spark=cast("SparkSession", None), storage=LocalStorage(str(root)))


def original(store: TableStore, path: Path | str) -> str:
    """The storage that has the table at a path, of which this one is a copy."""
    return store.other_storage(NAME, str(path))


def write(store: TableStore, path: Path) -> None:
    """Write the record of the table."""
    record = TableRecord(
        dataset=NAME, path=str(path), definition="", schema='{"fields": []}', table_id="t-1", pipeline="p",
        kind=TableKind.STREAMING_TABLE,
    )  # fmt: skip
    write_record(store.storage, store.layout, record)


def test_a_path_in_the_original_is_the_originals_and_its_copy_is_the_copys(tmp_path: Path) -> None:
    """The code may give the same path to both, although it is below the root of one of them."""
    first, twin = tmp_path / "first", tmp_path / "twin"
    write(store_at(first), first / "gold" / "t")
    shutil.copytree(first, twin)
    assert original(store_at(first), first / "gold" / "t") == ""
    assert original(store_at(twin), first / "gold" / "t") == str(first)
    assert original(store_at(twin), twin / "gold" / "t") == ""
    record = store_at(twin).record(NAME)
    assert record is not None
    assert (record.path, record.is_outside) == (str(twin / "gold" / "t"), False)
    shutil.rmtree(first)
    assert original(store_at(twin), first / "gold" / "t") == ""


def test_a_table_of_the_original_is_known_by_each_spelling_of_its_path(tmp_path: Path) -> None:
    """A URI, and a link to its folder."""
    first, twin, lake = tmp_path / "first", tmp_path / "twin", tmp_path / "lake"
    lake.mkdir()
    (tmp_path / "link").symlink_to(lake)
    write(store_at(first), lake / "t")
    shutil.copytree(first, twin)
    paths = (lake / "t", f"file:{lake}/t", f"file://{lake}/t/", tmp_path / "link" / "t")
    assert [original(store_at(twin), path) for path in paths] == [str(first)] * 4
    assert original(store_at(twin), tmp_path / "lake2" / "t") == ""


def test_a_copied_link_leads_to_the_table_of_the_original(tmp_path: Path) -> None:
    """A copy that keeps links has the folder behind them in common with its original: a prune leaves it alone."""
    first, twin, lake = tmp_path / "first", tmp_path / "twin", tmp_path / "lake"
    (lake / "t").mkdir(parents=True)
    first.mkdir()
    (first / "gold").symlink_to(lake)
    write(store_at(first), first / "gold" / "t")
    shutil.copytree(first, twin, symlinks=True)
    assert original(store_at(twin), twin / "gold" / "t") == str(first)
    record = store_at(twin).record(NAME)
    assert record is not None
    assert record.is_outside


def test_another_storage_at_the_first_place_has_the_table_only_if_its_record_says_so(tmp_path: Path) -> None:
    """A new pipeline of the same code may begin there, with tables at other paths."""
    first, moved, path = tmp_path / "first", tmp_path / "moved", tmp_path / "lake" / "t"
    write(store_at(first), path)
    first.rename(moved)
    write(store_at(first), tmp_path / "lake2" / "t")
    assert original(store_at(moved), path) == ""
