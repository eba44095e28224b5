"""Local storage fulfils the storage port's contract, also with concurrent writers and after kills."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from framework.engine.files.storage import open_storage
from framework.foundation.errors import OperationError, UserError
from framework.foundation.files.local_storage import LocalStorage
from framework.foundation.files.storage import is_local
from framework.testing.storage_conformance import StorageConformance


class TestLocalStorage(StorageConformance):
    """The conformance suite of the storage port, on a local folder."""

    @pytest.fixture
    def storage(self, tmp_path: pathlib.Path) -> LocalStorage:
        """A folder that does not exist yet."""
        return LocalStorage(str(tmp_path / "place"))


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_file_uri_is_the_path_in_it(tmp_path: pathlib.Path, prefix: str) -> None:
    """A path and its `file:` URIs are the same location."""
    LocalStorage(f"{prefix}{tmp_path}/s").write_text(f"{prefix}{tmp_path}/elsewhere", "1")
    assert open_storage(f"{prefix}{tmp_path}/s").root == f"{tmp_path}/s"
    assert (tmp_path / "elsewhere").read_text() == "1"


def test_a_relative_root_stays_where_it_was_opened(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the working folder later does not move the storage."""
    monkeypatch.chdir(tmp_path)
    storage = open_storage(".sluice/x")
    monkeypatch.chdir("/")
    assert storage.root == str(tmp_path / ".sluice" / "x")


@pytest.mark.parametrize(
    ("uri", "local"),
    [("/a", True), ("a/b:c", True), ("FILE:/a", True), ("hdfs://n/a", False), ("s3a://b/a", False), ("dbfs:/a", False)],
)
def test_a_scheme_other_than_file_is_not_local(uri: str, local: bool) -> None:  # noqa: FBT001 - a table of cases
    """Paths and `file:` URIs are local, all other schemes are Hadoop's."""
    assert is_local(uri) is local


def test_a_hadoop_uri_without_a_session_is_refused() -> None:
    """Opening `hdfs:` without Spark names the URI and the remedy."""
    with pytest.raises(UserError) as caught:
        open_storage("hdfs://n/a")
    assert (caught.value.condition, caught.value.fields) == ("STORAGE_NEEDS_SPARK", {"path": "hdfs://n/a"})


def test_one_of_many_creators_wins(tmp_path: pathlib.Path) -> None:
    """Of sixteen threads that create one file at once, one succeeds, and its text is complete."""
    storage = LocalStorage(str(tmp_path))
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda n: (storage.create_text("lease", f"holder {n}"), n), range(16)))
    assert [storage.read_text("lease")] == [f"holder {n}" for created, n in won if created]


def test_a_storage_below_a_file_can_not_be_written(tmp_path: pathlib.Path) -> None:
    """The check up front ends in STORAGE_NOT_WRITABLE with the root."""
    (tmp_path / "file").write_text("1")
    storage = LocalStorage(str(tmp_path / "file" / "storage"))
    with pytest.raises(OperationError) as caught:
        storage.check_writable()
    assert (caught.value.condition, caught.value.fields["path"]) == ("STORAGE_NOT_WRITABLE", storage.root)


def test_a_writer_that_is_killed_leaves_the_old_text(tmp_path: pathlib.Path) -> None:
    """`kill -9` after the new text is on disk and before the rename: the old text is read, alone."""
    storage = LocalStorage(str(tmp_path))
    storage.write_text("manifest.json", "old")
    program = (
        "from framework.engine.files.storage import open_storage;"
        f"open_storage({str(tmp_path)!r}).write_text('manifest.json', 'new')"
    )
    environment = {**os.environ, "SLUICE_FAILPOINT": "storage.before_replace"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert (done.returncode, storage.read_text("manifest.json")) == (-9, "old")
    assert storage.list_names("") == ["manifest.json"]
