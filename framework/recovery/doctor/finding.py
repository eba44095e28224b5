"""The values of an examination: what was found about each flow, and where the flow is."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.foundation.names import QualifiedName
from framework.recovery.doctor.diagnosis import Diagnosis
from framework.recovery.doctor.way_out import WayOut
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.update.results import UpdateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a flow is: the generation of its checkpoint, and where its sources go on.

    Args:
        generation: its number; None before the first.
        starts: for each source, the start that continues there; () if unknown.
    """

    generation: int | None = None
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A flow that needs someone, or the update itself.

    Args:
        flow: the flow; None for a fault of the update outside of its flows.
        dataset: its target.
        diagnosis: what it means.
        condition: the condition of the fault; empty if it has none.
        sqlstate: the condition's SQLSTATE; empty if it has none.
        cause: the first cause.
        location: file and line of the declaration; empty if unknown.
        since: when it was seen first, ISO 8601 in UTC; empty if no update has seen it yet.
        updates: the number of updates that failed since.
        evidence: what was found, with paths and positions.
        position: where the flow is.
        ways: the ways out, best first.
    """

    flow: QualifiedName | None
    dataset: QualifiedName | None
    diagnosis: Diagnosis
    condition: str = ""
    sqlstate: str = ""
    cause: str = ""
    location: str = ""
    since: str = ""
    updates: int = 0
    evidence: tuple[str, ...] = ()
    position: Position = field(default_factory=Position)
    ways: tuple[WayOut, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was examined and found.

    Args:
        flows: the number of flows that were examined.
        findings: the findings, in order of declaration.
        quarantined: the flows with rows that wait in the quarantine.
    """

    flows: int
    findings: tuple[Finding, ...]
    quarantined: tuple[WaitingRows, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A way out that was done.

    Args:
        finding: the finding.
        way: the way out.
        before: where the flow was.
        after: where the flow is.
        result: the result of the update; None if the way needs none.
    """

    finding: Finding
    way: WayOut
    before: Position
    after: Position
    result: UpdateResult | None
