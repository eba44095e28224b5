"""A planning sees each file and folder of a storage once, as it was at the first look."""

from __future__ import annotations

import pathlib

import pytest

from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.read_once import ReadOnceStorage
from framework.testing.storage_conformance import StorageConformance


class TestReadOnceStorage(StorageConformance):
    """The conformance suite of the storage port: its own writes are seen at once."""

    @pytest.fixture
    def storage(self, tmp_path: pathlib.Path) -> ReadOnceStorage:
        """A view of a folder that does not exist yet."""
        return ReadOnceStorage(LocalStorage(str(tmp_path / "place")))


def test_a_later_write_of_another_is_not_seen(tmp_path: pathlib.Path) -> None:
    """What was read or absent at the first look stays so, in files, folders and tokens; the rest is read as it is."""
    other = LocalStorage(str(tmp_path))
    other.write_text(other.path("d", "a"), "1")
    once = ReadOnceStorage(other)

    def seen() -> tuple[object, ...]:
        folder, absent = once.path("d"), once.path("d", "b")
        return (
            once.read_text(once.path("d", "a")), once.read_text(absent), once.exists(absent), once.list_names(folder),
            once.list_files(folder), once.folder_token(folder),
        )  # fmt: skip

    before = seen()
    once.list_names(once.path("d")).append("changed by a caller")
    other.write_text(other.path("d", "a"), "22")
    other.write_text(other.path("d", "b"), "2")
    other.write_text(other.path("d", "c"), "3")
    assert seen() == before
    assert once.read_text(once.path("d", "c")) == "3"
