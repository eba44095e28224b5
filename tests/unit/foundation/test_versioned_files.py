"""Files that several processes change at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.foundation.files.storage import LocalStorage
from framework.foundation.files.versioned_files import NONE, read_newest, replace_version, version_path

KILLED = """
import sys
from framework.engine.files.storage import open_storage
from framework.foundation.files.versioned_files import read_newest, replace_version

storage = open_storage(sys.argv[1])
replace_version(storage, "f", "n.json", read_newest(storage, "f", "n.json")[0], "killed")
"""


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """A storage that does not exist yet."""
    return LocalStorage(str(tmp_path / "storage"))


def numbers(first: int, last: int) -> list[str]:
    """The names of versions."""
    return sorted("n.json" if not each else f"n~~{each}.json" for each in range(first, last + 1))


def test_no_change_of_several_writers_is_lost_or_made_twice(storage: LocalStorage) -> None:
    """Eight threads add to a number at once, also while another one replaces their version."""

    def add(writer: int) -> None:
        for turn in range(10):
            while True:
                version, text = read_newest(storage, "f", "n.json")
                total = int((text or "0").split()[0]) + 1
                if replace_version(storage, "f", "n.json", version, f"{total} {writer} {turn}"):
                    break

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    version, text = read_newest(storage, "f", "n.json")
    assert (version, str(text).split()[0]) == (79, "80")


def age(storage: LocalStorage, *versions: int) -> None:
    """Let versions be an hour old."""
    for version in versions:
        path = Path(version_path(storage.path("f"), "n.json", version))
        times = path.stat()
        os.utime(path, (times.st_atime - 3600, times.st_mtime - 3600))


def test_a_writer_that_is_killed_before_it_deletes_older_versions_has_written(storage: LocalStorage) -> None:
    """`kill -9` in between: its version counts, and the next writer deletes those that were replaced long ago."""
    for version in range(NONE, 3):
        assert replace_version(storage, "f", "n.json", version, "first")
    age(storage, 0, 1, 2)
    environment = {**os.environ, "SLUICE_FAILPOINT": "versions.before_cleaning"}
    done = subprocess.run([sys.executable, "-c", KILLED, storage.root], env=environment, check=False)
    assert (done.returncode, storage.list_names("f")) == (-9, numbers(0, 4))
    assert read_newest(storage, "f", "n.json") == (4, "killed")
    assert not replace_version(storage, "f", "n.json", 3, "late")
    assert replace_version(storage, "f", "n.json", 4, "next")
    assert (storage.list_names("f"), read_newest(storage, "f", "n.json")) == (numbers(2, 5), (5, "next"))


def test_a_writer_that_comes_long_after_it_read_changes_nothing(storage: LocalStorage) -> None:
    """The name of its version is free again, because that version was replaced, too."""
    for version in range(NONE, 7):
        assert replace_version(storage, "f", "n.json", version, str(version))
    age(storage, *range(6))
    assert replace_version(storage, "f", "n.json", 7, "7")
    for late in (NONE, 0, 2, 3, 4, 5, 7):
        assert not replace_version(storage, "f", "n.json", late, "late")
        assert (storage.list_names("f"), read_newest(storage, "f", "n.json")) == (numbers(5, 8), (8, "7"))
