"""Failpoints: named positions between durable effects at which a test can kill the process.

`SLUICE_FAILPOINT=name` kills the process at the first pass of that failpoint, `name:3` at the third pass. A test may
`arm` another action. Otherwise a failpoint has no effect. The crash tests kill the process at every failpoint in this
list.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from framework.foundation.errors import InternalError
from framework.foundation.processes import kill_session

VARIABLE = "SLUICE_FAILPOINT"

FAILPOINTS: frozenset[str] = frozenset(
    {
        # foundation
        "storage.before_replace",  # a file's new text is on disk, its name still refers to the old text
        # checkpoints
        "generations.after_begin",  # a flow of an update has a new generation, without the version of its table
        "generations.before_delete",  # a rebuild's generation is abandoned, its folder still exists
        "resets.after_begin",  # a generation that was asked for has begun, its request still exists
        # sources
        "sources.after_known",  # the commits that a stream may read are recorded, none of their rows is read
        "sources.before_known",  # rows of a stream are committed, the commits that it has read since are not recorded
        "cloud_files.before_start",  # files that are passed over are recorded, the start of the source is not
        "cloud_files.after_start",  # the start of the source is recorded, no file that is to be read is
        "cloud_files.after_files",  # found files are recorded, no offset refers to them
        "cloud_files.after_merge",  # the merged list of files exists beside the lists that it replaces
        "cloud_files.after_known",  # the merged index of known files exists beside those that it replaces
        "cloud_files.before_clean_mark",  # files are deleted or moved, they are not marked as done
        "cloud_files.after_columns",  # new columns and types are recorded, the flow has not stopped for them
        # cdc
        "cdc.after_tombstones",  # a batch's deletes are in the auxiliary table, not applied to the target
        "cdc.after_events",  # a batch's events that SCD type 2 keeps are in the auxiliary table, not in the target
        "cdc.after_merge",  # a batch is in the target, not in the checkpoint
        # run
        "updates.after_claim",  # an update has claimed its id, its event log has no event
        "tables.before_create",  # flows of a deleted table have no current generation, the table does not exist
        "tables.after_create",  # a table exists, the record of its ownership and definition does not
        "tables.before_wider_types",  # a table may have wider types, none of its columns has one
        "tables.after_wider_types",  # the columns of a table are wider, its record and its rows are as before
        "appends.after_commit",  # a batch of an append flow is in the table, not in the checkpoint
        "staging.after_files",  # the chunks of a batch are in files, no commit names them
        "staging.after_commit",  # the rows of the files are committed, files and checkpoint are as before
        "quarantine.after_rows",  # a batch's faulty rows are in the quarantine, the others are not in the target
        "quarantine.after_target",  # an append with a quarantine is in the target, not in the checkpoint
        "quarantine.after_claim",  # rows are claimed by a replay, not in the target
        "quarantine.after_replay",  # the rows of a replay are in the target, not marked as replayed
        "run.before_once_mark",  # a once flow's rows are written, its generation is not marked as completed
        "snapshots.after_claim",  # a snapshot's version is claimed, its rows are not written
        "snapshots.before_mark",  # a snapshot's rows are written, it is not marked as applied
        "views.after_give_up",  # an unfinished full refresh is given up for a view, whose rows are not written
        "views.after_create",  # a view with columns that Delta computes has its table, and no rows
        "views.after_commit",  # a view's rows are replaced, its record is not written
        "backups.after_copy",  # the tables of a backup are copied, it is not complete
        "backups.after_mark",  # a backup is complete, no rebuild refers to it
        "rebuilds.after_begin",  # a rebuild is marked as begun, its copy and generations do not exist
        "rebuilds.after_history",  # the lost rows are back in the copy of a rebuild, its mark does not say so
        "rebuilds.after_freeze",  # no flow writes to a rebuild any more, nothing of it is published
        "rebuilds.after_auxiliary",  # AUTO CDC's state is that of the rebuild, the table still has the old rows
        "rebuilds.after_publish",  # the table has the rows of the rebuild, the mark does not say so
        "rebuilds.after_quarantine",  # quarantined rows are kept open, the mark of their rebuild is not `published`
        "rebuilds.after_mark",  # the mark is `published`, no generation is promoted
        "rebuilds.after_promote",  # one generation of a published rebuild is promoted, further ones may not be
        "schedules.after_decision",  # the run of a schedule is recorded, its update is not asked for
        "schedules.after_start",  # the update of a schedule is accepted, the schedule does not know it
        "rewinds.after_mark",  # a rewind is decided, nothing is changed
        "rewinds.after_names",  # one table names its new generations, and is not restored yet
        "rewinds.after_restore",  # one table is restored, and does not name its storage yet
        "rewinds.after_table",  # one table of a rewind is restored, further ones may not be
        "rewinds.after_checkpoint",  # the new checkpoint of one flow is complete, no manifest refers to it
        "rewinds.after_quarantine",  # rows of undone batches have left the quarantine, the old checkpoints are current
        "rewinds.after_generation",  # one flow continues from its new checkpoint, further ones may not
        "rewinds.after_abandon",  # the decision gives up some tables, none of their full refreshes has begun
        "rewinds.after_refresh",  # the full refresh of one table that was given up has begun, further ones may not have
        "prune.after_mark",  # a table is marked for deletion, nothing of it is deleted
        "prune.before_table",  # record and auxiliary table of a pruned table are deleted, rows and checkpoints are not
        "catalog.after_drop",  # the name of a table no longer refers to its former folder, it refers to none
        "prune.before_unmark",  # a pruned table is deleted completely, its mark still exists
        # server
        "serve.after_accept",  # a request is accepted, no process exists
        "serve.after_claim",  # the log of a run is locked and its record says that it starts, no process exists
        "serve.after_spawn",  # the process of a run exists, its record does not name it
        "serve.after_give_up",  # a silent run is asked to stop, its record does not say that it is lost
        "serve.after_stop_request",  # a stop is asked for, a run that waits is not cancelled
        "versions.before_cleaning",  # a new version of a lease or a request is created, former ones still exist
    }
)

Action = Callable[[], None]


# The actions by failpoint and pass number; passes are counted from arming.
_armed: dict[tuple[str, int], Action] = {}
_passed: Counter[str] = Counter()
_lock = threading.Lock()


def failpoint(name: str) -> None:
    """Run the armed action if it is due at this failpoint.

    Raises:
        InternalError: FAILPOINT_UNKNOWN if the name is not in `FAILPOINTS`, so that the crash tests cover every
            failpoint.
    """
    if name not in FAILPOINTS:
        raise InternalError("FAILPOINT_UNKNOWN", name=name)
    with _lock:
        _passed[name] += 1
        action = _armed.get((name, _passed[name]))
    if action is not None:
        action()


def arm(name: str, *, nth: int = 1, action: Action) -> None:
    """Run `action` at the nth pass from now, and disarm all earlier actions.

    Raises:
        InternalError: FAILPOINT_UNKNOWN.
    """
    arm_all({(name, nth): action})


def arm_all(actions: Mapping[tuple[str, int], Action]) -> None:
    """Run each action at the nth pass of its failpoint from now, and disarm all earlier actions.

    Raises:
        InternalError: FAILPOINT_UNKNOWN.
    """
    for name, _ in actions:
        if name not in FAILPOINTS:
            raise InternalError("FAILPOINT_UNKNOWN", name=name)
    with _lock:
        _passed.clear()
        _armed.clear()
        _armed.update(actions)


def disarm() -> Counter[str]:
    """Disarm all failpoints; return the number of passes per failpoint since the last `arm` or `disarm`."""
    with _lock:
        passed = Counter(_passed)
        _passed.clear()
        _armed.clear()
    return passed


def die() -> None:
    """Kill this process as `kill -9` does: nothing is flushed, and no handler runs.

    Spark's JVM is a child process. It would survive for some milliseconds and might finish a commit, while a failure
    of a machine or container ends all processes. So if this process leads a session (the crash harness starts it this
    way), all processes of the session are killed at once.
    """
    if os.getsid(0) == os.getpid():
        kill_session(os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)


def _arm_from_environment() -> None:
    wanted = os.environ.get(VARIABLE)
    if wanted:
        name, _, nth = wanted.partition(":")
        arm(name, nth=int(nth or 1), action=die)


_arm_from_environment()
