"""The quarantine as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from framework.recovery.quarantine.results import QuarantinedRows, Replay
from framework.recovery.quarantine.waiting import WaitingRows
from framework.run.quarantine.row_state import RowState
from framework.views.rows import value_cell
from framework.views.table import Cell, Column, Table, Tone

_GROUPS = (
    Column(name="flow", wraps=False),
    Column(name="reasons"),
    Column(name="state"),
    Column(name="rows", right=True),
    Column(name="first", wraps=False),
    Column(name="last", wraps=False),
)
_TONES = {RowState.OPEN: Tone.WARNING, RowState.UNCOMMITTED: Tone.WARNING, RowState.REPLAYED: Tone.GOOD}
_OF_ROW = ("id", "state", "reasons", "quarantined_at", "generation", "batch", "file", "row")


def groups_table(groups: Sequence[QuarantinedRows]) -> Table:
    """Return one row for each combination of flow, reasons and state."""
    return Table.of(
        _GROUPS,
        [
            (
                Cell(text=each.flow),
                Cell(text=_joined(each.reasons)),
                Cell(text=each.state.value, tone=_TONES.get(each.state)),
                Cell(text=f"{each.rows:,}"),
                Cell(text=_time(each.first)),
                Cell(text=_time(each.last)),
            )
            for each in groups
        ],
    )


def groups_json(groups: Sequence[QuarantinedRows]) -> list[dict[str, Any]]:
    """Return the groups as JSON values."""
    return [asdict(each) | {"reasons": list(each.reasons), "state": each.state.value} for each in groups]


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return quarantined rows, without columns that have the same value in all rows."""
    cells = [[value_cell(_shown(name, row[name])) for name in _OF_ROW] for row in rows]
    return Table.of([Column(name=name, wraps=False) for name in _OF_ROW], cells)


def rows_json(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return quarantined rows as JSON values; the row itself and its position are objects."""
    return [{**row, "position": _parsed(row["position"]), "row": _parsed(row["row"])} for row in rows]


def replay_text(replay: Replay) -> str:
    """Return the result of a replay in lines."""
    written = "would be written" if replay.dry_run else "written"
    lines = [f"{replay.flow}: {_rows(replay.passed)} {written} to {replay.dataset}."]
    for reasons, count in replay.failed_by_reasons:
        verb = "fails" if count == 1 else "fail"
        lines.append(f"{_rows(count)} {verb} again: {_joined(reasons)}.")
    return "\n".join(lines)


def replay_json(replay: Replay) -> dict[str, Any]:
    """Return the result of a replay as a JSON value."""
    failed = [{"reasons": list(reasons), "rows": count} for reasons, count in replay.failed_by_reasons]
    return {
        "flow": replay.flow,
        "dataset": replay.dataset,
        "dry_run": replay.dry_run,
        "passed": replay.passed,
        "failed": failed,
    }


def waiting_json(waiting: WaitingRows) -> dict[str, Any]:
    """Return the rows of a flow that wait in the quarantine as a JSON value."""
    return {"flow": waiting.flow, "rows": waiting.rows, "since": waiting.since.isoformat()}


def _shown(name: str, value: Any) -> Any:
    if name == "reasons":
        return _joined(value)
    return _time(value) if isinstance(value, datetime) else value


def _joined(reasons: Sequence[str]) -> str:
    return ", ".join(reasons)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _time(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")


def _parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)
