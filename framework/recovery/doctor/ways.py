"""The ways out of a flow's fault, each with its effect, its cost, and its command or why only a person can do it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from framework.cdc.model.columns import quote
from framework.cdc.model.reserved_names import END_AT
from framework.checkpoints.manifest import GenerationState
from framework.checkpoints.offsets import read_progress
from framework.checkpoints.operators import read_query
from framework.checkpoints.roll_back import last_kept
from framework.declare.specs import IngestedGateway, IngestedTable
from framework.foundation.errors import SluiceError
from framework.ingest.state import GatewayStore, Mode
from framework.plan.foretelling import RESTORE, foretell
from framework.plan.selection import is_resettable
from framework.recovery.doctor.actions import (
    FullRefresh,
    RebuildCopy,
    ReplacePosition,
    ResetCheckpoint,
    Resume,
    Resync,
    RollBack,
    RunAgain,
)
from framework.recovery.doctor.amounts import NONE, Amount, Cost, unknown
from framework.recovery.doctor.beginnings import left_out, not_refreshed
from framework.recovery.doctor.broken_flow import BrokenFlow
from framework.recovery.doctor.diagnosis import Diagnosis, Way
from framework.recovery.doctor.quarantining import quarantining
from framework.recovery.doctor.restarts import (
    Restart,
    after_change,
    after_common,
    at_change,
    at_first_kept,
    at_lost_partitions,
    at_position,
    begins_before_change,
    open_batch,
    without_state,
)
from framework.recovery.doctor.way_out import WayOut
from framework.recovery.rewind.point_in_time import time_text

_NOT_NULL = re.compile(r"NOT NULL constraint violated for column: (?P<column>.+?)\.(?=\s|$)")
_IDEMPOTENT = "AUTO CDC: events that are read again change nothing"


def ways_out(case: BrokenFlow, diagnosis: Diagnosis) -> tuple[WayOut, ...]:
    """Return the ways out of a diagnosis that apply to a flow, best first: see `rank`."""
    found = (_WAYS[way](case) for way in diagnosis.ways)
    return rank([way for way in found if way is not None])


def rank(ways: Sequence[WayOut]) -> tuple[WayOut, ...]:
    """Sort ways out: exact ones first, then those that repeat rows, then those that lose rows.

    Rows that no way out can recover do not count as lost. Within a kind, known numbers come before unknown ones;
    otherwise the order of the diagnosis is kept.
    """
    return tuple(sorted(ways, key=lambda way: way.cost.severity))


def person_ways(remedy: str) -> tuple[WayOut, ...]:
    """Return the remedy of an error as the only way out; () if the remedy is empty."""
    return (WayOut(way=Way.FOLLOW, text=_one_line(remedy)),) if remedy.strip() else ()


def _one_line(remedy: str) -> str:
    return " ".join(line.strip().removeprefix("-> ") for line in remedy.splitlines() if line.strip())


def _repeated(case: BrokenFlow, amount: Amount) -> Amount:
    """Return how many of the rows that are read again become duplicates in the target."""
    if case.is_idempotent:
        return NONE if amount == NONE else Amount(rows=0, note=_IDEMPOTENT)
    return amount


def _restore(case: BrokenFlow) -> WayOut | None:
    text = RESTORE.get(case.condition.partition(".")[0])
    return None if text is None or case.damages else WayOut(way=Way.RESTORE, text=text)


def _is_in_full_refresh(case: BrokenFlow) -> bool:
    """Whether a full refresh of the target is unfinished, so that none of its checkpoints can be reset."""
    return case.manifest.in_state(GenerationState.BUILDING) is not None


def _reset(case: BrokenFlow, way: Way, text: str, restart: Restart | None) -> WayOut | None:
    if restart is None or not case.has_checkpoint or _is_in_full_refresh(case):
        return None
    if way is not Way.RESET_HERE:
        restart = without_state(case, restart)
    return WayOut(
        way=way,
        text=text,
        action=ResetCheckpoint(flow=case.flow.spec.name, starts=restart.starts),
        cost=Cost(lost=restart.lost, repeated=_repeated(case, restart.repeated), reread=restart.reread),
    )


def _reset_here(case: BrokenFlow) -> WayOut | None:
    try:
        restart = at_position(case)
    except SluiceError:  # a part of the checkpoint can't be read, so its position is unknown
        return None
    text = "Keep the table, and continue where the checkpoint ends, with a new checkpoint."
    if case.flow.operators:
        text = "Keep the table, and continue where the checkpoint ends, with an empty state."
    return _reset(case, Way.RESET_HERE, text, restart)


def _reset_start(case: BrokenFlow) -> WayOut | None:
    if not case.has_checkpoint or begins_before_change(case):
        return None
    extent = case.extent()
    lost = left_out(case, case.flow, is_read=True).plus(extent.missed)
    text = "Keep the table, and read the sources from where the code starts."
    return _reset(case, Way.RESET_START, text, Restart(starts=(), lost=lost, repeated=extent.read, reread=extent.held))


def _reset_first_kept(case: BrokenFlow) -> WayOut | None:
    text = "Keep the table, and continue at the first version that the source still has."
    return _reset(case, Way.RESET_FIRST_KEPT, text, at_first_kept(case))


def _reset_after_common(case: BrokenFlow) -> WayOut | None:
    text = (
        "Keep the table, with rows that the source no longer has, and continue after the last version that is as read."
    )
    return _reset(case, Way.RESET_AFTER_COMMON, text, after_common(case))


def _reset_after_change(case: BrokenFlow) -> WayOut | None:
    text = "Keep the table, and continue after the commit that can't be read."
    return _reset(case, Way.RESET_AFTER_CHANGE, text, after_change(case))


def _reset_at_change(case: BrokenFlow) -> WayOut | None:
    text = "Keep the table, and continue at the version that has the present columns."
    return _reset(case, Way.RESET_AT_CHANGE, text, at_change(case))


def _reset_partitions(case: BrokenFlow) -> WayOut | None:
    text = "Keep the table. Read the named partitions from their earliest record, and the others where they were."
    return _reset(case, Way.RESET_PARTITIONS, text, at_lost_partitions(case))


def _reset_earliest(case: BrokenFlow) -> WayOut | None:
    extent = case.extent()
    restart = Restart(starts=("earliest",), lost=extent.missed, repeated=extent.read, reread=extent.held)
    text = "Keep the table, and read everything that the topic still has."
    return _reset(case, Way.RESET_EARLIEST, text, restart)


def _reset_latest(case: BrokenFlow) -> WayOut | None:
    lost = unknown("all unread records up to the start of the next update")
    return _reset(
        case, Way.RESET_LATEST, "Keep the table, and read new records only.", Restart(starts=("latest",), lost=lost)
    )


def _roll_back(case: BrokenFlow) -> WayOut | None:
    """Return the roll-back to the last kept generation, if it is sound and fits the query."""
    kept = last_kept(case.manifest, appends=case.dataset.cdc is None, storage=case.states.storage)
    if kept is None or not case.has_checkpoint or not case.is_sound(kept) or _is_in_full_refresh(case):
        return None
    path, storage = case.path_of(kept), case.states.storage
    state = replace(case.state, query=read_query(storage, path), gaps=case.states.gaps(case.flow, path), damages=())
    if foretell(case.dataset, case.flow, state) is not None:
        return None
    before, now = case.extent_of(case.flow, path, read_progress(storage, path)).read, case.extent().read
    again = unknown("the rows that were read since that generation")
    if before.rows is not None and now.rows is not None:
        # A generation with its own start may have skipped a part of the range between both positions.
        started = case.current is not None and case.current.start is not None
        again = Amount(rows=max(now.rows - before.rows, 0), at_most=now.at_most or started)
    again = again.plus(open_batch(case))
    return WayOut(
        way=Way.ROLL_BACK,
        text=f"Continue from generation {kept.number} of the checkpoint, which is kept.",
        action=RollBack(
            flow=case.flow.spec.name,
            dataset=case.dataset.name,
            generation=kept.number,
            repeats=not case.is_idempotent and case.was_read_since(kept),
        ),
        cost=Cost(repeated=_repeated(case, again), reread=again),
    )


def _full_refresh(case: BrokenFlow) -> WayOut | None:
    if not case.dataset.is_table or not is_resettable(case.dataset) or begins_before_change(case):
        return None
    found = case.ingested()
    if found is not None:
        return _rebuild_copy(case, *found)
    extent = case.extent_of_target()
    return WayOut(
        way=Way.FULL_REFRESH,
        text="Rebuild the table from all data that its sources still have.",
        action=FullRefresh(dataset=case.dataset.name),
        cost=Cost(lost=extent.gone.plus(not_refreshed(case)), reread=extent.held),
    )


def _rebuild_copy(case: BrokenFlow, gateway: IngestedGateway, table: IngestedTable | None) -> WayOut | None:
    """Return the rebuild of a copy; None for the table of changes, which every copy needs."""
    if table is None:
        return None
    lost = unknown("versions that were replaced before the changes begin") if _keeps_history(case) else NONE
    return WayOut(
        way=Way.FULL_REFRESH,
        text=f"Rebuild the copy from a new snapshot of {table.source}, with the columns that it has now.",
        action=RebuildCopy(gateway=gateway.name, table=gateway.name_of(table), dataset=case.dataset.name),
        cost=Cost(lost=lost, reread=unknown(f"all rows of {table.source}")),
    )


def _run_again(case: BrokenFlow) -> WayOut | None:
    if case.dataset.is_sink or case.dataset.is_table:
        text = "When the cause is gone, run it again. It continues at its checkpoint."
        return WayOut(way=Way.RUN_AGAIN, text=text, action=RunAgain(dataset=case.dataset.name))
    return None


def _resync(case: BrokenFlow) -> WayOut | None:
    found = case.ingested()
    gateway, table = (None, None) if found is None else found
    if gateway is None or table is None:
        return None
    return WayOut(
        way=Way.RESYNC,
        text=f"Read {table.source} again while the other tables go on. The copy stays readable.",
        action=Resync(gateway=gateway.name, table=gateway.name_of(table)),
        cost=Cost(lost=_missing_history(case), reread=unknown(f"all rows of {table.source}")),
    )


def _replace_position(case: BrokenFlow) -> WayOut | None:
    found = case.ingested()
    if found is None:
        return None
    gateway, _ = found
    tables = ", ".join(table.source for table in gateway.tables)
    return WayOut(
        way=Way.REPLACE_POSITION,
        text="Begin the log at a new position, and read all tables of the gateway again. The copies stay readable.",
        action=ReplacePosition(gateway=gateway.name),
        cost=Cost(
            lost=Amount(
                rows=0, note="except versions between the position and the new snapshot, in copies with history"
            ),
            reread=unknown(f"all rows of {tables}"),
        ),
    )


def _missing_history(case: BrokenFlow) -> Amount:
    if _keeps_history(case):
        return Amount(rows=0, note="except versions between the position and the new snapshot")
    return NONE


def _keeps_history(case: BrokenFlow) -> bool:
    """Whether the target is SCD type 2; if its table has a fault, only the stored columns are known."""
    if case.dataset.cdc is not None:
        return case.dataset.cdc.scd_type == 2
    columns = json.loads(case.dataset.schema or "{}").get("fields", ())
    return any(column["name"] == END_AT for column in columns)


def _track_schema(case: BrokenFlow) -> WayOut | None:
    """Return the option for schema tracking of a source, with the only folder that Delta accepts for it."""
    building = case.manifest.in_state(GenerationState.BUILDING)
    checkpoint = case.checkpoint if building is None else case.path_of(building)
    if checkpoint is None or not case.flow.streaming:
        return None
    text = (
        f"Set the read option `schemaTrackingLocation` to `{checkpoint}/_schema_log`, and run again until Delta asks "
        "to allow the change: it reads up to it, and stops each time that it has recorded columns. Delta takes only a "
        "folder in the flow's checkpoint, so a reset, a rewind or a full refresh needs that of the new checkpoint."
    )
    return WayOut(way=Way.TRACK_SCHEMA, text=text)


def _resume(case: BrokenFlow) -> WayOut | None:
    """Return the resume of a held table, or of its held gateway; None if neither is held."""
    found = case.ingested()
    if found is None or not case.state.held:
        return None
    gateway, table = found
    requests = GatewayStore(case.states.storage)
    is_whole = requests.request(gateway.name).mode is Mode.PAUSED
    source = None if is_whole or table is None else gateway.name_of(table)
    text = f"Let {source} go on where it was." if source else "Let all tables of the gateway go on where they were."
    return WayOut(way=Way.RESUME, text=text, action=Resume(gateway=gateway.name, table=source))


def _rewind(case: BrokenFlow) -> WayOut | None:
    """Return the rewind to the version that a manual RESTORE restored; None without such a RESTORE."""
    undone = case.undone
    if undone is None:
        return None
    command = f"sluice rewind --to '{time_text(undone.time_ms)}' {case.dataset.name.table}"
    text = f"Take the table back to that version once more, with the checkpoints that belong to it: {command}"
    return WayOut(way=Way.REWIND, text=text)


def _quarantine(case: BrokenFlow) -> WayOut | None:
    text = quarantining(case)
    return None if text is None else WayOut(way=Way.QUARANTINE, text=text)


def _allow_null(case: BrokenFlow) -> WayOut | None:
    """Return how to allow NULL in a column of an existing table; None for other faults."""
    found = _NOT_NULL.search(case.cause)
    if found is None or not case.dataset.is_table:
        return None
    column = found["column"] if "." in found["column"] else quote(found["column"])
    statement = f"ALTER TABLE {case.states.store.address(case.dataset.spec).sql} ALTER COLUMN {column} DROP NOT NULL"
    text = (
        "If the column may be NULL: remove NOT NULL from it in `schema`, and from the table, which has it until a full "
        f"refresh: {statement}"
    )
    return WayOut(way=Way.ALLOW_NULL, text=text)


def _follow(case: BrokenFlow) -> WayOut | None:
    return next(iter(person_ways(case.remedy)), None)


def _person(way: Way, text: str) -> Callable[[BrokenFlow], WayOut]:
    return lambda _: WayOut(way=way, text=text)


_WAYS: Mapping[Way, Callable[[BrokenFlow], WayOut | None]] = {
    Way.RESTORE: _restore,
    Way.TRACK_SCHEMA: _track_schema,
    Way.ALLOW_CHANGE: _person(
        Way.ALLOW_CHANGE,
        "Set the read option `allowSourceColumnRename`, `allowSourceColumnDrop` or `allowSourceColumnTypeChange` to "
        "`always`, as the change is one, and run again. Rows from after the change have the new columns.",
    ),
    Way.ROLL_BACK: _roll_back,
    Way.RESET_HERE: _reset_here,
    Way.RESET_PARTITIONS: _reset_partitions,
    Way.RESET_FIRST_KEPT: _reset_first_kept,
    Way.RESET_AT_CHANGE: _reset_at_change,
    Way.RESET_AFTER_COMMON: _reset_after_common,
    Way.RESET_AFTER_CHANGE: _reset_after_change,
    Way.RESET_EARLIEST: _reset_earliest,
    Way.RESET_LATEST: _reset_latest,
    Way.RESET_START: _reset_start,
    Way.FULL_REFRESH: _full_refresh,
    Way.RUN_AGAIN: _run_again,
    Way.REWIND: _rewind,
    Way.RESYNC: _resync,
    Way.REPLACE_POSITION: _replace_position,
    Way.RESUME: _resume,
    Way.QUARANTINE: _quarantine,
    Way.ALLOW_NULL: _allow_null,
    Way.FOLLOW: _follow,
    Way.FREE_RESOURCES: _person(
        Way.FREE_RESOURCES,
        "Disk: free space where the error says. Memory: raise `spark.driver.memory` (local) or "
        "`spark.executor.memory`, or read less in a batch with the read option "
        "`maxFilesPerTrigger` or `maxBytesPerTrigger`.",
    ),
    Way.RESTART: _person(
        Way.RESTART, "Stop the update (Ctrl-C), and run it again. Every flow continues at its checkpoint."
    ),
    Way.ADD_CAPACITY: _person(
        Way.ADD_CAPACITY,
        "Raise `pipelines.maxParallelFlows` or the cores of the master. Look at the duration and the state of the "
        "batches: `sluice events --type stream_progress`.",
    ),
    Way.REPORT: _person(
        Way.REPORT,
        "Remove rows of other writers from the target. If there are none, report it with the event log.",
    ),
}
