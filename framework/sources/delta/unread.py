"""The newest commits of Delta tables by partition, read once for all flows that read a table.

A commit concerns a flow with conditions on partition columns if it adds files in a partition of interest, or does
anything but adding files: it removes rows, changes the schema or the protocol, or writes a change feed. Anything that
can't be read counts as such a commit.

A flow that no commit concerns is not started, so its checkpoint stays where it is while the log grows. It must not
stay for long: Delta deletes commits after the retention of the log, and a start reads all unread commits. So a flow
that is too far behind counts as concerned, and its next run takes it to the end of the log. Both limits differ by flow,
so that flows that were created together don't all run in the same update.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from framework.foundation.files.storage_port import Storage, lines_of
from framework.sources.delta.log import LogListing, LogTip, commit_path, log_token, read_listing, tip_of
from framework.sources.delta.partitions import partition_conditions
from framework.sources.delta.read_commits import commit_identity
from framework.sources.port import ColumnValues, SourceReference

MOST_COMMITS = 1_000
"""The most unread commits of a flow that is not started."""

MOST_FILES = 5_000
"""The most files in them; Delta reads a thousand in a micro-batch."""

RETENTION_SHARE = 0.25
"""The greatest age of the oldest of them, as a share of the retention of the log."""

_DEFAULT_RETENTION = "interval 30 days"
_MOST_TABLES = 256
_DURATION = re.compile(r"(?:interval\s+)?(\d{1,6})\s+(week|day|hour|minute|second)s?", re.IGNORECASE)
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_HARMLESS = frozenset({"commitInfo", "txn", "domainMetadata"})
_KNOWN = _HARMLESS | {"add", "remove", "cdc", "metaData", "protocol"}
_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContent:
    """What a commit means for the readers of a table.

    Args:
        concerns_all: whether it does anything but adding files.
        is_known: whether all that it adds is known.
        partitions: the partition values of the added files, each combination once.
        files: the number of added files.
        timestamp: its time in epoch milliseconds; None if unknown.
        metadata: the new metadata of the table; None if it keeps the old.
    """

    concerns_all: bool
    is_known: bool = True
    partitions: frozenset[tuple[tuple[str, str | None], ...]] = frozenset()
    files: int = 0
    timestamp: int | None = None
    metadata: Mapping[str, Any] | None = None


_UNREADABLE = CommitContent(concerns_all=True, is_known=False)


def parse_commit(text: str) -> CommitContent:
    """Return the content of a commit file."""
    if text.count("\n") > MOST_FILES:  # no flow may skip it
        return _UNREADABLE
    try:
        return _content([json.loads(line) for line in lines_of(text) if line.strip()])
    except (ValueError, AttributeError, TypeError, KeyError):
        return _UNREADABLE


def _content(actions: list[dict[str, Any]]) -> CommitContent:
    if not actions:
        return _UNREADABLE
    added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange") is not False]
    timestamps = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    known = [stamp for stamp in timestamps if isinstance(stamp, int)]
    return CommitContent(
        concerns_all=not all(_only_adds(action) for action in actions),
        is_known=all(kind in _KNOWN for action in actions for kind in action),
        partitions=frozenset(_partition(add) for add in added),
        files=len(added),
        timestamp=known[0] if known else None,
        metadata=next((action["metaData"] for action in actions if "metaData" in action), None),
    )


def _partition(add: Mapping[str, Any]) -> tuple[tuple[str, str | None], ...]:
    values = add["partitionValues"]
    if not all(value is None or isinstance(value, str) for value in values.values()):
        raise TypeError(values)
    return tuple(sorted(values.items()))


def _only_adds(action: Mapping[str, Any]) -> bool:
    """Whether an action adds rows, or changes none."""
    (kind,) = action
    return kind in _HARMLESS or kind == "add" or (kind == "remove" and action[kind].get("dataChange") is False)


class TableLog:
    """The newest commits of one table; not thread-safe.

    Args:
        storage: reads the log.
        path: the folder of the table.
        token: the token of the log before it was listed.
        listing: the listing; commits are read from the newest one on, and older ones when a flow is further behind.
    """

    def __init__(self, storage: Storage, path: str, token: str, listing: LogListing) -> None:
        self.storage = storage
        self.token = token
        self.tip: LogTip = listing.tip
        self._path = path
        self._commits = dict(listing.commits)
        self._first = self.tip.version + 1
        """The oldest version that was read; above the newest one if none was."""
        self._last_for_all = _NEVER
        """The newest version that concerns all flows."""
        self._last_unknown = _NEVER
        """The newest version of which not all is known."""
        self._newest: dict[str, dict[str | None, int]] = {}
        """The newest version that adds files, by partition column and partition value."""
        self._columns: dict[frozenset[str], int] = {}
        """The newest version that adds files, by the partition columns that they name."""
        self._files_before = {self._first: 0}
        """A running number of the files before each version."""
        self._timestamps: dict[int, int | None] = {}
        self._listed = self.tip.version, commit_identity(storage, path, self.tip.version)
        """A version with its commit, by which another log at the same path is known."""

    def read_new(self) -> None:
        """Read the commits that were made since, by their names: nothing is listed."""
        while (text := self.storage.read_text(commit_path(self._path, self.tip.version + 1))) is not None:
            version, content = self.tip.version + 1, parse_commit(text)
            self._commits[version] = commit_path(self._path, version)
            metadata = content.metadata
            self.tip = tip_of(version, metadata) if metadata is not None else replace(self.tip, version=version)
            self._files_before[version + 1] = self._files_before[version] + content.files
            self._add(version, content)
        self._forget()

    def goes_on_in(self, listing: LogListing) -> bool:
        """Whether a later listing is of the same table, and has no commit that was not read."""
        self.read_new()
        same = listing.tip.table_id is not None and listing.tip.table_id == self.tip.table_id
        if not same or listing.tip.version > self.tip.version:
            return False
        version, commit = self._listed  # a folder that is put back may have the same version again
        if commit_identity(self.storage, self._path, version) != commit:
            return False
        self._listed = self.tip.version, commit_identity(self.storage, self._path, self.tip.version)
        self._commits = {
            **listing.commits,
            **{at: self._commits[at] for at in self._commits if at > listing.tip.version},
        }
        return True

    def may_skip(self, version: int, only: tuple[ColumnValues, ...], *, share: float) -> bool:
        """Whether no commit from a version on concerns a flow with these conditions, and it is not too far behind.

        Args:
            version: the first unread version.
            only: the conditions of the flow.
            share: the share of the limits that applies to the flow.
        """
        if version > self.tip.version:
            return True
        return max(self._newest_added(version, only, share=share), self._last_for_all) < version

    def is_empty(self, only: tuple[ColumnValues, ...], *, share: float) -> bool:
        """Whether no commit since the table was created has added a file that concerns a flow with these conditions.

        A stream that begins now reads the files of the table, so other actions do not concern it.
        """
        return max(self._newest_added(0, only, share=share), self._last_unknown) == _NEVER

    def _newest_added(self, version: int, only: tuple[ColumnValues, ...], *, share: float) -> int:
        """The newest version that adds a file of interest; the newest one of the table if a commit is too far back."""
        conditions = partition_conditions(only, self.tip)
        if not conditions or not self._reads_from(version, share):
            return self.tip.version
        keys = {each.key for each in conditions}
        if any(at >= version and not keys <= named for named, at in self._columns.items()):
            return self.tip.version
        # A commit concerns the flow only if it has files of interest in each column; together they may be in none.
        return min(
            max((at for text, at in self._newest.get(each.key, {}).items() if each.may_match(text)), default=_NEVER)
            for each in conditions
        )

    def _reads_from(self, version: int, share: float) -> bool:
        """Read the commits from a version on; False if that is too far behind, or one of them can't be read."""
        newest = self.tip.version
        if newest - version >= MOST_COMMITS * share:
            return False
        most_files = MOST_FILES * share
        while self._first > version:
            if self._files_before[newest + 1] - self._files_before[self._first] > most_files:
                return False
            if not self._read_older():
                return False
        if self._files_before[newest + 1] - self._files_before[version] > most_files:
            return False
        begin, end, retention = self._timestamps[version], self._timestamps[newest], _retention_seconds(self.tip)
        if begin is None or end is None or retention is None:
            return False
        return (end - begin) / 1000 <= retention * RETENTION_SHARE * share

    def _read_older(self) -> bool:
        version = self._first - 1
        text = self.storage.read_text(self._commits[version]) if version in self._commits else None
        if text is None:
            return False
        content = parse_commit(text)
        self._first = version
        self._files_before[version] = self._files_before[version + 1] - content.files
        self._add(version, content)
        return True

    def _add(self, version: int, content: CommitContent) -> None:
        self._timestamps[version] = content.timestamp
        if content.concerns_all:
            self._last_for_all = max(self._last_for_all, version)
        if not content.is_known:
            self._last_unknown = max(self._last_unknown, version)
        for partition in content.partitions:
            named = frozenset(key for key, _ in partition)
            self._columns[named] = max(self._columns.get(named, _NEVER), version)
        for key, text in {item for partition in content.partitions for item in partition}:
            versions = self._newest.setdefault(key, {})
            versions[text] = max(versions.get(text, _NEVER), version)

    def _forget(self) -> None:
        """Forget commits that are too old for any flow, when they are as many as the others."""
        if self.tip.version - self._first < 2 * MOST_COMMITS:
            return
        self._first = self.tip.version - MOST_COMMITS
        self._files_before = {at: count for at, count in self._files_before.items() if at >= self._first}
        self._timestamps = {at: stamp for at, stamp in self._timestamps.items() if at >= self._first}
        self._commits = {at: file for at, file in self._commits.items() if at >= self._first}
        self._newest = {
            key: {text: at for text, at in versions.items() if at >= self._first}
            for key, versions in self._newest.items()
        }


class UnreadCommits:
    """The newest commits of the tables that flows with conditions read; each commit is read once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: dict[tuple[str, str], TableLog] = {}

    def tip(self, storage: Storage, path: str) -> LogTip | None:
        """Return the newest version of a table and its metadata; None if there is no table."""
        with self._lock:
            log = self._open(storage, path)
            return None if log is None else log.tip

    def may_skip(
        self, storage: Storage, source: SourceReference, *, table_id: str, version: int, checkpoint: str
    ) -> bool:
        """Whether no commit from a version on concerns a flow with conditions, and it is not too far behind.

        Args:
            storage: reads the log.
            source: the table and the conditions of the flow.
            table_id: the table that the flow has read.
            version: the first unread version.
            checkpoint: the checkpoint of the flow.
        """
        with self._lock:
            log = self._open(storage, str(source.location))
            if log is None or log.tip.table_id != table_id:
                return False
            return log.may_skip(version, source.only, share=_share(checkpoint))

    def is_empty(self, storage: Storage, source: SourceReference) -> bool:
        """Whether no commit since the table was created has added a file in a partition of interest."""
        with self._lock:
            log = self._open(storage, str(source.location))
            return log is not None and log.is_empty(source.only, share=1.0)

    def _open(self, storage: Storage, path: str) -> TableLog | None:
        """The log of a table, with all its commits until now.

        A known log is read on from its newest version. A folder whose token is another one may also have lost its
        old commits, or have another table: then it is listed again.
        """
        key, token = (storage.root, path), log_token(storage, path)
        known = self._tables.pop(key, None)
        if known is not None:
            known.storage = storage
            known.read_new()
            if known.token == token:
                return self._kept(key, known)
        listing = read_listing(storage, path)
        if listing is None:
            return None
        if known is not None and known.goes_on_in(listing):
            known.token = token
            return self._kept(key, known)
        log = TableLog(storage, path, token, listing)
        return log if listing.is_staged else self._kept(key, log)

    def _kept(self, key: tuple[str, str], log: TableLog) -> TableLog:
        self._tables[key] = log
        while len(self._tables) > _MOST_TABLES:
            del self._tables[next(iter(self._tables))]
        return log


def _share(checkpoint: str) -> float:
    """The share of the limits that applies to a flow: between a half and one, the same in each process."""
    return 0.5 + zlib.crc32(checkpoint.encode()) / 2**33


def _retention_seconds(tip: LogTip) -> int | None:
    """The retention of a table's log; None if its text is in an unknown format."""
    found = _DURATION.fullmatch(tip.properties.get("delta.logRetentionDuration", _DEFAULT_RETENTION).strip())
    return int(found[1]) * _SECONDS[found[2].lower()] if found is not None else None
