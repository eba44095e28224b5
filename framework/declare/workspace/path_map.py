"""The map of workspace paths to folders and buckets of this machine, as a frozen value.

Databricks has one file system with several spellings: `/Volumes/x` is `dbfs:/Volumes/x`, and `/dbfs/x` is `dbfs:/x`. So
each path has one canonical spelling, a URI, in which prefixes are compared, and which Spark shows as a file's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from framework.declare.specs import Pairs
from framework.foundation.files.storage import is_local

ROOTS = (
    "/Volumes",
    "/dbfs",
    "/mnt",
    "/FileStore",
    "/databricks-datasets",
    "/databricks-results",
    "/user/hive/warehouse",
)
"""Folders that exist in every workspace, and on no other machine."""

MAPPED = "sluice.MappedFiles"
"""The Java class that reads and writes mapped paths."""

_DBFS = "dbfs:"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<rest>/.*)", re.DOTALL)
_SLASHES = re.compile("/{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMap:
    """Path prefixes with the folders or URIs that replace them; the longest matching prefix wins.

    Args:
        entries: prefixes as written, and their targets: absolute paths or URIs.

    Examples:
        >>> paths = PathMap(entries=(("dbfs:/", "/data/dbfs"), ("/Volumes/main/raw/", "/data/raw")))
        >>> paths.target("/Volumes/main/raw/a.json"), paths.target("/dbfs/b.json"), paths.target("s3://x/b.json")
        ('/data/raw/a.json', '/data/dbfs/b.json', None)
        >>> paths.spelled("/Volumes/main/raw/a.json"), paths.spelled("/tmp/a.json")
        ('dbfs:/Volumes/main/raw/a.json', None)
    """

    entries: Pairs = ()

    def target(self, path: str) -> str | None:
        """Return the target of a path; None if no prefix covers it."""
        found = self._entry(path)
        if found is None:
            return None
        prefix, target = found
        rest = uri_of(path)[len(_base(prefix)) :].lstrip("/")
        return f"{target.rstrip('/')}/{rest}" if rest else target.rstrip("/") or "/"

    def spelled(self, path: str) -> str | None:
        """Return the URI by which Spark reads a mapped path; None if no prefix covers it."""
        return None if self._entry(path) is None else uri_of(path)

    def local_target(self, path: str) -> str | None:
        """Return the local path that Python opens for a path without a scheme; None if there is none."""
        target = self.target(path) if path.startswith("/") else None
        if target is None or not is_local(target):
            return None
        return "/" + target.removeprefix("file:").lstrip("/")

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of the prefixes."""
        return tuple(dict.fromkeys(uri_of(prefix).partition(":")[0] for prefix, _ in self.entries))

    def text(self) -> str:
        """The map as the Java class reads it: a line for each prefix, the longest first."""
        lines = {_base(prefix): target for prefix, target in self.entries}
        return "\n".join(f"{prefix}\t{lines[prefix]}" for prefix in sorted(lines, key=lambda each: (-len(each), each)))

    def _entry(self, path: str) -> tuple[str, str] | None:
        uri, is_plain = uri_of(path), _is_plain(path)
        whole = is_plain and not is_of_workspace(path)
        found = [
            entry
            for entry in self.entries
            if f"{uri}/".startswith(f"{_base(entry[0])}/") and not (whole and not _is_plain(entry[0]))
        ]
        return max(found, key=lambda entry: len(_base(entry[0])), default=None)


NO_PATHS = PathMap()
"""The empty map."""


def path_map(*maps: Mapping[str, str]) -> PathMap:
    """Return the merged map of several maps; a later map overrides equal prefixes of earlier ones."""
    found: dict[str, tuple[str, str]] = {}
    for each in maps:
        found |= {_base(prefix): (prefix, target) for prefix, target in each.items()}
    return PathMap(entries=tuple(found.values()))


def uri_of(path: str) -> str:
    """Return the canonical spelling of a path, as Spark shows it: a path without a scheme gets `dbfs:`.

    Examples:
        >>> uri_of("/Volumes/main//raw/a"), uri_of("/dbfs/a"), uri_of("dbfs:///a"), uri_of("ABFSS://c@acct/in/")
        ('dbfs:/Volumes/main/raw/a', 'dbfs:/a', 'dbfs:/a', 'abfss://c@acct/in/')
    """
    match = _SCHEME.fullmatch(path)
    if match is None or match["scheme"].lower() == "file":
        plain = _SLASHES.sub("/", path if match is None else match["rest"])
        return _DBFS + (plain.removeprefix("/dbfs") or "/" if is_below(plain, ("/dbfs",)) else plain)
    scheme, rest = match["scheme"].lower(), match["rest"]
    if f"{scheme}:" == _DBFS or not rest.startswith("//"):
        return f"{scheme}:" + _SLASHES.sub("/", rest)
    authority, slash, below = rest[2:].partition("/")
    return f"{scheme}://{authority}{slash}" + _SLASHES.sub("/", below)


def is_of_workspace(path: str) -> bool:
    """Whether a path without a scheme is in a folder that only workspaces have."""
    match = _SCHEME.fullmatch(path)
    return _is_plain(path) and is_below(path if match is None else _SLASHES.sub("/", match["rest"]), ROOTS)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def is_prefix(text: str) -> bool:
    """Whether a text can be a prefix of a map: an absolute path, or a URI."""
    return text.isprintable() and (text.startswith("/") or _SCHEME.fullmatch(text) is not None)


def _is_plain(path: str) -> bool:
    """Whether a path has no scheme, or the scheme of local files."""
    match = _SCHEME.fullmatch(path)
    return match is None or match["scheme"].lower() == "file"


def _base(prefix: str) -> str:
    """Return a prefix in its canonical spelling, without trailing slashes."""
    return uri_of(prefix).rstrip("/")
