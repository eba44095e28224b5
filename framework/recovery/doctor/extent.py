"""Row counts of a flow's sources, total and already read; from positions and logs, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from framework.checkpoints.offsets import CheckpointProgress
from framework.foundation.files.storage_port import Storage
from framework.foundation.wording import counted
from framework.recovery.doctor.amounts import NONE, Amount, unknown
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.offsets import committed_files, log_folder
from framework.sources.cloud_files.settings.options import local_path
from framework.sources.delta.log import commit_files, read_commit, read_tip
from framework.sources.delta.source import DeltaSource, NextVersion
from framework.sources.kinds import flow_positions, kind_named
from framework.sources.port import SourcePosition, SourceReference, StreamingSource

_DELTA = "delta"
_MOST_COMMITS = 500
_CARRYING: Mapping[str, tuple[str, ...]] = {
    "DELETE": (),
    "UPDATE": ("numUpdatedRows",),
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated"),
}
"""The metrics of Delta operations that count inserted and updated rows; copied rows are not included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Row counts of a flow's sources.

    Args:
        held: rows in the sources now.
        read: rows in the sources that the flow has read.
        gone: rows that the flow may have read, and that the sources have deleted since.
        missed: rows that the sources deleted before the flow read them; no way out recovers them.
    """

    held: Amount
    read: Amount
    gone: Amount
    missed: Amount = NONE

    def plus(self, other: Extent) -> Extent:
        """Return the sum over two sources."""
        return Extent(
            held=self.held.plus(other.held),
            read=self.read.plus(other.read),
            gone=self.gone.plus(other.gone),
            missed=self.missed.plus(other.missed),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRows:
    """The row counts of one commit of a Delta table.

    Args:
        added: rows of the files that it adds; None if unknown.
        carried: rows that it inserts or updates, by the metrics of its operation; None if unknown.
        changes: whether it removes or rewrites existing rows.
        columns: whether it changes the table's metadata.
    """

    added: int | None
    carried: int | None
    changes: bool
    columns: bool


_NOTHING = Extent(held=NONE, read=NONE, gone=NONE)


def unknown_extent(why: str) -> Extent:
    """Return an extent with unknown row counts."""
    return Extent(held=unknown(why), read=unknown(why), gone=unknown(why))


def measure(
    storage: Storage, checkpoint: str, sources: tuple[SourceReference, ...], progress: CheckpointProgress | None
) -> Extent:
    """Return the extent of all sources of a flow.

    Args:
        storage: reads the checkpoint and the logs.
        checkpoint: the path of the flow's checkpoint.
        sources: the references of its sources.
        progress: the progress to use instead of the checkpoint's.
    """
    positions = flow_positions(storage, checkpoint, sources, settled=False, progress=progress)
    if positions is None and all(source.kind == _DELTA for source in sources):
        lost = SourcePosition(storage=storage, checkpoint=checkpoint, sources=sources, offsets=(), source_count=0)
        positions = ((kind_named(_DELTA), lost),)  # the rows in a table do not depend on the position
    if positions is None:
        return unknown_extent("the checkpoint's position can't be read")
    return reduce(Extent.plus, (_measured(kind, position) for kind, position in positions), _NOTHING)


def committed_rows(storage: Storage, path: str, first: int) -> Mapping[int, CommittedRows]:
    """Return the commits of a Delta table from version `first` on that are still in its log, at most 500."""
    files = [(version, file) for version, file in commit_files(storage, path).items() if version >= first]
    return {version: _commit(read_commit(storage, file)) for version, file in files[:_MOST_COMMITS]}


def _commit(actions: list[dict[str, Any]]) -> CommittedRows:
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
    removed = any(action.get("remove", {}).get("dataChange") for action in actions)
    rows = [_rows(add) for add in added]
    return CommittedRows(
        added=None if None in rows else sum(count or 0 for count in rows),
        carried=_carried(actions),
        changes=removed,
        columns=any("metaData" in action for action in actions),
    )


def _carried(actions: list[dict[str, Any]]) -> int | None:
    """Return the rows that a commit inserts or updates, by its operation metrics; None if it has none."""
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    names = _CARRYING.get(info.get("operation", ""))
    try:
        return None if names is None else sum(int(info["operationMetrics"][name]) for name in names)
    except (KeyError, ValueError, TypeError):
        return None


def _rows(add: Mapping[str, Any]) -> int | None:
    """Return the rows of a file without those deleted by its deletion vector; None if it has no statistics."""
    try:
        rows = int(json.loads(add.get("stats") or "{}")["numRecords"])
    except (ValueError, KeyError):
        return None
    return rows - int((add.get("deletionVector") or {}).get("cardinality", 0))


def _measured(kind: StreamingSource, position: SourcePosition) -> Extent:
    if kind.kind == _DELTA:
        return _of_delta(kind, position)
    if kind.kind == "cloud_files":
        return _of_cloud_files(position)
    if kind.kind == "kafka":
        return _of_kafka(position)
    names = ", ".join(str(source.location) for source in position.sources)
    return unknown_extent(f"only the source knows its rows ({names})" if names else "only the source knows its rows")


def _of_delta(kind: StreamingSource, position: SourcePosition) -> Extent:
    """Return the row counts of Delta tables: all rows by log replay, minus the unread rows."""
    assert isinstance(kind, DeltaSource)
    held, gone, missed = NONE, NONE, NONE
    for source in position.sources:
        path = str(source.location)
        files = commit_files(position.storage, path)
        rows, changed = _replayed(position.storage, files)
        held = held.plus(
            unknown(f"the log of {path} starts at version {min(files, default=0)}")
            if rows is None
            # A flow that starts later, or reads some partitions only, reads a part of the table.
            else Amount(rows=rows, at_most=bool(source.begins or source.only))
        )
        if is_replaced(position, source):
            replaced = unknown(f"rows of the table that {path} has replaced")
            gone, missed = gone.plus(replaced), missed.plus(replace(replaced, is_gone=True))
        gone = gone.plus(unknown(f"rows that were deleted from {path}") if changed else NONE)
        missed = missed.plus(missed_rows(position, path, files) if changed else NONE)
    if held.rows is None:
        return Extent(held=held, read=held, gone=gone, missed=missed)
    unread = kind.lag(position, now=0.0).records
    if unread is None or gone.rows is None:  # a commit that rewrites files adds rows that were already read
        return Extent(held=held, read=_bounded(held.rows), gone=gone, missed=missed)
    # An added source has the position of another source on the same table, but has read nothing.
    is_paired = len(position.offsets) == len(position.sources)
    read = Amount(rows=max(held.rows - unread, 0), at_most=held.at_most or not is_paired)
    return Extent(held=held, read=read, gone=gone, missed=missed)


def _replayed(storage: Storage, files: Mapping[int, str]) -> tuple[int | None, bool]:
    """Return a table's row count, and whether rows were ever removed; None and True if the log is incomplete."""
    if not files or list(files) != list(range(len(files))) or len(files) > _MOST_COMMITS:
        return None, True
    present: dict[str, int | None] = {}
    changed = False
    for file in files.values():
        for action in read_commit(storage, file):
            if "remove" in action:
                present.pop(action["remove"]["path"], None)
                changed = changed or bool(action["remove"].get("dataChange"))
            elif "add" in action:
                present[action["add"]["path"]] = _rows(action["add"])
    counts = [*present.values()]
    return (None if None in counts else sum(count or 0 for count in counts)), changed


def _bounded(rows: int) -> Amount:
    return Amount(rows=rows, at_most=True)


def _of_cloud_files(position: SourcePosition) -> Extent:
    total = _NOTHING
    committed = committed_files(position.offsets)
    for number, source in enumerate(position.sources):
        log = FileLog(position.storage, f"{log_folder(position.checkpoint, number)}/files").load()
        last = min(committed.get(number, 0), log.last)
        read, local, gone = 0, 0, 0
        for file in log.each(log.first_unread - 1, last):
            path = local_path(file.uri)
            read += 1
            local += path is not None
            gone += path is not None and not position.storage.exists(path)
        folder = source.location
        total = total.plus(
            Extent(
                held=unknown(f"the rows of the files in {folder}"),
                read=_files(read - gone, f"that were read from {folder}"),
                gone=unknown(f"the files of {folder} can't be checked")
                if local < read
                else _files(gone, f"that are no longer in {folder}"),
            )
        )
    return total


def _files(number: int, what: str) -> Amount:
    return unknown(f"the rows of {counted(number, 'file')} {what}") if number else NONE


def _of_kafka(position: SourcePosition) -> Extent:
    """Return the committed offsets as an upper bound: the offsets of a partition start at 0."""
    topics = [json.loads(offset) for offset in position.offsets]
    read = sum(sum(partitions.values()) for offsets in topics for partitions in offsets.values())
    return Extent(
        held=unknown("only Kafka knows its records"),
        read=Amount(rows=read, at_most=True),
        gone=unknown("records that Kafka has deleted"),
        missed=unknown("unread records that Kafka has deleted", is_gone=True),
    )


def is_replaced(position: SourcePosition, source: SourceReference) -> bool:
    """Detect a replaced table: an offset names an earlier table, and no offset names the current one."""
    read = {place.table_id for offset in position.offsets if (place := NextVersion.of(offset)) is not None}
    tips = {each: read_tip(position.storage, str(each.location)) for each in position.sources}
    present = {each: None if tip is None else tip.table_id for each, tip in tips.items()}
    return present[source] not in read and not read <= {*present.values()}


def missed_rows(position: SourcePosition, path: str, files: Mapping[int, str]) -> Amount:
    """Return the rows of files that were added and removed again before the flow read them."""
    lost = unknown(f"rows that were deleted from {path} before they were read", is_gone=True)
    places = [place for offset in position.offsets if (place := NextVersion.of(offset)) is not None]
    if not places or any(place.version is None for place in places):
        return lost  # it starts with a snapshot of all rows, or is within it
    first = min(place.version or 0 for place in places)
    unread = {version: file for version, file in files.items() if version >= first}
    if unread and min(unread) > first:
        return lost
    added: set[str] = set()
    for file in unread.values():
        for action in read_commit(position.storage, file):
            if "add" in action:
                added.add(action["add"]["path"])
            elif action.get("remove", {}).get("dataChange") and action["remove"]["path"] in added:
                return lost
    return NONE
