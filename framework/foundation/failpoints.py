"""Named places where a test can kill the process, one between each pair of durable effects.

`SLUICE_FAILPOINT=name` kills at the first passing of that place, `name:3` at the third; a test may
`arm` another action. Otherwise a failpoint does nothing. The crash tests stop at every name that is
listed here.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from framework.foundation.errors import InternalError
from framework.foundation.processes import kill_session

VARIABLE = "SLUICE_FAILPOINT"

FAILPOINTS: frozenset[str] = frozenset(
    {
        # foundation
        "storage.before_replace",  # a file's new text is on disk, its name still shows the old
        # checkpoints
        "generations.before_delete",  # a rebuild's generation is given up, its folder still there
        # cdc
        "cdc.after_tombstones",  # a batch's deletes are in the companion table, its target has not seen it
        "cdc.after_events",  # what SCD type 2 must remember of a batch is kept, its target has not seen it
        "cdc.after_merge",  # a batch is in the target, its checkpoint does not know
        # run
        "tables.after_create",  # a table is there, the record that it is ours and as it should be is not
        "run.before_once_mark",  # a once flow's rows are in, its generation is not marked completed
        "snapshots.after_claim",  # a snapshot's version is claimed, its rows are not in
        "snapshots.before_mark",  # a snapshot's rows are in, it is not marked as applied
        "views.after_commit",  # a view's rows are replaced, its record is not written
        "rebuilds.after_begin",  # a rebuild is marked as begun, its copy and generations are not there
        "rebuilds.after_companion",  # AUTO CDC's state is that of the rebuild, the table's rows are the old ones
        "rebuilds.after_publish",  # the table's rows are the rebuild's, its mark still says building
        "rebuilds.after_mark",  # the mark says published, no generation is promoted
        "rebuilds.after_promote",  # one generation of a published rebuild is promoted, others may not be
        "prune.after_mark",  # a table is marked for deletion, nothing of it is deleted
        "prune.before_table",  # record and companion of a pruned table are gone, its rows and checkpoints are there
        "prune.before_unmark",  # all of a pruned table is gone, its mark is there
        "lease.before_cleaning",  # the lease is taken, files of former holders still there
    }
)

Action = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Armed:
    """What happens at the nth passing of a place, from when it was armed."""

    name: str
    nth: int
    action: Action


_armed: _Armed | None = None
_passed: Counter[str] = Counter()
_lock = threading.Lock()


def failpoint(name: str) -> None:
    """Do here what the environment or a test asks for; usually nothing.

    Raises:
        InternalError: FAILPOINT_UNKNOWN when the name is not in `FAILPOINTS`, so that no place is
            left out of the crash tests.
    """
    if name not in FAILPOINTS:
        raise InternalError("FAILPOINT_UNKNOWN", name=name)
    with _lock:
        _passed[name] += 1
        armed = _armed
        due = armed is not None and armed.name == name and armed.nth == _passed[name]
    if armed is not None and due:
        armed.action()


def arm(name: str, *, nth: int = 1, action: Action) -> None:
    """Have `action` done at the nth passing from now; one place at a time, the last one armed.

    Raises:
        InternalError: FAILPOINT_UNKNOWN.
    """
    global _armed  # noqa: PLW0603 - a place is armed for the whole process, whichever thread passes it
    if name not in FAILPOINTS:
        raise InternalError("FAILPOINT_UNKNOWN", name=name)
    with _lock:
        _passed.clear()
        _armed = _Armed(name=name, nth=nth, action=action)


def disarm() -> Counter[str]:
    """Have nothing done any more; how often each place was passed since the last `arm` or `disarm`."""
    global _armed  # noqa: PLW0603 - see `arm`
    with _lock:
        passed = Counter(_passed)
        _passed.clear()
        _armed = None
    return passed


def die() -> None:
    """Die as by `kill -9`: nothing is flushed, no handler runs.

    Spark's JVM is our child and would live on for some milliseconds, in which it may finish a
    commit. The kill of a machine or container spares nobody, so when this process leads a session
    (the crash harness starts it so) all of the session dies at once.
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
