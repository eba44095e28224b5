"""On a Hadoop file system the pipeline's lock is a lease."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest

from framework.engine.files.hadoop_storage import HadoopStorage
from framework.foundation.errors import OperationError
from framework.run.update.lock import update_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_lease_on_hadoop_keeps_a_second_update_out(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """The error of another update has the holder and the time to wait; after the release it gets the lease."""
    storage = HadoopStorage(f"file://{tmp_path}/place", spark)
    with (
        update_lock(storage, "u-1"),
        pytest.raises(OperationError, match=r"(?s)update u-1, .*run again in 60 seconds"),
        update_lock(storage, "u-2"),
    ):
        pass
    with update_lock(storage, "u-3"):
        assert storage.list_names(storage.path("update.lease")) == ["lease.json", "lease~~1.json"]
