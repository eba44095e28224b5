"""File systems that Spark lacks on this machine: Databricks workspace paths, and schemes with a missing package."""

from __future__ import annotations

import re

_UNKNOWN = re.compile(r'No FileSystem for scheme "([\w+.-]+)"')
_WITHOUT_CLASS = re.compile(r"ClassNotFoundException: Class [\w.]*\b(s3a|azurebfs|azure|gcs)\.\w+ not found")
_WRITTEN = {"azurebfs": "abfss", "azure": "wasbs", "gcs": "gs"}
"""The path schemes by the package that contains their file system class."""
_PACKAGES = {
    "s3": "org.apache.hadoop:hadoop-aws",
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "wasb": "org.apache.hadoop:hadoop-azure",
    "wasbs": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


_PARTS = {"Volumes": 4, "mnt": 2}
"""The number of folders in a path's prefix, for volumes and mounts; otherwise one."""


def entry_to_add(path: str) -> str:
    """Return the remedy for a path that is missing on this machine: the entry to add to `paths`, as a sentence.

    Args:
        path: a path or a URI.

    Examples:
        >>> entry_to_add("abfss://in@acct.dfs.core.windows.net/a").partition(" to ")[0]
        'Add `paths: {"abfss://in@acct.dfs.core.windows.net/": FOLDER}`'
        >>> entry_to_add("/Volumes/main/shop/raw/in").partition(" to ")[0]
        'Add `paths: {"/Volumes/main/shop/raw/": FOLDER}`'
    """
    entry = f'`paths: {{"{_prefix(path)}": FOLDER}}`'
    return f"Add {entry} to sluice.local.yml, with a folder or a bucket of this machine; the module stays as it is."


def _prefix(path: str) -> str:
    scheme, separator, rest = path.partition("://")
    if separator and not rest.startswith("/"):  # without a bucket, the prefix covers the whole scheme
        return f"{scheme}://{rest.partition('/')[0]}/" if rest else path
    start, below = ("dbfs:/", path[len("dbfs:") :].lstrip("/")) if path.startswith("dbfs:") else ("/", path.lstrip("/"))
    parts = below.split("/")
    count = _PARTS.get(parts[0], 0 if start != "/" else 1)
    return start + "".join(f"{part}/" for part in parts[:count])


def missing_file_system(cause: str) -> str | None:
    """Return the remedy for a Hadoop exception about a missing file system; None for other exceptions.

    Args:
        cause: the text of the exception.

    Examples:
        >>> missing_file_system('No FileSystem for scheme "s3"')[:37]
        'Add `paths: {"s3://": FOLDER}` to slu'
        >>> missing_file_system("No such file") is None
        True
    """
    found = _UNKNOWN.search(cause) or _WITHOUT_CLASS.search(cause)
    if found is None:
        return None
    scheme = found[1].lower()
    written = _WRITTEN.get(scheme, scheme)
    return file_system_advice(f"{written}:/" if written == "dbfs" else f"{written}://")


def file_system_advice(path: str) -> str:
    """Return the remedy for a path on a file system that Spark lacks: map the path, or add the package."""
    scheme = path.partition(":")[0].lower()
    entry = entry_to_add(path)
    if scheme not in _PACKAGES:
        return entry
    other = "Or write `s3a://` in place of `s3://`, and add" if scheme == "s3" else "Or add"
    return (
        f"{entry} {other} the package of the file system, such as `{_PACKAGES[scheme]}`, to `spark.jars.packages` in "
        "`spark_conf` of the pipeline."
    )
