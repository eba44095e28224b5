"""Addresses of tables: the spellings of one path."""

from __future__ import annotations

from pathlib import Path

from framework.foundation.files.storage import LocalStorage
from framework.foundation.files.storage_port import present_path
from framework.foundation.table_address import plain_path, real_path
from framework.sources.cloud_files.settings.options import local_path
from framework.sources.port import is_same_location


def test_a_path_has_one_plain_spelling_wherever_paths_are_compared(tmp_path: Path) -> None:
    """Storages that moved, sources and folders of files agree on `..`, slashes and schemes; links stay links."""
    for other in ("/data/in/", "file:/data/in", "file:///data/x/../in", "//data/./in//"):
        assert (plain_path(other), local_path(other), is_same_location(other, "/data/in")) == (
            "/data/in", "/data/in", True,
        )  # fmt: skip
        moved = LocalStorage(str(tmp_path))
        assert present_path(moved, "/data/in/tables/t", other) == f"{tmp_path}/tables/t"
    for other in ("s3a://bucket/in/", "s3a://bucket/x/../in"):
        assert (plain_path(other), local_path(other)) == ("s3a://bucket/in", None)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    link = f"{tmp_path}/link"
    assert (plain_path(f"file:{link}/t"), real_path(f"file:{link}/t")) == (f"{link}/t", f"{tmp_path}/real/t")
