"""File systems that Spark does not have here: schemes of Databricks, and those whose package is missing."""

from __future__ import annotations

import re

_UNKNOWN = re.compile(r'No FileSystem for scheme "([\w+.-]+)"')
_WITHOUT_CLASS = re.compile(r"ClassNotFoundException: Class [\w.]*\b(s3a|azurebfs|azure|gcs)\.\w+ not found")
_PACKAGES = {
    "s3": "org.apache.hadoop:hadoop-aws", "s3a": "org.apache.hadoop:hadoop-aws",
    "azurebfs": "org.apache.hadoop:hadoop-azure", "azure": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector", "gcs": "com.google.cloud.bigdataoss:gcs-connector",
}  # fmt: skip


def missing_file_system(cause: str) -> str | None:
    """What to do about an exception of Hadoop if it has no file system for a path; None for any other exception.

    Args:
        cause: the text of the exception.

    Examples:
        >>> missing_file_system('No FileSystem for scheme "dbfs"')
        '`dbfs:` exists on Databricks only. Use a folder or a bucket that exists here.'
        >>> missing_file_system("No such file") is None
        True
    """
    found = _UNKNOWN.search(cause) or _WITHOUT_CLASS.search(cause)
    if found is None:
        return None
    scheme = found[1].lower()
    if scheme == "dbfs":
        return "`dbfs:` exists on Databricks only. Use a folder or a bucket that exists here."
    prefix = "Write `s3a://` in place of `s3://`. " if scheme == "s3" else ""
    package = f", such as `{_PACKAGES[scheme]}`" if scheme in _PACKAGES else ""
    return (
        f"{prefix}Add the package of the file system{package} to `spark.jars.packages` in `spark_conf` of the pipeline."
    )
