"""Access to storage: selects the local or the Hadoop implementation by URI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.foundation.errors import UserError
from framework.foundation.files.storage import LocalStorage, Storage, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_storage(uri: str, spark: SparkSession | None = None) -> Storage:
    """Return the storage at a path or URI; nothing is created or checked until first use.

    Args:
        uri: a path, a `file:` URI, or a URI of any file system that Spark's Hadoop supports.
        spark: the session with the Hadoop configuration for the URI; not needed for local storage.

    Raises:
        UserError: STORAGE_NEEDS_SPARK if the URI is not local and there is no session.
    """
    if is_local(uri):
        return LocalStorage(uri)
    if spark is None:
        raise UserError("STORAGE_NEEDS_SPARK", path=uri)
    # Py4J is imported only here: a command on local storage starts without it.
    from framework.engine.files.hadoop_storage import HadoopStorage

    return HadoopStorage(uri, spark)
