"""Where a reset can start, and the rows that it loses or repeats: one function for each kind of source and fault."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from framework.foundation.clock import SystemClock
from framework.foundation.conditions.recovery import COLUMNS_DROPPED
from framework.foundation.wording import counted
from framework.plan.foretelling import may_resume
from framework.recovery.doctor.amounts import NONE, Amount, unknown
from framework.recovery.doctor.broken_flow import BrokenFlow
from framework.recovery.doctor.extent import CommittedRows, committed_rows
from framework.sources.cloud_files.files.file_log import FileLog
from framework.sources.cloud_files.files.local_listing import (
    FoundFile,
)
from framework.sources.cloud_files.files.offsets import log_folder, offset_number
from framework.sources.cloud_files.files.positions import unread_files
from framework.sources.cloud_files.source import touched_files
from framework.sources.delta.log import commit_files, read_tip
from framework.sources.delta.older_columns import present_since
from framework.sources.delta.read_commits import ReadCommits
from framework.sources.port import SourcePosition, SourceReference

_DEDUPLICATES = frozenset({"dedupe", "dedupeWithinWatermark"})
_PARTITION = re.compile(r"\b([A-Za-z0-9._-]+)-(\d+)\b")
_RESET_TO = re.compile(r"was (?P<wanted>\d+) but consumer reset to (?P<first>\d+)")
_CHANGED = re.compile(r"was changed from (?P<wanted>\d+) to (?P<first>\d+)")
_EARLIEST = -2  # Spark's number for the earliest offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The start of a new checkpoint.

    Args:
        starts: start options as a user writes them; () for the starts in the code.
        lost: rows that it skips.
        repeated: rows that may become duplicates in the target.
        reread: rows that it reads a second time.
    """

    starts: tuple[str, ...]
    lost: Amount = NONE
    repeated: Amount = NONE
    reread: Amount = NONE


def at_position(case: BrokenFlow) -> Restart | None:
    """Return the restart at the end of the checkpoint; None if that is unknown, or if the sources lost the position."""
    if not may_resume(case.condition, case.state) and case.state.resume:
        return None
    progress, checkpoint = case.progress, case.checkpoint
    if progress is None or checkpoint is None:
        return None
    starts = case.states.resume(case.flow, checkpoint, progress)
    open_rows = open_batch(case)
    if not starts:
        found = _after_files(case)
        if found is None:
            return None
        return replace(found, repeated=found.repeated.plus(open_rows))
    reread = _partly_read(case)
    repeated = reread.plus(_forgotten_keys(case)).plus(open_rows)
    return Restart(starts=starts, lost=_open_state(case), repeated=repeated, reread=reread)


def without_state(case: BrokenFlow, restart: Restart) -> Restart:
    """Add the cost of a new checkpoint to a restart at another position: empty state, and no planned batch.

    A restart that reads everything again rebuilds the state, except for rows that the sources no longer have.
    """
    is_whole = not restart.starts
    state = NONE if is_whole and restart.lost == NONE else _open_state(case)
    repeated = restart.repeated if is_whole else restart.repeated.plus(_forgotten_keys(case))
    return Restart(
        starts=restart.starts,
        lost=restart.lost.plus(state),
        repeated=repeated.plus(open_batch(case)),
        reread=restart.reread,
    )


def open_batch(case: BrokenFlow) -> Amount:
    """Return the rows in the target of batches that the checkpoint has not committed."""
    if not case.has_open_batch:
        return NONE
    batches = "the batch that was written and not committed"
    if case.state.deleted:
        batches = "batches that the table has and the checkpoint has not"
    rows = case.rows_of_open_batches()
    return unknown(f"rows of {batches}") if rows is None else Amount(rows=rows, note=f"including those of {batches}")


def _partly_read(case: BrokenFlow) -> Amount:
    """Return the rows of a Delta commit that was read in part: a restart can only start at a whole version."""
    assert case.progress is not None
    offsets = [json.loads(offset) for offset in case.progress.sources if offset.startswith('{"')]
    begun = [offset for offset in offsets if int(offset.get("index", -1)) >= 0 and "reservoirVersion" in offset]
    if not begun:
        return NONE
    note = f"the rows of {counted(len(begun), 'commit')} that were read in part"
    sources = case.states.stream_sources(case.flow) or ()
    if len(begun) != 1 or len(sources) != 1 or begun[0].get("isStartingVersion"):
        return unknown(note)
    version = int(begun[0]["reservoirVersion"])
    commit = committed_rows(case.states.storage, str(sources[0].location), version).get(version)
    rows = None if commit is None else commit.added
    return unknown(note) if rows is None else Amount(rows=rows, at_most=True, note=note)


def _open_state(case: BrokenFlow) -> Amount:
    """Return the rows of aggregations and joins that the old state holds and has not written yet."""
    stored = case.state.query.operators if case.state.query is not None else ()
    holding = [operator.words for operator in stored or () if operator.name not in _DEDUPLICATES]
    if not holding:
        return NONE
    note = f"what the state of {', '.join(holding)} has not written yet"
    rows = case.state_rows()
    return unknown(note) if rows is None else Amount(rows=rows, at_most=True, note=note)


def _forgotten_keys(case: BrokenFlow) -> Amount:
    """Return the duplicates that an empty state lets through, if the query drops duplicates."""
    drops = any(operator.name in _DEDUPLICATES for operator in case.flow.operators or ())
    return unknown("later duplicates of rows that were read before") if drops else NONE


def _after_files(case: BrokenFlow) -> Restart | None:
    """Return the restart after the newest file that a `cloudFiles` flow has read; None for other flows."""
    sources = case.states.stream_sources(case.flow)
    assert case.progress is not None
    if sources is None or len(sources) != 1 or sources[0].kind != "cloud_files" or len(case.progress.sources) != 1:
        return None
    log = FileLog(case.states.storage, f"{log_folder(case.checkpoint or '', 0)}/files").load()
    last = min(offset_number(case.progress.sources[0]) or 0, log.last)
    newest = max((file.modified_ms for file in log.each(log.first_unread - 1, last)), default=None)
    if newest is None or newest > SystemClock().now().timestamp() * 1000:  # no file would be read until then
        return None
    # Discovered files, and files that no update has discovered yet.
    unread = unread_files(_position(case, sources), 0)
    if unread is None:
        return Restart(
            starts=(f"modifiedAfter={_time(newest)}",),
            lost=unknown(
                f"the rows of files in {sources[0].location} that are older than {_time(newest)} and not read"
            ),
        )
    touched = touched_files(_position(case, sources), 0, newest)
    again = unknown(f"the rows of files that were read and have changed since: {_names(touched)}") if touched else NONE
    skipped = [file for file in unread if file.modified_ms <= newest]
    note = f"the rows of files that are older than {_time(newest)} and not read"
    lost = (
        unknown(f"{note}: {_names(skipped)}") if skipped else Amount(rows=0, note=f"except {note}, should some arrive")
    )
    return Restart(
        starts=(f"modifiedAfter={_time(newest)}",),
        lost=_open_state(case).plus(lost),
        repeated=_forgotten_keys(case).plus(again),
        reread=again,
    )


def _position(case: BrokenFlow, sources: tuple[SourceReference, ...]) -> SourcePosition:
    assert case.progress is not None
    return SourcePosition(
        storage=case.states.storage,
        checkpoint=case.checkpoint or "",
        sources=sources,
        offsets=case.progress.sources,
        source_count=len(case.progress.sources),
    )


def _names(files: list[FoundFile]) -> str:
    shown = ", ".join(file.uri.rpartition("/")[2] for file in files[:3])
    return shown if len(files) <= 3 else f"{shown} and {len(files) - 3} more"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat(timespec="milliseconds")


def at_first_kept(case: BrokenFlow) -> Restart | None:
    """Return the restart at the first version that is still in the log of the only Delta source."""
    found = _delta_position(case)
    if found is None:
        return None
    source, version = found
    first = min(commit_files(case.states.storage, str(source.location)), default=None)
    if first is None or first <= version:
        return None
    gone = f"version {version}" if first == version + 1 else f"versions {version} to {first - 1}"
    return Restart(
        starts=(f"startingVersion={first}",),
        lost=unknown(f"the rows of {gone} of {source.location}, which its log lost"),
    )


def after_common(case: BrokenFlow) -> Restart | None:
    """Return the restart after the last version of the only Delta source that is unchanged since the flow read it.

    None if no such version is known, or if a later commit removes rows, which a stream can't read.
    """
    found = _delta_position(case)
    if found is None:
        return None
    source, version = found
    storage, path = case.states.storage, str(source.location)
    tip = read_tip(storage, path)
    known = ReadCommits.load(storage, case.checkpoint or "")
    common = None if tip is None else known.common(storage, path, tip.table_id or "", version - 1)
    if tip is None or common is None:
        return None
    commits = committed_rows(storage, path, common + 1)
    if any(commit.changes for commit in commits.values()):
        return None
    again = NONE
    if common + 1 not in known.tables.get(tip.table_id or "", {}):  # the backup may have later commits
        rows = [commit.added for number, commit in commits.items() if number < version]
        again = (
            unknown(f"the rows of versions {common + 1} to {version - 1} that the flow has read")
            if None in rows
            else Amount(rows=sum(row or 0 for row in rows), at_most=True)
        )
    return Restart(starts=(f"startingVersion={common + 1}",), repeated=again, reread=again)


def after_change(case: BrokenFlow) -> Restart | None:
    """Return the restart after the commit of the only Delta source that the flow can't read."""
    found = _delta_position(case)
    if found is None:
        return None
    source, version = found
    commits = committed_rows(case.states.storage, str(source.location), version)
    by_columns = "SCHEMA" in case.condition
    blocking = [number for number, commit in commits.items() if (commit.columns if by_columns else commit.changes)]
    if not blocking:
        return None
    return Restart(
        starts=(f"startingVersion={blocking[0] + 1}",), lost=_skipped(commits, blocking, by_columns=by_columns)
    )


def at_change(case: BrokenFlow) -> Restart | None:
    """Return the restart at the version that last changed the columns of the only Delta source, or at the position."""
    found = _delta_position(case)
    if found is None:
        return None
    source, version = found
    first = present_since(case.states.storage, str(source.location))
    if first is None:
        return None
    commits = committed_rows(case.states.storage, str(source.location), version)
    rows = [commit.added for number, commit in commits.items() if number < first]
    # A change data feed also has removed rows.
    note = f"the rows of versions {version} to {first - 1}"
    lost = unknown(note) if None in rows else Amount(rows=sum(row or 0 for row in rows), note=note if rows else "")
    return Restart(starts=(f"startingVersion={max(version, first)}",), lost=lost, reread=_partly_read(case))


def begins_before_change(case: BrokenFlow) -> bool:
    """Whether the start in the code precedes the change of columns at which the flow fails."""
    if case.condition != COLUMNS_DROPPED:
        return False
    for source in case.states.stream_sources(case.flow) or ():
        number = source.begins.removeprefix("startingVersion=")
        first = present_since(case.states.storage, str(source.location)) if source.kind == "delta" else None
        if source.begins and number != "latest" and not (number.isdecimal() and int(number) >= (first or 0)):
            return True
    return False


def _skipped(commits: Mapping[int, CommittedRows], blocking: list[int], *, by_columns: bool) -> Amount:
    """Return the rows of the commits up to the first blocking one, which the restart skips."""
    first = commits[blocking[0]]
    change = "" if by_columns else f"the change of version {blocking[0]} is not applied"
    if blocking[1:]:
        change = "; ".join(filter(None, (change, f"version {blocking[1]} will stop the flow again")))
    skipped = [
        commit for number, commit in commits.items() if number <= blocking[0] and (by_columns or not commit.changes)
    ]
    rows = [commit.added for commit in skipped]
    # Inserted and updated rows; without metrics, copied rows count too.
    carried = NONE
    if not by_columns:
        known = first.added if first.carried is None else first.carried
        carried = Amount(rows=known, at_most=bool(known) and first.carried is None)
    if None in rows or carried.rows is None:
        return unknown("; ".join(filter(None, (f"the rows of {counted(len(rows) or 1, 'commit')}", change))))
    return Amount(rows=sum(row or 0 for row in rows) + carried.rows, at_most=carried.at_most, note=change)


def _delta_position(case: BrokenFlow) -> tuple[SourceReference, int] | None:
    """Return the only Delta source of a flow and the next version to read; None for other flows."""
    sources, progress = case.states.stream_sources(case.flow), case.progress
    if sources is None or progress is None or len(sources) != 1 or len(progress.sources) != 1:
        return None
    offset = json.loads(progress.sources[0])
    if sources[0].kind != "delta" or not isinstance(offset, dict) or offset.get("isStartingVersion"):
        return None
    return sources[0], int(offset["reservoirVersion"])


def at_lost_partitions(case: BrokenFlow) -> Restart | None:
    """Return a Kafka restart at the flow's offsets, but at the earliest offsets for partitions named in the error."""
    progress = case.progress
    if progress is None or len(progress.sources) != 1:
        return None
    offsets: dict[str, dict[str, int]] = json.loads(progress.sources[0])
    # A partition added since then has no offset yet.
    named = [(topic, number) for topic, number in _PARTITION.findall(case.cause) if topic in offsets]
    if not named:
        return None
    for topic, number in named:
        offsets[topic][number] = _EARLIEST
    start = json.dumps(offsets, separators=(",", ":"), sort_keys=True)
    # Kafka deletes the oldest records first, so the remaining records of these partitions are unread.
    return Restart(starts=(f"offsets={start}",), lost=_lost_records(case, named))


def _lost_records(case: BrokenFlow, named: list[tuple[str, str]]) -> Amount:
    reset = _RESET_TO.search(case.cause) or _CHANGED.search(case.cause)
    if reset is not None and int(reset["first"]) > int(reset["wanted"]) and len(named) == 1:
        # An upper bound: transactions and compaction leave offsets without a record.
        return Amount(rows=int(reset["first"]) - int(reset["wanted"]), at_most=True, is_gone=True)
    partitions = ", ".join(f"{topic}-{number}" for topic, number in named)
    return unknown(f"the unread records that Kafka has deleted from {partitions}", is_gone=True)
