"""The address of a Delta table: a path, or a name in a configured catalog."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass

from framework.foundation.names import string_literal

STORAGE_PROPERTY = "sluice.storage"
"""The table property with the storage root, `#`, and the table id; only the root if a user sets it."""

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+:)(?P<authority>//[^/]+)?(?:/(?P<path>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """Exactly one of `path` (a local path or a URI) and `name` (quoted, for SQL).

    Args:
        path: the path.
        name: the name.
        table_id: the Delta id of the table at which a writer began; None for any table at the address.
    """

    path: str | None = None
    name: str | None = None
    table_id: str | None = None

    def __post_init__(self) -> None:
        """Check that exactly one of path and name is given."""
        if (self.path is None) == (self.name is None):
            msg = "a table address has either a path or a name"
            raise ValueError(msg)

    def given_to(self, root: str) -> str:
        """Return the statement that assigns the table to the storage at `root`."""
        return f"ALTER TABLE {self.sql} SET TBLPROPERTIES ('{STORAGE_PROPERTY}' = {string_literal(root)})"

    @property
    def sql(self) -> str:
        """The address as a relation in a SQL FROM clause."""
        if self.name is not None:
            return self.name
        escaped = str(self.path).replace("`", "``")
        return f"delta.`{escaped}`"


def normal_path(path: str) -> str:
    """Normalize a path or URI to an absolute one without `.`, `..` and redundant slashes, as Hadoop and Delta do.

    Args:
        path: a path or URI; a relative path is resolved against the working folder.

    Examples:
        >>> normal_path("/data/raw/../tables/./t/"), normal_path("//data//t")
        ('/data/tables/t', '/data/t')
        >>> normal_path("s3a://bucket/a/../b"), normal_path("file:/a//b"), normal_path("file:///a/../b")
        ('s3a://bucket/b', 'file:/a/b', 'file:/b')
    """
    parts = _URI.fullmatch(path)
    if parts is None:
        return "/" + posixpath.abspath(path).lstrip("/")
    below = posixpath.normpath(f"/{parts['path'] or ''}").lstrip("/")
    return f"{parts['scheme']}{parts['authority'] or ''}/{below}"


def plain_path(path: str) -> str:
    """Return the canonical spelling of a path or URI, for comparisons; links are not followed.

    It is the normal path without the scheme of local files and without a trailing slash.

    Examples:
        >>> plain_path("file:///data/raw/../t/"), plain_path("/data//t"), plain_path("s3a://bucket/")
        ('/data/t', '/data/t', 's3a://bucket')
    """
    return normal_path(path).removeprefix("file:").rstrip("/") or "/"


def on_one_file_system(first: str, second: str) -> bool:
    """Return whether two paths or URIs are on one file system: a storage finds only paths of its own file system.

    Examples:
        >>> on_one_file_system("/data", "file:/t"), on_one_file_system("s3a://b/data", "s3a://b")
        (True, True)
        >>> on_one_file_system("/data", "dbfs:/t")
        False
    """
    return _file_system(first) == _file_system(second)


def _file_system(path: str) -> tuple[str, str]:
    parts = _URI.fullmatch(plain_path(path))
    return ("", "") if parts is None else (parts["scheme"].lower(), parts["authority"] or "")


def real_path(path: str) -> str:
    """Return the plain path of a local path's target, with links resolved; on other file systems the plain path."""
    plain = plain_path(path)
    return os.path.realpath(plain) if plain.startswith("/") else plain
