"""Local files of a session are Hadoop's: the same permissions, links, checksum files and errors, without processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from framework.session.local_files import local_file_settings

IMPLEMENTATION = "fs.AbstractFileSystem.file.impl"
HADOOPS = "org.apache.hadoop.fs.local.LocalFs"


@pytest.fixture(params=["ours", "Hadoop's"])
def files(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """A file context with the implementation of the session or with Hadoop's own."""
    jvm: Any = spark._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    assert configuration.get(IMPLEMENTATION).startswith("sluice.")
    if request.param == "Hadoop's":
        configuration.set(IMPLEMENTATION, HADOOPS)
    return jvm.org.apache.hadoop.fs.FileContext.getFileContext(jvm.java.net.URI("file:///"), configuration)


def test_local_files_are_those_of_hadoop(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    """A file, a folder, links with and without a target, a missing file, and a rename with its checksum."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]

    def path(name: str) -> Any:
        return hadoop.Path(f"file://{tmp_path}/{name}")

    def status(name: str) -> tuple[bool, bool, int]:
        found = files.getFileLinkStatus(path(name))
        return found.isSymlink(), found.isDirectory(), found.getLen()

    folder = hadoop.permission.FsPermission("750")
    files.mkdir(path("folder"), folder, False)  # noqa: FBT003 - a JVM call
    (tmp_path / "file").write_text("four", "utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    files.setPermission(path("file"), hadoop.permission.FsPermission("604"))
    assert {name: status(name) for name in ("folder", "file", "link")} == {
        "folder": (False, True, (tmp_path / "folder").stat().st_size),
        "file": (False, False, 4),
        "link": (False, False, 4),  # Hadoop looks at the target if the path is a URI
    }
    assert [oct((tmp_path / name).stat().st_mode)[-3:] for name in ("folder", "file")] == ["750", "604"]
    for name in ("missing", "broken"):
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            status(name)

    assert files.util().copy(path("file"), path("folder/new"))
    overwrite = spark.sparkContext._gateway.new_array(hadoop.Options.Rename, 1)  # type: ignore[union-attr]
    overwrite[0] = hadoop.Options.Rename.OVERWRITE
    files.rename(path("folder/new"), path("folder/final"), overwrite)
    assert sorted(each.name for each in (tmp_path / "folder").iterdir()) == [".final.crc", "final"]
    folder = hadoop.permission.FsPermission("1777")  # a shared folder: only owners delete
    files.setPermission(path("folder"), folder)
    assert oct((tmp_path / "folder").stat().st_mode)[-4:] == "1777"


def test_a_new_folder_in_one_of_a_group_is_that_groups(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    """The setgid bit goes on to the folders below, so that all members can read what a table writes there."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    files.mkdir(hadoop.Path(f"file://{shared}/table"), hadoop.permission.FsPermission("750"), False)  # noqa: FBT003 - a JVM call
    assert oct((shared / "table").stat().st_mode)[-4:] == "2750"


def test_an_implementation_of_the_users_and_a_damaged_cache_are_no_obstacle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's class stays; code that can't be read is compiled again; a JVM that refuses has Hadoop's files."""
    gateway: Any = spark.sparkContext._gateway
    for name in ("spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"):
        assert local_file_settings(gateway, {name: "of.a.User"}) == {}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # The session's JVM has the classes already and refuses to define them again.
    assert local_file_settings(gateway, {}) == {}
    (kept,) = (tmp_path / "sluice" / "java").iterdir()
    compiled = kept.read_text("ascii")
    for damaged in ("", "{}", compiled[:-40], compiled.replace("LocalFiles$Raw", "Other")):
        kept.write_text(damaged, "ascii")
        assert local_file_settings(gateway, {}) == {}
        assert kept.read_text("ascii") == compiled
