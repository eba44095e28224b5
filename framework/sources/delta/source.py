"""Delta tables as a kind of streaming source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.foundation.conditions.recovery import PUT_BACK
from framework.foundation.files.read_once import fresh
from framework.foundation.files.storage_port import Storage
from framework.sources.delta.commit_lag import commit_lag, lost_in
from framework.sources.delta.log import (
    LogTip,
    commit_files,
    commit_path,
    latest_version,
    log_token,
    read_commit,
    read_tip,
)
from framework.sources.delta.partitions import partition_conditions
from framework.sources.delta.read_commits import ReadCommits, commit_identity
from framework.sources.delta.unread import UnreadCommits
from framework.sources.port import (
    NO_LAG,
    UNKNOWN_LAG,
    ColumnValues,
    Gap,
    Lag,
    RewindPosition,
    SourcePosition,
    SourceReference,
    SourceShape,
    StreamingRelation,
)

KIND = "delta"
COMMIT_LOST = "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"
REPLACED = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
_BEGINS_AT = "startingversion"
_MOST_COMMITS = 200


def begin_of(options: Mapping[str, str]) -> str:
    """Return the start in a reader's options, as `option=value`; empty for the whole table."""
    given = {name.lower(): value for name, value in options.items()}
    starts = (f"{name}={given[name.lower()]}" for name in DeltaSource.starts if name.lower() in given)
    return next(starts, "")


def table_source(
    path: str, only: tuple[ColumnValues, ...] = (), *, from_start: bool = False, begins: str = "", pinned: str = ""
) -> SourceReference:
    """Return the reference to a Delta table by its folder.

    Args:
        path: the folder.
        only: conditions that all rows of interest meet.
        from_start: whether a stream without a position begins with all rows of the table.
        begins: the start that the code gives; empty for the whole table.
        pinned: the start of the flow's generation, which replaces `begins`; empty for none.
    """
    return SourceReference(
        kind=KIND, shape=SourceShape.TABLE, location=path, details=pinned, only=only, from_start=from_start,
        begins=begins,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offset:
    """An offset of Delta's streaming source.

    Args:
        table_id: the table that was read.
        version: the next version to read, or the version that is being read.
        index: the last file of `version` that was read; negative if none.
        in_snapshot: whether the initial snapshot is still being read.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool

    @property
    def last(self) -> int:
        """Return the last version that was read, completely or in part."""
        return self.version if self.in_snapshot or self.index >= 0 else self.version - 1

    @classmethod
    def begin(cls, source: SourceReference, tip: LogTip | None) -> _Offset | None:
        """Return the offset of a stream that has had no batch, which Spark does not store.

        Returns:
            None if the stream does not begin at a version.
        """
        option, _, number = (source.details or source.begins).partition("=")
        if tip is None or tip.table_id is None or option.lower() != _BEGINS_AT or not number.isdecimal():
            return None
        return cls(table_id=tip.table_id, version=int(number), index=-1, in_snapshot=False)

    @classmethod
    def parse(cls, text: str) -> _Offset | None:
        """Parse an offset; None for an offset of another kind of source."""
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

    def __init__(self) -> None:
        self._unread = UnreadCommits()

    def recognize(self, relation: StreamingRelation) -> SourceReference | None:
        """Recognize `format("delta")` with a path."""
        if relation.format != "delta" or relation.path is None:
            return None
        return table_source(relation.path, begins=begin_of(relation.options))

    def owns(self, offset: str) -> bool:
        """Return whether an offset has a `reservoirVersion`."""
        return _Offset.parse(offset) is not None

    def change_token(self, storage: Storage, source: SourceReference, previous: str | None) -> str | None:
        """Return the token of the log folders; None if the storage does not see the table, as for `paths`."""
        del previous
        return log_token(storage, str(source.location)) if storage.exists(str(source.location)) else None

    def is_drained(self, position: SourcePosition) -> bool | None:
        """Compare each offset with the newest version of its table, or with the commits that concern the flow.

        Also False if tables and offsets differ in number or identity, or if the last commit may have been replaced
        since it was read. To continue would fail or read a different table, so the stream must start and report it.
        """
        sources = tuple(dict.fromkeys(position.sources))
        tips = [self._tip(position.storage, source) for source in sources]
        known = ReadCommits.load(position.storage, position.checkpoint)
        pairs = [
            (offset, source)
            for offset in position.offsets
            for source, tip in zip(sources, tips, strict=True)
            if (
                offset_is_drained(offset, tip)
                or (_is_alone(tip, tips, position.offsets) and self._may_skip(position, source, _Offset.parse(offset)))
            )
            and _is_last(position.storage, source, known, offset)
        ]
        read = {source for _, source in pairs}
        read |= {source for source, tip in zip(sources, tips, strict=True) if _waits(source, tip, position.offsets)}
        return {offset for offset, _ in pairs} == {*position.offsets} and read == {*sources}

    def _tip(self, storage: Storage, source: SourceReference) -> LogTip | None:
        """Return the newest version of a table; its log is listed once for all flows that read its partitions."""
        path = str(source.location)
        return self._unread.tip(storage, path) if source.only else read_tip(storage, path)

    def _pairs(self, position: SourcePosition) -> Iterator[tuple[SourceReference, LogTip | None, _Offset | None]]:
        """Yield each table, its newest version, and its offset (by table id) or the begin of the stream."""
        offsets = [parsed for text in position.offsets if (parsed := _Offset.parse(text)) is not None]
        for source in position.sources:
            tip = self._tip(position.storage, source)
            matching = (offset for offset in offsets if tip is not None and offset.table_id == tip.table_id)
            yield source, tip, next(matching, None) or _Offset.begin(source, tip)

    def _may_skip(self, position: SourcePosition, source: SourceReference, parsed: _Offset | None) -> bool:
        """Return whether no unread commit concerns a flow with conditions on partition columns."""
        if parsed is None or parsed.in_snapshot or not source.only:
            return False
        return self._unread.may_skip(
            position.storage, source, table_id=parsed.table_id, version=parsed.version, checkpoint=position.checkpoint
        )

    def is_empty(self, storage: Storage, source: SourceReference) -> bool:
        """Return whether no commit since the table's creation has added a file in a partition of interest."""
        return bool(source.only) and self._unread.is_empty(storage, source)

    def identity(self, storage: Storage, source: SourceReference) -> str | None:
        """Return path, newest version with its commit, and table id; None if the storage can't access the table."""
        path = str(source.location)
        tip = read_tip(storage, path)
        if tip is None:
            return f"{path} none" if storage.exists(path) else None
        return f"{path} {tip.version} {commit_identity(storage, path, tip.version)} {tip.table_id}"

    def lag(self, position: SourcePosition, *, now: float) -> Lag:
        """Sum rows and bytes of the files that unread commits add; unknown during the initial snapshot."""
        total = NO_LAG
        for source, _, offset in self._pairs(position):
            if offset is None:
                total = total.plus(UNKNOWN_LAG)
            elif not self._may_skip(position, source, offset):
                total = total.plus(_table_lag(position.storage, source, offset, now))
        return total

    def lost_in(self, position: SourcePosition, *, now: float) -> float | None:
        """Return the seconds until Delta may delete the first unread commit from the log of a table.

        A commit is kept for `delta.logRetentionDuration`, and deleted with the next checkpoint of the table at the
        earliest.
        """
        found = []
        for source, tip, offset in self._pairs(position):
            if tip is not None and offset is not None and not self._may_skip(position, source, offset):
                begun = None if offset.in_snapshot else offset.version
                found.append(lost_in(position.storage, str(source.location), tip, begun, now))
        return min((each for each in found if each is not None), default=None)

    def gaps(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Detect replaced tables, and logs that no longer hold the next version to read."""
        pairs = [*self._pairs(position)]
        present = {None if tip is None else tip.table_id for _, tip, _ in pairs}
        read = {parsed.table_id for text in position.offsets if (parsed := _Offset.parse(text)) is not None}
        # A table that never had rows for the stream has no offset.
        is_gone = bool(read - present)
        found = (
            _table_gap(
                position.storage, str(source.location), tip, position.offsets,
                is_gone=is_gone and not _waits(source, tip, position.offsets),
            )
            for source, tip, _ in pairs
        )  # fmt: skip
        return tuple(gap for gap in found if gap is not None)

    def put_back(self, position: SourcePosition) -> tuple[Gap, ...]:
        """Detect a replaced log: the commit of a version that was read, even in part, differs or is missing."""
        known = ReadCommits.load(position.storage, position.checkpoint)
        found = []
        for source, tip, offset in self._offsets(position):
            path = str(source.location)
            version = known.replaced(position.storage, path, tip.table_id or "", offset.last)
            if version is not None and version <= tip.version:
                problem = (
                    f"Version {version} of the table is another commit than the one that the flow has read: an older "
                    "copy was put in its place, and written on to."
                )
                found.append(Gap(condition=PUT_BACK, location=path, problem=problem))
            elif (older := _older_copy(position.storage, path, tip, offset)) is not None:
                found.append(older)
        return tuple(dict.fromkeys(found))

    def remember(self, position: SourcePosition) -> None:
        """Store the identities of the commits up to the position, and of commits that a starting stream may read."""
        storage = position.storage
        known = ReadCommits.load(storage, position.checkpoint)
        begun = {source: offset for source, _, offset in self._offsets(position)}
        for source, tip, _ in self._pairs(position):
            if tip is not None and tip.table_id is not None:
                last = begun[source].last if source in begun else None
                known = known.advanced(
                    storage, str(source.location), tip.table_id, last=last, newest=max(tip.version, last or 0)
                )
        known.save(storage, position.checkpoint)

    def _offsets(self, position: SourcePosition) -> Iterator[tuple[SourceReference, LogTip, _Offset]]:
        """Yield each offset with its table; of two offsets of one table, the later comes last."""
        parsed = [offset for text in position.offsets if (offset := _Offset.parse(text)) is not None]
        for source, tip, found in self._pairs(position):
            mine = [offset for offset in parsed if tip is not None and offset.table_id == tip.table_id]
            for offset in sorted(mine or filter(None, [found]), key=lambda each: each.last):
                assert tip is not None  # of the table with the id in the offset
                yield source, tip, offset

    def resume(self, position: SourcePosition) -> tuple[str, ...] | None:
        """Return the next version to read; None in the initial snapshot, or if a table was replaced."""
        pairs = [*self._pairs(position)]
        found = [offset for _, _, offset in pairs]
        waiting = [source for source, tip, _ in pairs if _waits(source, tip, position.offsets)]
        if len(position.offsets) + len(waiting) != len(position.sources):
            return None
        if any(offset is None or offset.in_snapshot for offset in found):
            return None  # a start at a version would skip the unread rows of the snapshot
        return tuple(f"startingVersion={offset.version}" for offset in found if offset is not None)

    def lost_since(self, position: RewindPosition) -> str:
        """Describe versions missing from the log; a stream without a position reads the present table."""
        if position.from_start:
            return ""
        own = tuple(offset for offset in position.offsets if self.owns(offset))
        gaps = self.gaps(
            SourcePosition(
                storage=position.storage, checkpoint=position.checkpoint, sources=position.sources, offsets=own,
                source_count=len(position.offsets),
            )
        )  # fmt: skip
        return " ".join(gap.problem for gap in gaps).removesuffix(".")

    def describe(self, position: RewindPosition) -> tuple[str, ...]:
        """Describe the next version to read."""
        tips = ((source, read_tip(position.storage, str(source.location))) for source in position.sources)
        paths = {tip.table_id: str(source.location) for source, tip in tips if tip is not None}
        found = [parsed for text in position.offsets if (parsed := _Offset.parse(text)) is not None]
        return tuple(
            f"{paths.get(offset.table_id, 'a table')} from version {offset.version}"
            + (" on, within it" if offset.index >= 0 or offset.in_snapshot else " on")
            for offset in found
        )

    def truncate(self, position: RewindPosition) -> None:
        """Do nothing: only the offset is stored."""
        del position


@dataclass(frozen=True, slots=True, kw_only=True)
class NextVersion:
    """The place in a Delta table where a stream continues.

    Args:
        table_id: Delta's id of the table.
        version: the next version to read; None in the middle of a commit or of the initial snapshot.
    """

    table_id: str
    version: int | None

    @classmethod
    def of(cls, offset: str) -> NextVersion | None:
        """Parse an offset; None for an offset of another kind of source."""
        found = _Offset.parse(offset)
        if found is None:
            return None
        whole = found.index < 0 and not found.in_snapshot
        return cls(table_id=found.table_id, version=found.version if whole else None)


def moved_offset(offset: str, version: int) -> str:
    """Return an offset moved to the start of a version of its table."""
    return json.dumps({**json.loads(offset), "reservoirVersion": version}, separators=(",", ":"))


def offset_is_drained(offset_json: str, tip: LogTip | None) -> bool:
    """Return whether a Delta streaming source that committed this offset has nothing left to read.

    Observed on Delta 4.4: a finished `availableNow` run ends at the version after the last version that it read. It
    skips commits without data (OPTIMIZE, properties) by an empty batch. This holds for a begin with a snapshot or at
    `startingVersion`, with or without the change feed. So the source is drained if its offset is beyond the newest
    version. A replaced source has a different table id.
    """
    offset = _Offset.parse(offset_json)
    if offset is None or tip is None or tip.table_id is None or offset.table_id != tip.table_id:
        return False
    return offset.version > tip.version and not offset.in_snapshot


def _waits(source: SourceReference, tip: LogTip | None, offsets: tuple[str, ...]) -> bool:
    """Return whether a stream has read nothing because its first version is not committed yet."""
    begin = _Offset.begin(source, tip)
    if begin is None or tip is None or begin.version <= tip.version:
        return False
    return all(parsed.table_id != tip.table_id for text in offsets if (parsed := _Offset.parse(text)) is not None)


def _is_last(storage: Storage, source: SourceReference, known: ReadCommits, offset: str) -> bool:
    """Return whether the last commit that a stream has read is still in the table's log."""
    parsed = _Offset.parse(offset)
    return parsed is not None and known.is_last(storage, str(source.location), parsed.table_id, parsed.last)


def _is_alone(tip: LogTip | None, tips: list[LogTip | None], offsets: tuple[str, ...]) -> bool:
    """Return whether only one stream of the query reads a table, so its offset belongs to its conditions."""
    if tip is None or tip.table_id is None:
        return False
    read = [parsed for text in offsets if (parsed := _Offset.parse(text)) and parsed.table_id == tip.table_id]
    return len(read) == 1 and sum(each is not None and each.table_id == tip.table_id for each in tips) == 1


def _table_lag(storage: Storage, source: SourceReference, offset: _Offset, now: float) -> Lag:
    if offset.in_snapshot:
        return UNKNOWN_LAG
    path = str(source.location)
    files = commit_files(storage, path)
    tip = read_tip(storage, path) if source.only else None
    conditions = partition_conditions(source.only, tip) if tip is not None else ()
    versions = [version for version in files if version >= offset.version]
    if len(versions) > _MOST_COMMITS or (versions and versions[0] > offset.version):
        return UNKNOWN_LAG
    total = NO_LAG
    for version in versions:
        actions = read_commit(storage, files[version])
        skipped = offset.index + 1 if version == offset.version else 0
        total = total.plus(commit_lag(actions, max(skipped, 0), conditions, now))
    return total


def _older_copy(storage: Storage, path: str, tip: LogTip, offset: _Offset) -> Gap | None:
    """Detect a table that is older than the last version read, even if that was read in part."""
    # A running flow may have read a commit that is newer than the tip.
    if offset.last <= tip.version or offset.last <= (latest_version(fresh(storage), path) or 0):
        return None
    problem = f"The table is at version {tip.version}, and the flow has read up to version {offset.last}: an older copy"
    return Gap(condition=REPLACED, location=path, problem=f"{problem} is in its place.")


def _table_gap(
    storage: Storage, path: str, tip: LogTip | None, offsets: tuple[str, ...], *, is_gone: bool
) -> Gap | None:
    """Detect a table that a stream can't continue; `is_gone` if an offset's table is no longer a source."""
    parsed = [offset for text in offsets if (offset := _Offset.parse(text)) is not None]
    if tip is None:
        return Gap(condition="DELTA_TABLE_NOT_FOUND", location=path, problem="The path contains no Delta table.")
    mine = [offset for offset in parsed if offset.table_id == tip.table_id]
    if tip.table_id is not None and not mine and is_gone:
        return Gap(
            condition=REPLACED,
            location=path,
            problem="The table was replaced after the last run of the flow.",
        )
    older = next(filter(None, (_older_copy(storage, path, tip, offset) for offset in mine)), None)
    if older is not None:
        return older
    wanted = min((o.version for o in mine if not o.in_snapshot and o.version <= tip.version), default=None)
    # Check for one file: a long log takes long to list, and many flows may read it.
    if wanted is None or storage.exists(commit_path(path, wanted)):
        return None
    versions = commit_files(storage, path)
    if wanted in versions:
        return None
    first = min(versions, default=tip.version)
    return Gap(
        condition=COMMIT_LOST,
        location=path,
        problem=f"The Delta log starts at version {first}, but the checkpoint needs version {wanted}.",
    )
