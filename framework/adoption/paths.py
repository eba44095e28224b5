"""Paths that exist in a workspace only, in texts of code, and the prefix of each that a map has."""

from __future__ import annotations

import re
from collections.abc import Iterator

from framework.adoption.texts import PLACEHOLDER, Text

_PATH = re.compile(
    r"(?:(?:dbfs|abfss?|wasbs?|s3[an]?|gs|adl):/|/(?:Volumes|dbfs|mnt|databricks-datasets|FileStore|Workspace)(?:/|$))"
)
_QUOTED = re.compile(r"""(['"`])([^'"`\n]*)""")
_BUCKET = re.compile(r"\w+://[^/]*/")
_VOLUME = re.compile(r"/Volumes/(?:[^/]+/){1,3}")
_MOUNT = re.compile(r"/mnt/[^/]+/")
_FOLDER = re.compile(r"/[^/]+/|dbfs:/|\w+://")


def prefixes(text: Text) -> Iterator[str]:
    """Yield the prefixes of a text that is a path, or of the paths that stand in quotes in it.

    Examples:
        >>> list(prefixes(Text("/Volumes/main/raw/files/in/a.json"))), list(prefixes(Text("s3://lake/", False)))
        (['/Volumes/main/raw/files/'], ['s3://lake/'])
        >>> list(prefixes(Text("SELECT * FROM json.`dbfs:/tmp/a` JOIN t USING (id)")))
        ['dbfs:/']
    """
    if _PATH.match(text.start):
        yield _prefix(text)
        return
    if any(character.isspace() for character in text.start.strip()):
        for match in _QUOTED.finditer(text.start):
            if _PATH.match(match[2]):
                yield _prefix(Text(match[2], is_whole=text.is_whole or match.end() < len(text.start)))


def _prefix(text: Text) -> str:
    """Return the beginning of a path that all of its place share: a bucket, a volume, a mount, or a root."""
    start, placeholder, _ = text.start.partition(PLACEHOLDER)
    is_whole = text.is_whole and not placeholder
    # The last part of a path may continue in another expression, so it is left out.
    path = f"{start}/" if is_whole else start.rpartition("/")[0] + "/"
    for pattern in (_BUCKET, _VOLUME, _MOUNT, _FOLDER):
        found = pattern.match(path)
        if found is not None:
            return found[0]
    return path


def folder_for(prefix: str) -> str:
    """Return the folder of this machine that is suggested for a prefix, relative to the spec.

    Examples:
        >>> folder_for("abfss://landing@acct.dfs.core.windows.net/"), folder_for("/Volumes/main/raw/files/")
        ('data/landing/', 'data/main/raw/files/')
        >>> folder_for("dbfs:/"), folder_for("/mnt/lake/"), folder_for("s3://")
        ('data/dbfs/', 'data/mnt/lake/', 'data/s3/')
    """
    scheme, is_uri, rest = prefix.partition(":/")
    if not is_uri:
        return f"data{prefix.removeprefix('/Volumes')}"
    place = rest.strip("/").partition("@")[0]
    return f"data/{place or scheme}/"
