"""The local files of the tests' session are Hadoop's: the same permissions, links, checksum files and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

IMPLEMENTATION = "fs.AbstractFileSystem.file.impl"
HADOOPS = "org.apache.hadoop.fs.local.LocalFs"


@pytest.fixture(params=["ours", "Hadoop's"])
def files(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """A file context with the implementation of the session or with Hadoop's own."""
    jvm: Any = spark._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    assert configuration.get(IMPLEMENTATION).startswith("sluice.tests.")
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
