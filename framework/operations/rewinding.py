"""The start of a rewind: one that was interrupted is finished first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from framework.checkpoints.rewinds import StoredRewind
from framework.operations.pipeline_port import RewindPort
from framework.recovery.rewind.plan import RewindPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRewind:
    """What a rewind would do.

    Args:
        finished: the interrupted rewind that was finished; None if there was none.
        plan: what is left to do; None if the finished rewind was the one that is asked for.
    """

    finished: StoredRewind | None
    plan: RewindPlan | None


def prepare_rewind(rewinds: RewindPort, to: str, datasets: Sequence[str], *, dry_run: bool = False) -> PreparedRewind:
    """Finish a rewind that was interrupted, and plan the one that is asked for.

    Args:
        rewinds: the rewinds of a pipeline.
        to: a time with its zone, or an update, whose end is meant.
        datasets: the tables that go back; all streaming tables without any.
        dry_run: leave an interrupted rewind as it is, of which the plan is an error then.
    """
    finished = None if dry_run else rewinds.finish()
    if finished is not None and finished.to == to.strip():
        return PreparedRewind(finished=finished, plan=None)
    return PreparedRewind(finished=finished, plan=rewinds.plan(to, datasets))
