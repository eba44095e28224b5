"""The status of gateways and the findings of a preflight, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework.foundation.wording import seconds_text
from framework.ingest.gateway_status import NEW_SLOT, GatewayStatus, IngestedState, TableStatus
from framework.ingest.preflight_result import Preflight
from framework.sources.databases.findings import PreflightFinding, Severity
from framework.views.table import Cell, Column, Table, Tone

_STATUS = (
    Column(name="table", wraps=False),
    Column(name="target", wraps=False),
    Column(name="state", wraps=False),
    Column(name="chunks", right=True),
    Column(name="percent", right=True),
    Column(name="left", right=True),
    Column(name="lag", right=True),
    Column(name="behind", right=True),
    Column(name="error"),
)
_TONES = {
    IngestedState.FOLLOWING: Tone.GOOD,
    IngestedState.GAP: Tone.BAD,
    IngestedState.FAILED: Tone.BAD,
    IngestedState.PAUSED: Tone.WARNING,
    IngestedState.CANCELLED: Tone.WARNING,
}
_SEVERITIES = {Severity.ERROR: Tone.BAD, Severity.WARNING: Tone.WARNING, Severity.INFORMATION: Tone.QUIET}


def status_table(gateway: GatewayStatus) -> Table:
    """Return one row for each table of a gateway."""
    return Table.of(_STATUS, [_status_row(each) for each in gateway.tables])


def status_head(gateway: GatewayStatus) -> str:
    """Return one line about a gateway: its position, the log that the database retains for it, and until when.

    Each thing that the gateway waits for has its own line.
    """
    found, noun = gateway.log_status, gateway.position_noun
    parts = [f"{gateway.name}: {noun} {gateway.position_name}" if noun else gateway.name]
    if gateway.gap is not None:
        parts.append(f"GAP ({gateway.gap}): {_way_out(gateway)}")
    if gateway.error is not None:
        parts.append(f"the source gave no answer ({gateway.error})")
    elif found is None:
        parts += [f"no such {noun} at the source"] if noun else []
    else:
        retained = (
            "its log is lost" if found.retained_bytes is None else f"retains {_size(found.retained_bytes)} of log"
        )
        parts += [retained, "read now" if found.is_active else "not read now"]
    if gateway.position is not None:
        parts.append(f"staged up to {gateway.position}")
    if gateway.lost_at is not None and gateway.gap is None:
        parts.append(loss_text(gateway))
    head = ", ".join([*parts, *(["paused"] if gateway.is_paused else [])])
    return "\n".join([head, *(f"  {each}" for each in gateway.waits)])


def loss_text(gateway: GatewayStatus) -> str:
    """Return when the database begins to lose changes that are not read, and by which of its settings."""
    reach, at = gateway.reach, gateway.lost_at
    assert reach is not None, "the time is computed from it"
    assert at is not None, "callers check it"
    left = [each.snapshot.remaining_seconds or 0.0 for each in gateway.tables]
    is_short = max(left, default=0.0) > (reach.lost_in_seconds or 0.0)
    text = f"unread changes are lost from {at:%Y-%m-%d %H:%M} UTC on ({reach.setting})"
    return f"{text}, before the snapshot ends" if is_short else text


def status_lines(gateway: GatewayStatus) -> list[str]:
    """Return one line for each wait and each table, for output that can't be redrawn."""
    tables = [
        " ".join(filter(None, (table.source, table.state.value, _percent(table), table.error or "", _lacking(table))))
        for table in gateway.tables
    ]
    return [*gateway.waits, *tables]


def status_json(gateways: Sequence[GatewayStatus]) -> list[dict[str, Any]]:
    """Return the gateways as JSON values."""
    return [
        {
            "gateway": each.name,
            "paused": each.is_paused,
            "position_name": each.position_name,
            "is_read": None if each.log_status is None else each.log_status.is_active,
            "retained_bytes": None if each.log_status is None else each.log_status.retained_bytes,
            "kept_seconds": None if each.reach is None else each.reach.kept_seconds,
            "room_bytes": None if each.reach is None else each.reach.room_bytes,
            "kept_by": None if each.reach is None else each.reach.setting or None,
            "lost_at": None if each.lost_at is None else each.lost_at.isoformat(),
            "position": None if each.position is None else str(each.position),
            "gap": each.gap,
            "new_position_refused": each.refused,
            "error": each.error,
            "waits_for": [*each.waits],
            "tables": [_table_json(table) for table in each.tables],
        }
        for each in gateways
    ]


def preflight_table(findings: Sequence[PreflightFinding]) -> Table:
    """Return one row for each finding."""
    return Table.of(
        (
            Column(name="severity", wraps=False),
            Column(name="table", wraps=False),
            Column(name="finding"),
            Column(name="mended by"),
        ),
        [
            (
                Cell(text=each.severity.value, tone=_SEVERITIES[each.severity]),
                "" if each.table is None else str(each.table),
                each.what,
                each.statement or each.remedy,
            )
            for each in findings
        ],
    )


def preflight_json(results: Sequence[Preflight]) -> list[dict[str, Any]]:
    """Return the results as JSON values."""
    return [
        {
            "gateway": each.gateway,
            "failed": each.has_failed,
            "tables": [str(name) for name in each.tables],
            "findings": [
                {
                    "condition": finding.condition,
                    "severity": finding.severity.value,
                    "table": None if finding.table is None else str(finding.table),
                    "what": finding.what,
                    "remedy": finding.remedy,
                    "statement": finding.statement or None,
                }
                for finding in each.findings
            ],
        }
        for each in results
    ]


def _status_row(table: TableStatus) -> tuple[Cell | str, ...]:
    snapshot = table.snapshot
    left = None if snapshot.completed else snapshot.remaining_seconds
    return (
        table.source,
        str(table.target),
        Cell(text=table.state.value, tone=_TONES.get(table.state)),
        str(snapshot.chunks),
        _percent(table),
        "" if left is None else seconds_text(left),
        "" if table.lag_bytes is None else _size(table.lag_bytes),
        "" if table.lag_seconds is None else seconds_text(table.lag_seconds),
        "; ".join(filter(None, (" → ".join(filter(None, (table.error, table.way_out))), _lacking(table)))),
    )


def _lacking(table: TableStatus) -> str:
    return f"without the rows of {', '.join(table.children)}, which inherit from it" if table.children else ""


def _way_out(gateway: GatewayStatus) -> str:
    if gateway.refused is not None:
        return f"the new position that is asked for was not made ({gateway.refused}), see the error of the last update"
    if gateway.way_out == NEW_SLOT:
        return f"`{NEW_SLOT}` reads all tables again"
    ended = "see the error of its last update" if gateway.way_out is None else f"`{gateway.way_out}` ends it"
    return ended if gateway.is_lost else f"nothing is lost, {ended}"


def _percent(table: TableStatus) -> str:
    percent = 100.0 if table.snapshot.completed else table.snapshot.percent
    return "" if percent is None else f"{percent:.0f} %"


def _table_json(table: TableStatus) -> dict[str, Any]:
    snapshot = table.snapshot
    return {
        "table": table.source,
        "target": str(table.target),
        "state": table.state.value,
        "generation": table.generation,
        "chunks": snapshot.chunks,
        "percent": 100.0 if snapshot.completed else snapshot.percent,
        "remaining_seconds": 0.0 if snapshot.completed else snapshot.remaining_seconds,
        "lag_bytes": table.lag_bytes,
        "lag_seconds": table.lag_seconds,
        "error": table.error,
        "way_out": table.way_out,
        "not_copied_children": list(table.children),
    }


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
