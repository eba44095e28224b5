"""Findings of `sluice doctor` and repairs, as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from framework.foundation.wording import counted
from framework.recovery.doctor.amounts import Cost
from framework.recovery.doctor.finding import Examination, Finding, Position, Repair
from framework.recovery.doctor.way_out import WayOut
from framework.views.quarantine import waiting_json
from framework.views.table import Cell, Column, Table, Tone

_COLUMNS = (Column(name="", wraps=False), Column(name=""))
_BY_HAND = "by hand"


def healthy_text(pipeline: str, examination: Examination) -> str:
    """Return the line for a pipeline, or for some of its flows, without findings."""
    return f"{pipeline}: {counted(examination.flows, 'flow')} examined, nothing found."


def finding_title(finding: Finding) -> str:
    """Return the heading of a finding: the flow, and the name of its diagnosis."""
    return f"{finding.flow or 'the update'}  {finding.diagnosis.name}"


def finding_table(finding: Finding) -> Table:
    """Return a finding as labels and texts: the fault, its meaning, the evidence, and the numbered ways out."""
    rows: list[tuple[Cell, Cell]] = []

    def add(label: str, lines: Iterator[str], tone: Tone | None = None) -> None:
        for number, line in enumerate(lines):
            rows.append((Cell(text="" if number else label, tone=Tone.QUIET), Cell(text=line, tone=tone)))

    add("seen", _seen(finding))
    add("means", iter((finding.diagnosis.meaning,)))
    add("evidence", iter(finding.evidence), Tone.QUIET)
    for number, way in enumerate(finding.ways, 1):
        add(f"{number}.", _way(way))
    return Table.of(_COLUMNS, rows)


def _seen(finding: Finding) -> Iterator[str]:
    state = f" (SQLSTATE {finding.sqlstate})" if finding.sqlstate else ""
    yield f"[{finding.condition}]{state} {finding.cause}" if finding.condition else finding.cause
    if finding.location:
        yield f"at {finding.location}"
    if finding.since:
        yield f"since {time_text(finding.since)}, in {counted(finding.updates, 'update')}"
    elif finding.condition:
        yield "no update has failed with it yet"


def _way(way: WayOut) -> Iterator[str]:
    yield way.text
    yield way.command or _BY_HAND
    if way.action is not None:
        yield cost_text(way.cost)


def cost_text(cost: Cost) -> str:
    """Return a cost as one line.

    Examples:
        >>> from framework.recovery.doctor.amounts import Amount
        >>> cost_text(Cost(repeated=Amount(rows=3)))
        'lost: none; repeated: 3 rows; read again: none'
    """
    return f"lost: {cost.lost}; repeated: {cost.repeated}; read again: {cost.reread}"


def time_text(timestamp: str) -> str:
    """Return a timestamp of the event log to the second.

    Examples:
        >>> time_text("2026-01-31T09:30:00.123Z")
        '2026-01-31 09:30:00'
    """
    return timestamp.replace("T", " ").partition(".")[0]


def position_text(position: Position) -> str:
    """Return the position of a flow as text.

    Examples:
        >>> position_text(Position(generation=2, starts=("startingVersion=4",))), position_text(Position())
        ('generation 2 at startingVersion=4', 'no checkpoint')
    """
    if position.generation is None:
        return "no checkpoint"
    at = f" at {', '.join(position.starts)}" if position.starts else ""
    return f"generation {position.generation}{at}"


def change_text(before: Position, after: Position) -> str:
    """Return the line with the position of a flow before and after a repair."""
    return f"{position_text(before)} -> {position_text(after)}"


def examination_json(pipeline: str, examination: Examination) -> dict[str, Any]:
    """Return an examination as JSON values, with full names; null marks an unknown number."""
    return {
        "pipeline": pipeline,
        "flows": examination.flows,
        "findings": [finding_json(finding) for finding in examination.findings],
        "quarantined": [waiting_json(waiting) for waiting in examination.quarantined],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values."""
    return {
        "flow": None if finding.flow is None else str(finding.flow),
        "dataset": None if finding.dataset is None else str(finding.dataset),
        "diagnosis": finding.diagnosis.name,
        "meaning": finding.diagnosis.meaning,
        "condition": finding.condition or None,
        "sqlstate": finding.sqlstate or None,
        "cause": finding.cause,
        "location": finding.location or None,
        "since": finding.since or None,
        "updates": finding.updates,
        "evidence": list(finding.evidence),
        "position": asdict(finding.position),
        "ways": [
            {"number": number, "way": way.way.name, "text": way.text, "command": way.command, "cost": asdict(way.cost)}
            for number, way in enumerate(finding.ways, 1)
        ],
    }


def treatment_json(treatment: Repair) -> dict[str, Any]:
    """Return a repair as JSON values."""
    result = treatment.result
    return {
        "flow": str(treatment.finding.flow),
        "diagnosis": treatment.finding.diagnosis.name,
        "command": treatment.way.command,
        "before": asdict(treatment.before),
        "after": asdict(treatment.after),
        "update_id": None if result is None else result.update_id,
        "state": None if result is None else result.state.value,
    }
