"""The map of a workspace's paths to folders and buckets of this machine, as a frozen value.

Databricks has one file system under several names: `/Volumes/x` is `dbfs:/Volumes/x`, and `/dbfs/x` is `dbfs:/x`. So
each path has one spelling, a URI, in which prefixes are compared, and which Spark shows as the name of a file.
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
"""Folders that each workspace has, and no other machine."""

MAPPED = "sluice.MappedFiles"
"""The class of Java that reads and writes the paths of a map."""

_DBFS = "dbfs:"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<rest>/.*)", re.DOTALL)
_SLASHES = re.compile("/{2,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMap:
    """Prefixes of paths, each with a folder or a URI in its place; the longest prefix wins.

    Args:
        entries: prefixes as they are written, and their targets: absolute paths or URIs.

    Examples:
        >>> paths = PathMap(entries=(("dbfs:/", "/data/dbfs"), ("/Volumes/main/raw/", "/data/raw")))
        >>> paths.target("/Volumes/main/raw/a.json"), paths.target("/dbfs/b.json"), paths.target("s3://x/b.json")
        ('/data/raw/a.json', '/data/dbfs/b.json', None)
        >>> paths.spelled("/Volumes/main/raw/a.json"), paths.spelled("/tmp/a.json")
        ('dbfs:/Volumes/main/raw/a.json', None)
    """

    entries: Pairs = ()

    def target(self, path: str) -> str | None:
        """Return what is in the place of a path; None if no prefix covers it."""
        found = self._entry(path)
        if found is None:
            return None
        prefix, target = found
        rest = uri_of(path)[len(_base(prefix)) :].lstrip("/")
        return f"{target.rstrip('/')}/{rest}" if rest else target.rstrip("/") or "/"

    def spelled(self, path: str) -> str | None:
        """Return the URI by which Spark reads a path that the map covers; None if no prefix covers it."""
        return None if self._entry(path) is None else uri_of(path)

    def local_target(self, path: str) -> str | None:
        """Return the local path that Python opens in place of a path without a scheme; None if there is none."""
        target = self.target(path) if path.startswith("/") else None
        if target is None or not is_local(target):
            return None
        return "/" + target.removeprefix("file:").lstrip("/")

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of the prefixes."""
        return tuple(dict.fromkeys(uri_of(prefix).partition(":")[0] for prefix, _ in self.entries))

    def text(self) -> str:
        """The map as Java's class reads it: a line for each prefix, the longest first."""
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
"""The map without an entry."""


def path_map(*maps: Mapping[str, str]) -> PathMap:
    """Return the map of several ones, of which a later one replaces the same prefixes of those before it."""
    found: dict[str, tuple[str, str]] = {}
    for each in maps:
        found |= {_base(prefix): (prefix, target) for prefix, target in each.items()}
    return PathMap(entries=tuple(found.values()))


def uri_of(path: str) -> str:
    """Return the spelling of a path in which Spark has it: `dbfs:` of what has no scheme.

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
    """Whether a path without a scheme is in a folder that only a workspace has."""
    match = _SCHEME.fullmatch(path)
    return _is_plain(path) and is_below(path if match is None else _SLASHES.sub("/", match["rest"]), ROOTS)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of some folders or in it."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def is_prefix(text: str) -> bool:
    """Whether a text can be a prefix of a map: an absolute path, or a URI."""
    return text.isprintable() and (text.startswith("/") or _SCHEME.fullmatch(text) is not None)


def _is_plain(path: str) -> bool:
    """Whether a path has no scheme, or that of local files."""
    match = _SCHEME.fullmatch(path)
    return match is None or match["scheme"].lower() == "file"


def _base(prefix: str) -> str:
    """A prefix in its one spelling, without slashes at its end."""
    return uri_of(prefix).rstrip("/")
