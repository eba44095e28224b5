"""Which storage a table outside of all storages belongs to."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from framework.foundation.errors import OperationError
from framework.foundation.files.storage import LocalStorage
from framework.foundation.table_address import TableAddress
from framework.run.tables.storage_identity import IDENTITY_FILE, StorageIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = cast("SparkSession", None)


def settled(root: Path) -> StorageIdentity:
    """The identity of the storage at a folder, as its next update writes it."""
    return StorageIdentity.settled(LocalStorage(str(root)))


def other(root: Path, mark: str, path: str = "/lake/t") -> str:
    """The other storage to which a table with a mark belongs, seen from the storage at a folder."""
    return StorageIdentity.of(LocalStorage(str(root))).other_storage(path, mark, SPARK)


def test_an_identity_is_written_once_and_read_without_a_write(tmp_path: Path) -> None:
    """A plan writes nothing."""
    root = tmp_path / "storage"
    assert StorageIdentity.of(LocalStorage(str(root))) == StorageIdentity(id="", root=str(root))
    assert not root.exists()
    first = settled(root)
    assert len(first.id) == 32
    assert settled(root) == first == StorageIdentity.of(LocalStorage(f"file://{root}/"))
    assert other(root, first.mark) == ""


def test_a_moved_storage_takes_its_tables_over_and_a_copy_does_not(tmp_path: Path) -> None:
    """A copy is one whose original is still there; when it is gone, the copy counts as moved."""
    first, twin, moved = tmp_path / "first", tmp_path / "twin", tmp_path / "moved"
    mark = settled(first).mark
    shutil.copytree(first, twin)
    assert [other(root, mark) for root in (first, twin)] == ["", str(first)]
    of_twin = settled(twin).mark
    assert [other(root, mark) for root in (first, twin)] == ["", str(first)]
    assert other(first, of_twin) == str(twin)
    first.rename(moved)
    assert [other(root, mark) for root in (moved, twin)] == ["", ""]


def test_a_table_below_the_root_was_copied_with_the_storage(tmp_path: Path) -> None:
    """A dataset may have a path there; each of the two storages has its own table."""
    first, twin = tmp_path / "first", tmp_path / "twin"
    mark = settled(first).mark
    shutil.copytree(first, twin)
    assert other(twin, mark, str(twin / "gold" / "t")) == ""
    assert other(twin, mark, str(first / "gold" / "t")) == str(first)
    assert other(first, settled(twin).mark, str(first / "gold" / "t")) == str(twin)


def test_of_two_storages_with_the_same_past_the_first_that_is_updated_has_the_tables(tmp_path: Path) -> None:
    """The storage was moved, and copied before its next update: both have its former identity, and both may take it."""
    first, moved, twin = tmp_path / "first", tmp_path / "moved", tmp_path / "twin"
    mark = settled(first).mark
    first.rename(moved)
    shutil.copytree(moved, twin)
    assert [other(root, mark) for root in (moved, twin)] == ["", ""]
    taken = settled(moved).mark
    assert [other(root, taken) for root in (moved, twin)] == ["", str(moved)]
    assert settled(twin).id != settled(moved).id


def test_another_storage_of_the_same_pipeline_does_not_have_the_tables(tmp_path: Path) -> None:
    """Also after the first one was deleted, and at its very place: it may be the same path of another machine."""
    first, second = tmp_path / "first", tmp_path / "second"
    mark = settled(first).mark
    settled(second)
    assert other(second, mark) == str(first)
    shutil.rmtree(first)
    earlier = f"an earlier one at {first}, or one of another machine"
    assert [other(root, mark) for root in (first, second)] == [earlier, str(first)]
    assert settled(first).mark != mark
    assert other(first, mark) == earlier


def test_an_older_copy_at_the_first_place_does_not_have_what_the_moved_storage_took_over(tmp_path: Path) -> None:
    """A backup is put back where the storage was before."""
    first, backup, moved = tmp_path / "first", tmp_path / "backup", tmp_path / "moved"
    settled(first)
    shutil.copytree(first, backup)
    first.rename(moved)
    taken = settled(moved).mark
    backup.rename(first)
    assert settled(first).id != settled(moved).id
    assert [other(root, taken) for root in (first, moved)] == [str(moved), ""]


def test_a_backup_that_is_put_back_at_its_place_has_its_tables(tmp_path: Path) -> None:
    """It is the same storage."""
    first, backup = tmp_path / "first", tmp_path / "backup"
    mark = settled(first).mark
    shutil.copytree(first, backup)
    shutil.rmtree(first)
    shutil.copytree(backup, first)
    assert settled(first).mark == mark


def test_a_user_gives_a_table_to_a_storage_by_its_root(tmp_path: Path) -> None:
    """In any spelling; the id is written by the next update."""
    root = tmp_path / "storage"
    (tmp_path / "link").symlink_to(root)
    for given in (str(root), f"file://{root}/", str(tmp_path / "link"), f"{root}#"):
        assert other(root, given) == ""
    assert other(root, str(tmp_path / "storage2")) == str(tmp_path / "storage2")
    odd = tmp_path / "team#1" / "it's"
    assert other(odd, str(odd)) == other(odd, settled(odd).mark) == ""
    assert TableAddress(path="/lake/t").given_to("/it's") == (
        "ALTER TABLE delta.`/lake/t` SET TBLPROPERTIES ('sluice.storage' = '/it\\'s')"
    )


def test_a_link_that_leads_to_a_copy_now_does_not_make_it_the_original(tmp_path: Path) -> None:
    """An identity has the folder behind the links."""
    real, two, link = tmp_path / "real", tmp_path / "two", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    mark = settled(link).mark
    assert settled(real).mark == mark
    shutil.copytree(real, two)
    link.unlink()
    link.symlink_to(two)
    assert [other(root, mark) for root in (link, two, real)] == [str(real), str(real), ""]
    assert settled(link) == settled(two)


def test_a_former_storage_that_can_not_be_read_still_has_its_tables(tmp_path: Path) -> None:
    """Nobody knows whether it was moved."""
    first, twin = tmp_path / "first", tmp_path / "twin"
    mark = settled(first).mark
    shutil.copytree(first, twin)
    (first / IDENTITY_FILE).write_text("{")
    assert other(twin, mark) == str(first)


def test_only_the_last_hundred_places_are_kept(tmp_path: Path) -> None:
    """A storage in a new folder for each update, as a cache of builds is, has no list without an end."""
    places = [tmp_path / str(number) for number in range(103)]
    marks = [settled(places[0]).mark]
    for before, place in itertools.pairwise(places):
        before.rename(place)
        marks.append(settled(place).mark)
    assert len(settled(places[-1]).former) == 100
    assert [other(places[-1], mark) for mark in (marks[1], marks[2])] == [str(places[1]), ""]


def test_a_damaged_identity_is_an_error(tmp_path: Path) -> None:
    """To begin with a new one would leave the tables to nobody."""
    settled(tmp_path)
    file = tmp_path / IDENTITY_FILE
    file.write_text(json.dumps({"id": "x"}))
    with pytest.raises(OperationError, match="STORED_FILE_DAMAGED"):
        settled(tmp_path)
