"""The start of a rewind, which first finishes an interrupted one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.checkpoints.rewinds import StoredRewind
from framework.operations.pipeline_port import RewindPort
from framework.recovery.rewind.plan import RewindPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRewind:
    """The plan of a rewind, after an interrupted one was finished.

    Args:
        finished: the interrupted rewind that was finished; None if there was none.
        plan: the remaining plan; None if the finished rewind was the requested one.
    """

    finished: StoredRewind | None
    plan: RewindPlan | None


def prepare_rewind(rewinds: RewindPort, to: str, datasets: Sequence[str], *, dry_run: bool = False) -> PreparedRewind:
    """Finish an interrupted rewind, and plan the requested one.

    Args:
        rewinds: the rewinds of a pipeline.
        to: a time with its zone, or the id of an update, to rewind to its end.
        datasets: the tables to rewind; () for all streaming tables.
        dry_run: leave an interrupted rewind as it is; planning then raises its error.
    """
    finished = None if dry_run else rewinds.finish()
    if finished is not None and finished.to == to.strip():
        return PreparedRewind(finished=finished, plan=None)
    return PreparedRewind(finished=finished, plan=rewinds.plan(to, datasets))
