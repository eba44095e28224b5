"""Storage through Hadoop's file systems gives the same guarantees as a local folder."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from framework.engine.files.hadoop_storage import HadoopStorage
from framework.foundation.files.local_storage import LocalStorage
from framework.testing.storage_conformance import StorageConformance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TestHadoopStorage(StorageConformance):
    """The conformance suite of the storage port, on Hadoop's `file:` file system."""

    @pytest.fixture
    def storage(self, spark: SparkSession, tmp_path: pathlib.Path) -> HadoopStorage:
        """A folder that does not exist yet."""
        return HadoopStorage(f"file://{tmp_path}/place", spark)


def test_both_implementations_read_each_other(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Each implementation reads the files of the other; Hadoop replaces files that were written locally."""
    local = LocalStorage(f"file://{tmp_path}/place")
    hadoop = HadoopStorage(f"file://{tmp_path}/place", spark)
    local.write_text("manifest.json", "local")
    seen = [hadoop.read_text("manifest.json")]
    hadoop.write_text("manifest.json", "hadoop")
    seen.append(local.read_text("manifest.json"))
    assert seen == ["local", "hadoop"]
    assert local.list_names("") == hadoop.list_names(hadoop.root) == ["manifest.json"]
