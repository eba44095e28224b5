"""The lag of flows, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from framework.foundation.names import ShortNames
from framework.foundation.wording import seconds_text
from framework.recovery.flow_lag import FlowHealth, FlowLag
from framework.views.quarantine import waiting_json
from framework.views.table import Cell, Column, Table, Tone

_COLUMNS = (
    Column(name="flow", wraps=False),
    Column(name="health", wraps=False),
    Column(name="unread rows", right=True),
    Column(name="unread bytes", right=True),
    Column(name="behind", right=True),
    Column(name="lost in", right=True),
    Column(name="last event", right=True),
    Column(name="reason"),
)
_TONES = {
    FlowHealth.IDLE: Tone.GOOD,
    FlowHealth.RUNNING: Tone.GOOD,
    FlowHealth.DONE: Tone.GOOD,
    FlowHealth.STUCK: Tone.BAD,
    FlowHealth.FAILED: Tone.BAD,
    FlowHealth.BEHIND: Tone.WARNING,
}


def lag_table(flows: Sequence[FlowLag]) -> Table:
    """Return one row for each flow; `?` marks an unknown number."""
    short = ShortNames.of(each.flow for each in flows)
    rows = [
        (
            Cell(text=short(each.flow)),
            Cell(text=each.health.value, tone=_TONES.get(each.health)),
            Cell(text=_number(each.lag.records)),
            Cell(text=_number(each.lag.bytes)),
            Cell(text="?" if each.lag.seconds is None else seconds_text(each.lag.seconds)),
            Cell(text="" if each.lost_in_seconds is None else seconds_text(each.lost_in_seconds)),
            Cell(text="" if each.silent_seconds is None else f"{seconds_text(each.silent_seconds)} ago"),
            Cell(text=each.reason),
        )
        for each in flows
    ]
    return Table.of(_COLUMNS, rows).without_empty_columns()


def lag_json(flows: Sequence[FlowLag]) -> list[dict[str, Any]]:
    """Return the flows as JSON values, with full names; null marks an unknown number."""
    return [
        {
            "flow": str(each.flow),
            "dataset": str(each.dataset),
            "health": each.health.value,
            **asdict(each.lag),
            "last_event": each.last_event,
            "silent_seconds": each.silent_seconds,
            "reason": each.reason,
            "lost_in_seconds": each.lost_in_seconds,
            "quarantined": None if each.quarantined is None else waiting_json(each.quarantined),
        }
        for each in flows
    ]


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"
