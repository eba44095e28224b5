"""The state of a rewind in progress."""

from __future__ import annotations

import shutil
from pathlib import Path

from framework.checkpoints.rewinds import RewindStore, RewoundTable, StoredRewind
from framework.foundation.files.storage import LocalStorage
from framework.foundation.files.storage_port import present_path
from framework.foundation.names import QualifiedName

ORDERS = QualifiedName(catalog="main", schema="s", table="orders")


def test_a_rewind_goes_on_with_the_tables_of_the_storage_that_has_it(tmp_path: Path) -> None:
    """In a copy these are the copy's; a table at a path of the user's own stays where it is, whatever that path is."""
    original, copied = LocalStorage(str(tmp_path / "original")), LocalStorage(str(tmp_path / "copied"))
    inside = original.path("tables", "main", "s", "orders")
    elsewhere = str(tmp_path / "other" / "tables" / "main" / "s" / "mine")
    Path(inside).mkdir(parents=True)
    tables = tuple(
        RewoundTable(dataset=ORDERS, path=path, table_id="t", before=3, version=1) for path in (inside, elsewhere)
    )
    rewind = StoredRewind(rewind_id="r", to="now", begun_at="", user=None, why="", tables=tables, flows=())
    RewindStore(original).write(rewind)
    assert RewindStore(original).read() == rewind
    shutil.copytree(original.root, copied.root)
    found = RewindStore(copied).read()
    assert found is not None
    assert [each.path for each in found.tables] == [copied.path("tables", "main", "s", "orders"), elsewhere]


def test_a_storage_behind_a_link_is_the_same_storage(tmp_path: Path) -> None:
    """Paths outside of it are known there, and those within keep their spelling."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked, real = LocalStorage(str(tmp_path / "link")), str(tmp_path / "real")
    assert [present_path(linked, path, real) for path in ("/lake/t", f"{real}/t")] == ["/lake/t", f"{real}/t"]
    moved = LocalStorage(str(tmp_path / "moved"))
    assert [present_path(moved, path, real) for path in ("/lake/t", f"{real}/t", f"{real}2/t")] == [
        None, f"{moved.root}/t", None,
    ]  # fmt: skip
    remote = "s3a://bucket/storage"
    assert present_path(moved, f"{remote}/t", f"{remote}/") == f"{moved.root}/t"
