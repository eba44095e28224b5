"""Read the state of a Delta table for the planner, from the file names and small files of its log.

No Spark and no snapshot: a listing for the newest version, a checksum file for the table's id, the last few commits for
Sluice's mark. Everything else is reported as None or "not drained": an update may start a stream needlessly, but never
leaves data unread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from framework.foundation.files.storage_port import Storage, lines_of

_LOG = "_delta_log"
_STAGED = "_staged_commits"
_LOOK_BACK_COMMITS = 20
# Commits, and classic, multi-part and v2 checkpoints; a compacted log file ends at its second number.
_VERSION = re.compile(r"(?:\d{20}\.)?(\d{20})\.(?:json|compacted\.json|checkpoint\..*|[0-9a-f-]{36}\.json)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTip:
    """A table's newest version and its metadata; None or empty where no small file has it.

    Args:
        version: the newest version.
        table_id: the table's id.
        schema: its schema as JSON.
        properties: its properties.
        partition_columns: its partition columns.
        transactions: the last batch of each application that has written to the table, with its commit time in epoch
            milliseconds; empty if the newest checksum file does not have them.
        comment: its comment; None if it has none.
        created: when it was created, in epoch milliseconds; 0 if that is unknown.
        files: the number of its files; None if the newest checksum file does not have it.
        size_bytes: the size of its files; None if the newest checksum file does not have it.
    """

    version: int
    table_id: str | None
    schema: str | None = field(default=None, repr=False, compare=False)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    partition_columns: tuple[str, ...] = field(default=(), repr=False, compare=False)
    transactions: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)
    comment: str | None = field(default=None, repr=False, compare=False)
    created: int = field(default=0, repr=False, compare=False)
    files: int | None = field(default=None, repr=False, compare=False)
    size_bytes: int | None = field(default=None, repr=False, compare=False)

    @property
    def is_append_only(self) -> bool:
        """Return whether Delta refuses every commit that removes rows."""
        return self.properties.get("delta.appendOnly", "").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """One listing of a log.

    Args:
        commits: the file of each commit still in the log, by version, ascending.
        tip: the newest version and the metadata.
        is_staged: whether a catalog commits to the table, so that the file name of the next commit is unknown.
    """

    commits: Mapping[int, str]
    tip: LogTip
    is_staged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The user metadata that Sluice wrote into a commit, and the commit's version."""

    version: int
    content: Mapping[str, Any]


def latest_version(storage: Storage, table_path: str) -> int | None:
    """Return the newest version of a Delta table; None when there is no table."""
    return max(_version_files(storage, table_path), default=None)


def read_tip(storage: Storage, table_path: str) -> LogTip | None:
    """Return the newest version and the table's id; a new table at the same path has a different id."""
    files = _version_files(storage, table_path)
    if not files:
        return None
    version = max(files)
    checksum = _checksum(storage, table_path, version)
    if checksum is None:
        tip = tip_of(version, _read_metadata(storage, table_path, files))
        return replace(tip, transactions=_recent_transactions(storage, table_path, files))
    return replace(
        tip_of(version, checksum["metadata"]),
        transactions=_transactions(checksum),
        files=checksum.get("numFiles"),
        size_bytes=checksum.get("tableSizeBytes"),
    )


def tip_of(version: int, metadata: Mapping[str, Any]) -> LogTip:
    """Return the tip of a log from its newest version and metadata action; `metadata` is {} if unknown."""
    return LogTip(
        version=version,
        table_id=metadata.get("id"),
        schema=metadata.get("schemaString"),
        properties=metadata.get("configuration") or {},
        partition_columns=tuple(metadata.get("partitionColumns") or ()),
        comment=metadata.get("description"),
        created=int(metadata.get("createdTime") or 0),
    )


def read_listing(storage: Storage, table_path: str) -> LogListing | None:
    """List a log once and read the metadata; None if there is no table."""
    files = _version_files(storage, table_path)
    if not files:
        return None
    return LogListing(
        commits={version: files[version] for version in sorted(files) if files[version]},
        tip=tip_of(max(files), _read_metadata(storage, table_path, files)),
        is_staged=storage.exists(f"{table_path}/{_LOG}/{_STAGED}"),
    )


def commit_path(table_path: str, version: int) -> str:
    """Return the path of a commit file, for tables whose commits no catalog makes."""
    return f"{table_path}/{_LOG}/{version:020d}.json"


def log_token(storage: Storage, table_path: str) -> str:
    """Return a string that changes with the names in the log, within the resolution of the file system's clock."""
    log = f"{table_path}/{_LOG}"
    return f"{storage.folder_token(log)} {storage.folder_token(f'{log}/{_STAGED}')}"


def commit_files(storage: Storage, table_path: str) -> dict[int, str]:
    """Return the commit files still in the log by version, ascending; one listing."""
    files = _version_files(storage, table_path)
    return {version: files[version] for version in sorted(files) if files[version]}


def read_commit(storage: Storage, file: str) -> list[dict[str, Any]]:
    """Return all actions of a commit file from `commit_files`; [] if it has been deleted since."""
    return [_parse_object(line) for line in lines_of(storage.read_text(file) or "") if line]


def last_user_metadata(storage: Storage, table_path: str) -> CommitMark | None:
    """Return Sluice's newest user metadata among the table's last 20 commits.

    A mark is a commit's `userMetadata` that is a JSON object with an object under `sluice`. Other commits (OPTIMIZE, a
    rename of a column) are skipped.
    """
    for version, actions in _recent_commits(storage, table_path, _version_files(storage, table_path)):
        for action in actions:
            metadata = action.get("commitInfo", {}).get("userMetadata")
            content = _parse_object(metadata).get("sluice") if isinstance(metadata, str) else None
            if isinstance(content, dict):
                return CommitMark(version=version, content=content)
    return None


def _version_files(storage: Storage, table_path: str) -> dict[int, str]:
    """Return the commit file of each version in the log; "" if only a checkpoint names the version."""
    folder = f"{table_path}/{_LOG}"
    names = storage.list_names(folder)
    if _STAGED in names:  # a catalog's own commits wait here until they are copied into the log
        names += [f"{_STAGED}/{name}" for name in storage.list_names(f"{folder}/{_STAGED}")]
    files: dict[int, str] = {}
    for name in names:
        match = _VERSION.fullmatch(name.removeprefix(f"{_STAGED}/"))
        if match is None:
            continue
        version = int(match.group(1))
        is_commit = name.endswith(".json") and "checkpoint" not in name and "compacted" not in name
        files[version] = files.get(version) or (f"{folder}/{name}" if is_commit else "")
    return files


def _read_metadata(storage: Storage, table_path: str, files: dict[int, str]) -> Mapping[str, Any]:
    """Return the metadata from the newest checksum file or commit that has it; {} if none of the last few does.

    The newest commit has no checksum file yet while its writer creates one.
    """
    newest = max(files, default=-1)
    checksum = _checksum_metadata(storage, table_path, newest)
    if checksum is not None:
        return checksum
    for version, actions in _recent_commits(storage, table_path, files):
        for action in actions:
            if "metaData" in action:
                return dict(action["metaData"])
        checksum = _checksum_metadata(storage, table_path, version - 1)
        if checksum is not None:
            return checksum
    return {}


def metadata_at(storage: Storage, table_path: str, version: int) -> Mapping[str, Any]:
    """Return the metadata of a version from its checksum file or its commit; {} if neither has it."""
    checksum = _checksum_metadata(storage, table_path, version)
    if checksum is not None:
        return checksum
    text = storage.read_text(commit_path(table_path, version)) or ""
    return next((dict(action["metaData"]) for action in _small_actions(text) if "metaData" in action), {})


def _checksum_metadata(storage: Storage, table_path: str, version: int) -> Mapping[str, Any] | None:
    checksum = _checksum(storage, table_path, version)
    return None if checksum is None else dict(checksum["metadata"])


def _checksum(storage: Storage, table_path: str, version: int) -> dict[str, Any] | None:
    """Return the checksum file of a version; None if there is none, or if it has no metadata."""
    checksum = _parse_object(storage.read_text(f"{table_path}/{_LOG}/{version:020d}.crc") or "")
    metadata = checksum.get("metadata")
    return checksum if isinstance(metadata, dict) and "id" in metadata else None


def _transactions(checksum: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return the transactions of a checksum file; Delta leaves them out of the file if there are very many."""
    return {
        each["appId"]: (int(each["version"]), int(each.get("lastUpdated") or 0))
        for each in checksum.get("setTransactions") or ()
    }


def _recent_transactions(storage: Storage, table_path: str, files: dict[int, str]) -> dict[str, tuple[int, int]]:
    """Return the transactions of the newest checksum file and of later commits: RESTORE writes no checksum file."""
    found: dict[str, tuple[int, int]] = {}
    for version, actions in _recent_commits(storage, table_path, files):
        checksum = _checksum(storage, table_path, version)
        if checksum is not None:
            return {} if checksum.get("setTransactions") is None else {**_transactions(checksum), **found}
        for action in actions:
            txn = action.get("txn")
            if txn is not None:
                found.setdefault(txn["appId"], (int(txn["version"]), int(txn.get("lastUpdated") or 0)))
    return {}


def _recent_commits(
    storage: Storage, table_path: str, files: dict[int, str]
) -> Iterator[tuple[int, Iterator[dict[str, Any]]]]:
    """Yield the last commits with their `commitInfo`, `metaData` and `txn` actions, newest first."""
    newest = max(files, default=-1)
    for version in range(newest, max(newest - _LOOK_BACK_COMMITS, -1), -1):
        name = files.get(version) or f"{table_path}/{_LOG}/{version:020d}.json"
        text = storage.read_text(name)
        if text is None:
            return  # cleaned up, as are all earlier commits
        yield version, _small_actions(text)


def _small_actions(text: str) -> Iterator[dict[str, Any]]:
    """Yield the actions of a commit without file actions, which may be very many."""
    for line in lines_of(text):
        if line.startswith(('{"commitInfo"', '{"metaData"', '{"txn"')):
            yield _parse_object(line)


def _parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object; {} for anything else."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
