"""Which tables a copied storage must not write to, because its original has them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from framework.foundation.names import QualifiedName
from framework.foundation.storage import LocalStorage
from framework.run.tables.table_record import TableRecord, take_over, write_record
from framework.run.tables.table_store import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = QualifiedName(catalog="main", schema="s", table="t")


def store_at(root: Path) -> TableStore:
    """The tables of the storage at a folder."""
    return TableStore(pipeline="p", spark=cast("SparkSession", None), storage=LocalStorage(str(root)))


def original(store: TableStore, path: Path | str) -> str:
    """The storage that has the table at a path, of which this one is a copy."""
    return store.original(store.record(NAME), str(path))


def write(store: TableStore, path: Path) -> None:
    """Write the record of the table."""
    record = TableRecord(dataset=NAME, path=str(path), definition="", schema='{"fields": []}', table_id="t-1")
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


def test_copies_of_a_moved_storage_are_known_and_a_backup_at_its_first_place_does_not_stop_it(tmp_path: Path) -> None:
    """The record follows the storage when its update goes on."""
    first, moved, twin, path = tmp_path / "first", tmp_path / "moved", tmp_path / "twin", tmp_path / "lake" / "t"
    write(store_at(first), path)
    shutil.copytree(first, tmp_path / "backup")
    first.rename(moved)
    store = store_at(moved)
    take_over(store.storage, store.layout, NAME, store.spark)
    shutil.copytree(moved, twin)
    (tmp_path / "backup").rename(first)
    assert [original(store_at(root), path) for root in (first, moved, twin)] == ["", "", str(moved)]


def test_the_record_of_a_copy_does_not_follow_it(tmp_path: Path) -> None:
    """It says whose the table is, also if the original can't be read for a while."""
    first, twin, path = tmp_path / "first", tmp_path / "twin", tmp_path / "lake" / "t"
    write(store_at(first), path)
    shutil.copytree(first, twin)
    store, file = store_at(twin), Path(store_at(first).layout.record(NAME))
    text = file.read_text()
    for content in (text, "{"):
        file.write_text(content)
        take_over(store.storage, store.layout, NAME, store.spark)
        assert original(store, path) == str(first)
    file.unlink()
    file.mkdir()  # can't be read: it counts as moved, for now
    take_over(store.storage, store.layout, NAME, store.spark)
    assert original(store, path) == ""
    file.rmdir()
    file.write_text(text)
    assert original(store, path) == str(first)


def test_another_storage_at_the_first_place_has_the_table_only_if_its_record_says_so(tmp_path: Path) -> None:
    """A new pipeline of the same code may begin there, with tables at other paths."""
    first, moved, path = tmp_path / "first", tmp_path / "moved", tmp_path / "lake" / "t"
    write(store_at(first), path)
    first.rename(moved)
    write(store_at(first), tmp_path / "lake2" / "t")
    assert original(store_at(moved), path) == ""
