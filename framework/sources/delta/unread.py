"""The newest commits of Delta tables by partition, read once for all flows that read a table.

A commit concerns a flow with conditions on partition columns if it adds files in a partition of interest. It also does
if it removes rows, changes the schema or the protocol, writes a change feed, or can't be read.

A flow that no commit concerns is not started, so its checkpoint stays in place while the log grows. This can't last:
Delta deletes commits after the log retention, and a start reads all unread commits. So a flow that is too far behind
counts as concerned, and its next run moves it to the end of the log. The limits differ by flow, so that flows created
together don't all run in the same update.
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
"""The maximum number of unread commits of a flow that is not started."""

MOST_FILES = 5_000
"""The maximum number of files in the unread commits; Delta reads a thousand in a micro-batch."""

RETENTION_SHARE = 0.25
"""The maximum age of the oldest unread commit, as a share of the log retention."""

_DEFAULT_RETENTION = "interval 30 days"
_MOST_TABLES = 256
_DURATION = re.compile(r"(?:interval\s+)?(\d{1,6})\s+(week|day|hour|minute|second)s?", re.IGNORECASE)
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_HARMLESS = frozenset({"commitInfo", "txn", "domainMetadata"})
_KNOWN = _HARMLESS | {"add", "remove", "cdc", "metaData", "protocol"}
_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContent:
    """The content of a commit that matters to readers of a table.

    Args:
        concerns_all: whether it does more than add files.
        is_known: whether all added files are known.
        partitions: the partition values of the added files, each combination once.
        files: the number of added files.
        timestamp: its time in epoch milliseconds; None if unknown.
        metadata: the new metadata of the table; None if the commit does not change it.
    """

    concerns_all: bool
    is_known: bool = True
    partitions: frozenset[tuple[tuple[str, str | None], ...]] = frozenset()
    files: int = 0
    timestamp: int | None = None
    metadata: Mapping[str, Any] | None = None


_UNREADABLE = CommitContent(concerns_all=True, is_known=False)


def parse_commit(text: str) -> CommitContent:
    """Parse a commit file."""
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
    """Return whether an action adds rows or changes none."""
    (kind,) = action
    return kind in _HARMLESS or kind == "add" or (kind == "remove" and action[kind].get("dataChange") is False)


class TableLog:
    """The newest commits of one table; not thread-safe.

    Args:
        storage: reads the log.
        path: the folder of the table.
        token: the token of the log before it was listed.
        listing: the listing. Commits are read from the newest backwards, as far as a flow is behind.
    """

    def __init__(self, storage: Storage, path: str, token: str, listing: LogListing) -> None:
        self.storage = storage
        self.token = token
        self.tip: LogTip = listing.tip
        self._path = path
        self._commits = dict(listing.commits)
        self._first = self.tip.version + 1
        """The oldest version read so far; above the newest version if none was read."""
        self._last_for_all = _NEVER
        """The newest version that concerns all flows."""
        self._last_unknown = _NEVER
        """The newest version whose content is not fully known."""
        self._newest: dict[str, dict[str | None, int]] = {}
        """The newest version that adds files, by partition column and partition value."""
        self._columns: dict[frozenset[str], int] = {}
        """The newest version that adds files, by the partition columns of the files."""
        self._files_before = {self._first: 0}
        """The cumulative number of files before each version."""
        self._timestamps: dict[int, int | None] = {}
        self._listed = self.tip.version, commit_identity(storage, path, self.tip.version)
        """A version and its commit, to detect a different log at the same path."""

    def read_new(self) -> None:
        """Read the commits made since the last read, by their file names and without a listing."""
        while (text := self.storage.read_text(commit_path(self._path, self.tip.version + 1))) is not None:
            version, content = self.tip.version + 1, parse_commit(text)
            self._commits[version] = commit_path(self._path, version)
            metadata = content.metadata
            self.tip = tip_of(version, metadata) if metadata is not None else replace(self.tip, version=version)
            self._files_before[version + 1] = self._files_before[version] + content.files
            self._add(version, content)
        self._forget()

    def goes_on_in(self, listing: LogListing) -> bool:
        """Return whether a later listing is of the same table and contains no unread commit."""
        self.read_new()
        same = listing.tip.table_id is not None and listing.tip.table_id == self.tip.table_id
        if not same or listing.tip.version > self.tip.version:
            return False
        version, commit = self._listed  # a restored folder may have the same version again
        if commit_identity(self.storage, self._path, version) != commit:
            return False
        self._listed = self.tip.version, commit_identity(self.storage, self._path, self.tip.version)
        self._commits = {
            **listing.commits,
            **{at: self._commits[at] for at in self._commits if at > listing.tip.version},
        }
        return True

    def may_skip(self, version: int, only: tuple[ColumnValues, ...], *, share: float) -> bool:
        """Return whether no commit from `version` on concerns these conditions, and the flow is not too far behind.

        Args:
            version: the first unread version.
            only: the conditions of the flow.
            share: the share of the limits that applies to the flow.
        """
        if version > self.tip.version:
            return True
        return max(self._newest_added(version, only, share=share), self._last_for_all) < version

    def is_empty(self, only: tuple[ColumnValues, ...], *, share: float) -> bool:
        """Return whether no commit since the table's creation has added a file that matches these conditions.

        A new stream reads the present files of the table, so other actions do not concern it.
        """
        return max(self._newest_added(0, only, share=share), self._last_unknown) == _NEVER

    def _newest_added(self, version: int, only: tuple[ColumnValues, ...], *, share: float) -> int:
        """Return the newest version that adds a file of interest; the table's newest if a commit is too far back."""
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
        """Read the commits from a version on; False if they are too many or too old, or one can't be read."""
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
        begin, end, retention = self._timestamps[version], self._timestamps[newest], retention_seconds(self.tip)
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
        """Drop commits that are too old for any flow, once they are as many as the remaining commits."""
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
    """The newest commits of tables read by flows with conditions; each commit is read once."""

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
        """Return whether no commit from `version` on concerns a flow, and the flow is not too far behind.

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
        """Return whether no commit since the table's creation has added a file in a partition of interest."""
        with self._lock:
            log = self._open(storage, str(source.location))
            return log is not None and log.is_empty(source.only, share=1.0)

    def _open(self, storage: Storage, path: str) -> TableLog | None:
        """Return the log of a table with all commits made so far.

        A known log is read on from its newest version. If the token has changed, the folder may also have lost old
        commits or contain a different table, so it is listed again.
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
    """Return the share of the limits that applies to a flow: between 0.5 and 1, the same in each process."""
    return 0.5 + zlib.crc32(checkpoint.encode()) / 2**33


def retention_seconds(tip: LogTip) -> int | None:
    """Return the log retention of a table in seconds; None if its format is unknown."""
    found = _DURATION.fullmatch(tip.properties.get("delta.logRetentionDuration", _DEFAULT_RETENTION).strip())
    return int(found[1]) * _SECONDS[found[2].lower()] if found is not None else None
