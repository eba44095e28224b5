"""A list of files that Spark reads natively as one folder, without a listing and without looking up file status.

Spark's file sink leaves such a list in `_spark_metadata` of its folder, and each reader of Spark then reads exactly the
files in the list, with their sizes and times. Sluice writes the list: one small file for any number of files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from framework.foundation.files.storage_port import Storage
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.readwriter import DataFrameReader

_BLOCK_BYTES = 32 * 2**20


def write_manifest(storage: Storage, folder: str, files: Sequence[FoundFile]) -> str:
    """Write the list of files into a folder and return the folder, for `manifest_reader`."""
    head = '{"path":'
    tail = f',"blockReplication":1,"blockSize":{_BLOCK_BYTES},"action":"add"}}\n'
    lines = "".join(
        f'{head}{json.dumps(file.uri, ensure_ascii=False)},"size":{file.size},"isDir":false,'
        f'"modificationTime":{file.modified_ms}{tail}'
        for file in files
    )
    storage.write_text(f"{folder}/_spark_metadata/0", "v1\n" + lines)
    return folder


def manifest_reader(spark: SparkSession) -> DataFrameReader:
    """Return a reader for the folder of a list; the caller sets format, schema and options."""
    # The files are outside of the folder: without this option, Spark would read only files within it.
    return spark.read.option("recursiveFileLookup", "true")
