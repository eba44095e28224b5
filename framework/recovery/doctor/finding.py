"""The values of an examination: the findings, and the position of each flow."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.foundation.names import QualifiedName
from framework.recovery.doctor.diagnosis import Diagnosis
from framework.recovery.doctor.way_out import WayOut
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.update.results import UpdateResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a flow: the generation of its checkpoint, and where its sources continue.

    Args:
        generation: its number; None before the first.
        starts: for each source, the start option that continues at this position; () if unknown.
    """

    generation: int | None = None
    starts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault of a flow, or of the update itself, that needs an operator.

    Args:
        flow: the flow; None for a fault of the update outside of its flows.
        dataset: its target.
        diagnosis: the diagnosis.
        condition: the condition of the fault; empty if it has none.
        sqlstate: the condition's SQLSTATE; empty if it has none.
        cause: the first cause.
        location: file and line of the declaration; empty if unknown.
        since: when the fault was first reported, ISO 8601 in UTC; empty if no update has reported it yet.
        updates: the number of failed updates since then.
        evidence: the evidence, with paths and positions.
        position: the flow's position.
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
    """The result of an examination.

    Args:
        flows: the number of examined flows.
        findings: the findings, in order of declaration.
        quarantined: the flows with open rows in the quarantine.
    """

    flows: int
    findings: tuple[Finding, ...]
    quarantined: tuple[WaitingRows, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A way out that was applied.

    Args:
        finding: the finding.
        way: the way out.
        before: the flow's position before.
        after: the flow's position afterwards.
        result: the result of the update; None if the way out needs no update.
    """

    finding: Finding
    way: WayOut
    before: Position
    after: Position
    result: UpdateResult | None
