"""Delta tables as a kind of streaming source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from framework.foundation.storage_port import Storage
from framework.sources.delta.log import LogTip, commit_files, read_commit, read_tip
from framework.sources.port import (
    NO_LAG,
    UNKNOWN_LAG,
    Gap,
    Lag,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
)

KIND = "delta"
_MOST_COMMITS = 200


def table_source(path: str) -> SourceReference:
    """The reference to a Delta table by its folder."""
    return SourceReference(kind=KIND, shape=SourceShape.TABLE, location=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offset:
    """An offset of Delta's streaming source.

    Args:
        table_id: the table that was read.
        version: the next version to read, or the one that is being read.
        index: the last file of `version` that was read; negative if none.
        in_snapshot: whether the initial snapshot is still being read.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool

    @classmethod
    def parse(cls, text: str) -> _Offset | None:
        """The offset; None for a text of another kind."""
        try:
            value = json.loads(text)
        except ValueError:
            return None
        if not isinstance(value, dict) or not isinstance(value.get("reservoirVersion"), int):
            return None
        return cls(
            table_id=str(value.get("reservoirId")),
            version=value["reservoirVersion"],
            index=int(value.get("index", -1)),
            in_snapshot=value.get("isStartingVersion") is not False,
        )


class DeltaSource:
    """A Delta table, or its change data feed."""

    kind = KIND
    starts: tuple[str, ...] = ("startingVersion", "startingTimestamp")

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize `format("delta")` with a path."""
        return table_source(relation.path) if relation.format == "delta" and relation.path is not None else None

    def owns(self, offset: str) -> bool:
        """Own offsets that have a `reservoirVersion`."""
        return _Offset.parse(offset) is not None

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """The token of the table's log folders."""
        del previous
        log = f"{source.location}/_delta_log"
        return f"{storage.folder_token(log)} {storage.folder_token(f'{log}/_staged_commits')}"

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Compare each offset with the newest version of its table.

        False also where tables and offsets differ in number or identity: reading on fails or reads
        another table, so the stream must start and report it.
        """
        tips = [read_tip(position.storage, str(source.location)) for source in position.sources]
        return all(any(offset_is_drained(offset, tip) for tip in tips) for offset in position.offsets) and all(
            any(offset_is_drained(offset, tip) for offset in position.offsets) for tip in tips
        )

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Path, newest version and table id."""
        tip = read_tip(storage, str(source.location))
        return f"{source.location} none" if tip is None else f"{source.location} {tip.version} {tip.table_id}"

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Sum rows and bytes of the files that unread commits add; unknown during the initial snapshot."""
        total = NO_LAG
        for source, _, offset in _pairs(position):
            total = total.plus(
                UNKNOWN_LAG if offset is None else _table_lag(position.storage, str(source.location), offset, now)
            )
        return total

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Tables that were replaced, or whose log no longer holds the next version to read."""
        found = (
            _table_gap(position.storage, str(source.location), tip, position.offsets)
            for source, tip, _ in _pairs(position)
        )
        return tuple(gap for gap in found if gap is not None)


def offset_is_drained(offset_json: str, tip: LogTip | None) -> bool:
    """Whether a Delta streaming source that committed this offset has nothing left to read.

    As observed on Delta 4.4: a finished `availableNow` run, whether it began with a snapshot or at
    `startingVersion`, with or without the change feed, ends at the version after the last one that
    it read, and skips commits without data (OPTIMIZE, properties) by an empty batch. So the source is
    drained if its offset is beyond the newest version. A replaced source has another table id.
    """
    offset = _Offset.parse(offset_json)
    if offset is None or tip is None or tip.table_id is None or offset.table_id != tip.table_id:
        return False
    return offset.version > tip.version and not offset.in_snapshot


def _pairs(position: SourcePosition) -> Iterator[tuple[SourceReference, LogTip | None, _Offset | None]]:
    """Each table with its newest version and the offset that reads it, by table id."""
    offsets = [parsed for text in position.offsets if (parsed := _Offset.parse(text)) is not None]
    for source in position.sources:
        tip = read_tip(position.storage, str(source.location))
        matching = (offset for offset in offsets if tip is not None and offset.table_id == tip.table_id)
        yield source, tip, next(matching, None)


def _table_lag(storage: Storage, path: str, offset: _Offset, now: float) -> Lag:
    if offset.in_snapshot:
        return UNKNOWN_LAG
    files = commit_files(storage, path)
    versions = [version for version in files if version >= offset.version]
    if len(versions) > _MOST_COMMITS or (versions and versions[0] > offset.version):
        return UNKNOWN_LAG
    total = NO_LAG
    for version in versions:
        actions = read_commit(storage, files[version])
        skipped = offset.index + 1 if version == offset.version else 0
        total = total.plus(_commit_lag(actions, max(skipped, 0), now))
    return total


def _commit_lag(actions: list[dict[str, Any]], skipped: int, now: float) -> Lag:
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")][skipped:]
    if not added:
        return NO_LAG
    counts = [_record_count(add) for add in added]
    times = [action["commitInfo"].get("timestamp") for action in actions if "commitInfo" in action]
    stamp = next((time for time in times if isinstance(time, int)), None)
    return Lag(
        records=None if None in counts else sum(count or 0 for count in counts),
        bytes=sum(int(add.get("size", 0)) for add in added),
        seconds=None if stamp is None else max(now - stamp / 1000, 0.0),
    )


def _record_count(add: dict[str, Any]) -> int | None:
    try:
        return int(json.loads(add.get("stats") or "{}")["numRecords"])
    except (ValueError, KeyError):
        return None


def _table_gap(storage: Storage, path: str, tip: LogTip | None, offsets: tuple[str, ...]) -> Gap | None:
    parsed = [offset for text in offsets if (offset := _Offset.parse(text)) is not None]
    if tip is None:
        return Gap(condition="DELTA_TABLE_NOT_FOUND", location=path, problem="The path contains no Delta table.")
    mine = [offset for offset in parsed if offset.table_id == tip.table_id]
    if tip.table_id is not None and not mine:
        return Gap(
            condition="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            location=path,
            problem="The table was replaced after the last run of the flow.",
        )
    versions = commit_files(storage, path)
    wanted = min((o.version for o in mine if not o.in_snapshot and o.version <= tip.version), default=None)
    if wanted is None or wanted in versions:
        return None
    first = min(versions, default=tip.version)
    return Gap(
        condition="DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        location=path,
        problem=f"The Delta log starts at version {first}, but the checkpoint needs version {wanted}.",
    )
