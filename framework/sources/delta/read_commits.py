"""The commits of Delta tables that a stream has read: a file in its checkpoint, because an offset has only a version.

If a table's folder is restored from a backup and then written to, it gets the same versions again with different
commits. Delta would continue after them without an error. To detect this, the file stores the commit identities of the
last versions that the stream has read, and of the versions that existed when it last started.

The file is written before a stream starts, once a minute, and after the stream has ended. If a process dies in between,
the file has the commits of the last write. These include the commits that the stream has read since, unless the stream
was more than `_MOST_COMMITS` behind or read commits that were made after the write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from framework.foundation.files.storage_port import Storage
from framework.foundation.files.stored_format import StoredFormat
from framework.sources.delta.log import commit_files, commit_path

_FORMAT = StoredFormat(1)
_FILE = "read_commits.json"
_MOST_COMMITS = 20
_INFORMATION = '{"commitInfo"'


def commit_identity(storage: Storage, table_path: str, version: int) -> str | None:
    """Return the identity of the commit of a version; None if its file does not exist.

    Delta gives each commit an id. A commit of another writer is identified by its content.
    """
    text = storage.read_text(commit_path(table_path, version))
    if text is None:  # deleted, or a catalog made the commit and has not copied it into the log yet
        file = commit_files(storage, table_path).get(version)
        text = None if file is None else storage.read_text(file)
    if text is None:
        return None
    first = text.partition("\n")[0]
    if first.startswith(_INFORMATION):
        try:
            found = json.loads(first)["commitInfo"].get("txnId")
        except (ValueError, AttributeError):
            found = None
        if isinstance(found, str) and found:
            return found
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommits:
    """The commits of tables that a stream has read, or may have read since it started.

    Args:
        tables: for each table id, the identity of the commit by version.
    """

    tables: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, storage: Storage, checkpoint: str) -> ReadCommits:
        """Read the commits of a checkpoint; empty if the file is missing or damaged, as it is only a safeguard.

        Raises:
            OperationError: STORED_FORMAT_UNKNOWN.
        """
        path = f"{checkpoint}/{_FILE}"
        text = storage.read_text(path)
        if text is None:
            return cls()
        try:
            found = _FORMAT.content(text, path)["tables"]
            return cls(
                tables={
                    str(table): {int(version): str(identity) for version, identity in commits.items()}
                    for table, commits in found.items()
                }
            )
        except (ValueError, AttributeError, KeyError, TypeError):
            return cls()

    def save(self, storage: Storage, checkpoint: str) -> None:
        """Replace the file of a checkpoint if it has other commits."""
        if self != self.load(storage, checkpoint):
            storage.write_text(f"{checkpoint}/{_FILE}", _FORMAT.text({"tables": {**self.tables}}))

    def is_last(self, storage: Storage, table_path: str, table_id: str, version: int) -> bool:
        """Return whether a version is the last commit that the stream has read; True if its file is missing."""
        present = commit_identity(storage, table_path, version)
        return present is None or self.tables.get(table_id, {}).get(version) == present

    def replaced(self, storage: Storage, table_path: str, table_id: str, last: int) -> int | None:
        """Detect a read version whose commit was replaced; None if none is known.

        Args:
            storage: reads the log.
            table_path: the folder of the table.
            table_id: its id.
            last: the last version that the stream has read, completely or in part.
        """
        known = {version: identity for version, identity in self.tables.get(table_id, {}).items() if version <= last}
        newest = max(known, default=None)
        if newest is None:
            return None
        return None if commit_identity(storage, table_path, newest) in {None, known[newest]} else newest

    def common(self, storage: Storage, table_path: str, table_id: str, last: int) -> int | None:
        """Return the newest version whose commit was read and not replaced; None if none is known."""
        known = self.tables.get(table_id, {})
        versions = sorted((version for version in known if version <= last), reverse=True)
        return next((each for each in versions if commit_identity(storage, table_path, each) == known[each]), None)

    def advanced(
        self, storage: Storage, table_path: str, table_id: str, *, last: int | None, newest: int
    ) -> ReadCommits:
        """Add the commits of a table that the stream has read, or may read if it starts now.

        Stored versions above the last version read were present at an earlier start; their commits may have been
        replaced since. The last version read is always stored: a stream that was stopped far behind continues after it.

        Args:
            storage: reads the log.
            table_path: the folder of the table.
            table_id: its id.
            last: the last version that the stream has read; None if it has read none.
            newest: the newest version of the table.
        """
        if last is not None and self.replaced(storage, table_path, table_id, last) is not None:
            return self  # the next start of the stream reports it
        known = {
            version: identity
            for version, identity in self.tables.get(table_id, {}).items()
            if last is not None and version <= last
        }
        first = max(newest if last is None else last, newest - _MOST_COMMITS + 1, 0)
        for version in (*(() if last is None else (last,)), *range(first, newest + 1)):
            identity = known.get(version) or commit_identity(storage, table_path, version)
            if identity is not None:
                known[version] = identity
        newest_known = sorted(known)[-_MOST_COMMITS:]
        kept = {version: known[version] for version in sorted(known) if version == last or version in newest_known}
        return ReadCommits(tables={**self.tables, table_id: kept})
