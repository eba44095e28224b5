"""Appends of a flow to a Delta table, one commit each: of rows, or of files that already hold the rows.

A commit looks like one of Spark's own streaming writes and has the same transaction identifier. So this append skips a
batch that Spark has written, and Spark skips a batch that this append has written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Self

from pyspark.sql.types import NullType, StructType

from framework.cdc.model.columns import column
from framework.engine.delta.appends import append_batch, append_by_sink
from framework.engine.delta.new_files import NewFile, added_file, takes_files
from framework.engine.delta.table_version import TableVersion, can_open, log_entries
from framework.engine.plans.relations import batch_paths
from framework.foundation.files.storage import Storage
from framework.foundation.table_address import real_path
from framework.sources.delta.log import commit_files, read_commit
from framework.sources.kinds import streamed_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.foundation.table_address import TableAddress

SINK_OPTIONS = {"mergeSchema": "true"}
"""The options of Delta's sink for a flow's rows."""

_LAST_COMMITS = 50
_IDENTITY = "delta.identity."


class TableAppend:
    """One batch for one version of a table.

    Args:
        version: the newest version of the table.
        query_id: the stream's id in its checkpoint; for rows without a stream, the id of their transaction.
        number: the number of the batch.
    """

    def __init__(self, version: TableVersion, query_id: str, number: int) -> None:
        self._version = version
        self._query_id = query_id
        self._number = number

    @classmethod
    def begin(cls, session: SparkSession, table: TableAddress, query_id: str, number: int) -> Self:
        """Begin a transaction on a table that `can_append` accepts.

        Raises:
            pyspark.errors.PySparkException: the table no longer exists. Delta's sink would create it again, without its
            previous rows.
        """
        version = TableVersion(session, table)
        version.check_exists()
        return cls(version, query_id, number)

    def has_applied(self) -> bool:
        """Return whether the table already has the batch."""
        return self._version.last_batch(self._query_id) >= self._number

    def takes_files(self, schema: StructType) -> bool:
        """Return whether files with these columns can be committed as they are."""
        return takes_files(self._version) and _named_types(self._version.columns) == _named_types(schema)

    def append_files(self, files: Sequence[NewFile]) -> None:
        """Commit files as they are.

        Raises:
            pyspark.errors.PySparkException: a conflict with a commit that changed the table's definition.
        """
        adds = self._version.sequence(*(added_file(self._version, file) for file in files))
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        counts = {"numOutputRows": rows, "numOutputBytes": size}
        append_batch(self._version, adds, self._query_id, self._number, counts)

    def append_rows(self, rows: DataFrame) -> None:
        """Write rows to new files and commit the files.

        Raises:
            pyspark.errors.PySparkException: a constraint of the table is violated, or a conflict.
        """
        if _has_plain_columns(self._version, rows.schema):
            append_batch(self._version, self._version.write_files(rows), self._query_id, self._number, {})
        else:  # the sink adds columns and fields, and casts types where it can
            # A column of type void has no value, and the sink rejects it.
            voids = (column(field.name) for field in rows.schema.fields if isinstance(field.dataType, NullType))
            append_by_sink(self._version, rows.drop(*voids), self._query_id, self._number, SINK_OPTIONS)


def can_append(session: SparkSession, table: TableAddress, query: DataFrame) -> bool:
    """Return whether a query's rows can be appended this way: the table has exactly its columns, all of them plain.

    Delta's own writers have rules for identity columns, for columns of type void, and for a query that reads its
    target.
    """
    if not can_open(table):
        return False
    version = TableVersion(session, table)
    return _has_plain_columns(version, query.schema) and not _reads(query, version.folder)


def _reads(query: DataFrame, path: str) -> bool:
    """Return whether a query reads a table, as a batch or as a stream."""
    streamed = (str(source.location) for source in streamed_sources(query))
    return real_path(path) in {real_path(read) for read in (*batch_paths(query), *streamed)}


def delete_leftovers(
    session: SparkSession,
    storage: Storage,
    table: TableAddress,
    prefix: str,
    *,
    kept: Collection[str] = (),
    is_safe: Callable[[], bool],
) -> bool:
    """Delete the files with this prefix that no commit refers to: the leftovers of killed attempts.

    Args:
        session: reads the table's log if there are such files.
        storage: the storage with the table's folder.
        table: the table.
        prefix: the prefix of file names that only the caller writes, so that no other writer is about to commit one.
        kept: the names of files that are known to belong to the table.
        is_safe: whether no existing file is about to be committed.

    Returns:
        Whether it was safe.
    """
    names = (file.name for file in storage.list_files(str(table.path)))
    found = [name for name in names if name.startswith(prefix) and name not in kept]
    if not found:
        return True
    if not is_safe():
        return False
    version = TableVersion(session, table)
    listed = version.listed_files()
    if listed is None:
        current = version.file_paths(removed=False, prefix=prefix)
    else:
        current = {entry["path"] for entry in log_entries(listed)}
    # Earlier versions still read a file that was removed from the table, until VACUUM deletes it.
    found = _not_in_commits(storage, str(table.path), [name for name in found if name not in current])
    if found:
        removed = version.file_paths(removed=True, prefix=prefix)
        found = [name for name in found if name not in removed]
    for name in found:
        storage.delete_tree(f"{table.path}/{name}")
    return True


def _not_in_commits(storage: Storage, path: str, names: Collection[str]) -> list[str]:
    """Return the names that the last commits lack; usually these have all, so that no query over the log is needed."""
    left = dict.fromkeys(names)
    for file in islice(reversed(commit_files(storage, path).values()), _LAST_COMMITS) if left else ():
        for action in read_commit(storage, file):
            for kind in ("add", "remove"):
                left.pop(action.get(kind, {}).get("path"), None)
        if not left:
            break
    return list(left)


def _has_plain_columns(version: TableVersion, schema: StructType) -> bool:
    """Return whether the table has exactly these columns, none of which has special rules in Delta's sink."""
    columns, stored = _named_types(schema), version.columns
    has_identity = any(key.startswith(_IDENTITY) for field in stored.fields for key in field.metadata)
    return columns == _named_types(stored) and not has_identity and not any("void" in kind for _, kind in columns)


def _named_types(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
