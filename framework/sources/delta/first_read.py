"""Where the first read of a Delta table begins: at its first commit, if the commits hold the table's files.

Delta begins with the present files of the table, which it computes by several queries (ADR 57). If all commits of the
table only add files, the commits from version 0 on contain the same files, and Delta reads them without a query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from framework.checkpoints.offsets import read_progress
from framework.foundation.files.read_once import fresh
from framework.foundation.files.storage_port import Storage
from framework.sources.delta.log import commit_path, read_commit
from framework.sources.delta.source import NextVersion

FIRST_VERSION = {"startingVersion": "0"}
"""The options of a read that begins at the first commit."""

_MOST_COMMITS = 20
# A commit may add a million files: Delta reads them in tasks; reading them all in this process would be wasted work.
_MOST_BYTES = 1 << 20
# The files of a micro-batch without a limit on the read. Delta can't replay a batch that ends within version 0.
_MOST_FILES = 1_000
# Any other option may select rows, a start, an order or the size of a micro-batch.
_NEUTRAL = frozenset({"path"})
_HARMLESS = frozenset({"commitInfo", "txn", "domainMetadata"})
# Version 0 creates the table.
_CREATION = _HARMLESS | {"protocol", "metaData"}
_COMMIT = re.compile(r"\d{20}\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRead:
    """The first read of a stream's sources.

    Args:
        storage: the storage of the checkpoint; it also reads the logs of tables.
        checkpoint: the checkpoint of the stream.
    """

    storage: Storage
    checkpoint: str

    def options(self, path: str, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return the options of a read that begins at the first commit; {} if it must begin as Delta does.

        When a stream with only one batch restarts, Spark requests that batch again and drops its rows. A first batch
        that was planned but not committed is left to Delta, which reads the files of the table at the batch's end.

        Args:
            path: the folder of the table.
            given: the options that the read has.
        """
        if not {name.lower() for name in given} <= _NEUTRAL:
            return {}
        storage = fresh(self.storage)
        progress = read_progress(storage, self.checkpoint)
        is_new = progress.last_offset_batch is None
        if not is_new and not (progress.is_settled and progress.last_offset_batch == 0):
            return {}
        commits = _first_commits(storage, path)
        if not is_new and not _has_read(progress.sources, storage, commits):
            return {}
        return FIRST_VERSION if _only_add(storage, commits) else {}


def _has_read(offsets: Sequence[str], storage: Storage, commits: Sequence[str]) -> bool:
    """Return whether a stream has read only whole commits, all of which are still in the table's log."""
    first = read_commit(storage, commits[0]) if commits else []
    created = [action["metaData"].get("id") for action in first if "metaData" in action]
    found = [place for offset in offsets if (place := NextVersion.of(offset)) is not None and place.table_id in created]
    return bool(found) and all(place.version is not None and place.version <= len(commits) for place in found)


def _only_add(storage: Storage, commits: Sequence[str]) -> bool:
    """Return whether commits only add rows, in at least one file and at most as many as fit a micro-batch.

    A table contains a file once, however many commits add it; a stream of the commits would read it once per commit.
    """
    files: list[str] = []
    for version, commit in enumerate(commits):
        added = _added_files(storage, commit, is_first=version == 0)
        if added is None:
            return False
        files += added
    return 0 < len(files) <= _MOST_FILES and len({*files}) == len(files)


def _first_commits(storage: Storage, path: str) -> list[str]:
    """Return the files of all commits from version 0 on; [] if any is missing, or they are too many or too large."""
    if not path.startswith("/") and ":/" not in path:  # relative to the folder of the process, not to the storage
        return []
    log = f"{path}/_delta_log"
    names = storage.list_names(log)
    versions = sorted(int(name[:20]) for name in names if _COMMIT.fullmatch(name))
    if versions != [*range(len(versions))] or len(versions) > _MOST_COMMITS:
        return []
    is_small = sum(each.size for each in storage.list_files(log)) <= _MOST_BYTES
    is_staged = "_staged_commits" in names and bool(storage.list_names(f"{log}/_staged_commits"))  # of a catalog
    return [commit_path(path, version) for version in versions] if is_small and not is_staged else []


def _added_files(storage: Storage, commit: str, *, is_first: bool) -> list[str] | None:
    """Return the files that a commit adds; None if the commit changes anything else or can't be read."""
    allowed, files = _CREATION if is_first else _HARMLESS, []
    for action in read_commit(storage, commit) or [{}]:
        if action.keys() == {"add"} and _adds_rows(action["add"]):
            files.append(str(action["add"].get("path")))
        elif len(action) != 1 or not action.keys() <= allowed:
            return None
    return files


def _adds_rows(add: Mapping[str, Any]) -> bool:
    """Return whether a file is new and all of its rows belong to the table."""
    return add.get("dataChange") is True and not add.get("deletionVector")
