"""A rewind as tables, as sentences and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from framework.foundation.names import QualifiedName, ShortNames
from framework.recovery.rewind.plan import Abandonment, FlowRewind, RewindPlan, TableRewind
from framework.recovery.rewind.point_in_time import time_text
from framework.views.table import Column, Table

_TABLES = (
    Column(name="table", wraps=False),
    Column(name="version", wraps=False),
    Column(name="committed", wraps=False),
    Column(name="rows", wraps=False),
)
_FLOWS = (Column(name="flow", wraps=False), Column(name="continues", wraps=False), Column(name="reads"))


def rewind_title(pipeline: str, plan: RewindPlan) -> str:
    """Return the heading of a rewind, in one line."""
    return f"Rewind of {pipeline} to {plan.moment.text}"


def tables_table(plan: RewindPlan) -> Table:
    """Return one row for each table with changed rows."""
    short = _short(plan)
    return Table.of(_TABLES, [_table_row(each, short) for each in plan.tables])


def flows_table(plan: RewindPlan) -> Table:
    """Return one row for each flow that continues from an earlier position."""
    short = _short(plan)
    rows = [(_flow_name(each, short), _continues(each), "; ".join(each.reads)) for each in plan.flows]
    return Table.of(_FLOWS, rows)


def notes(plan: RewindPlan) -> list[str]:
    """Return the other effects of a rewind, in sentences."""
    short = _short(plan)
    found = []
    if plan.computed:
        found.append(f"The next update computes {', '.join(map(short, plan.computed))} anew.")
    if plan.replays:
        found.append("Quarantined rows that were replayed since are open again.")
    if plan.resets:
        found.append(f"The resets that wait are given up: {', '.join(map(short, plan.resets))}.")
    return found


def rewind_json(pipeline: str, plan: RewindPlan, *, done: bool) -> dict[str, Any]:
    """Return a rewind as a JSON value."""
    return {
        "pipeline": pipeline,
        "to": plan.moment.request,
        "time": time_text(plan.moment.time_ms),
        "done": done,
        "tables": [_table_json(each) for each in plan.tables],
        "flows": [_flow_json(each) for each in plan.flows],
        "computed": [str(name) for name in plan.computed],
        "replays": list(plan.replays),
        "resets": [str(name) for name in plan.resets],
    }


def abandonment_text(pipeline: str, found: Abandonment) -> str:
    """Return the effect of giving up an interrupted rewind, as text."""
    rest, problems = found.rest, [(each.dataset, each.problem) for each in found.obstacles]
    names = [*found.rewound, *(rest.refreshed if rest is not None else ()), *(name for name, _ in problems)]
    short = ShortNames.of(names)
    lines = [f"The rewind of {pipeline} to {found.rewind.to}, begun at {found.rewind.begun_at}, is given up.", ""]
    lines += [f"{short(name)}: {problem}." for name, problem in problems]
    if rest is None:
        lines.append("No table was restored yet: all tables and checkpoints stay as they are.")
        return "\n".join(lines)
    if found.rewound:
        lines.append(
            f"Others were restored already. These go back, as it was decided: {_listed(found.rewound, short)}."
        )
    if rest.refreshed:
        lines.append(
            "The next update fully refreshes these, from what their sources still have: "
            f"{_listed(rest.refreshed, short)}."
        )
    return "\n".join(lines)


def abandonment_json(pipeline: str, found: Abandonment | None, *, done: bool) -> dict[str, Any]:
    """Return the effect of giving up an interrupted rewind, as a JSON value."""
    rest = None if found is None else found.rest
    return {
        "pipeline": pipeline,
        "to": None if found is None else found.rewind.to,
        "done": done,
        "problems": []
        if found is None
        else [{"table": str(each.dataset), "problem": each.problem} for each in found.obstacles],
        "rewound": [] if found is None else [str(name) for name in found.rewound],
        "full_refresh": [] if rest is None else [str(name) for name in rest.refreshed],
    }


def _listed(names: tuple[QualifiedName, ...], short: ShortNames) -> str:
    return ", ".join(map(short, names))


def _table_json(found: TableRewind) -> dict[str, Any]:
    return {
        "table": str(found.table.dataset),
        "version_before": found.table.before,
        "version_after": found.table.version,
        "committed": time_text(found.time_ms),
        "rows_before": found.rows.before if found.rows is not None else None,
        "rows_after": found.rows.after if found.rows is not None else None,
    }


def _flow_json(found: FlowRewind) -> dict[str, Any]:
    names = {"dataset": str(found.flow.dataset), "flow": str(found.flow.flow)}
    return {**asdict(found.flow), **names, "reads": list(found.reads)}


def _table_row(found: TableRewind, short: ShortNames) -> tuple[str, ...]:
    rows = found.rows
    counts = "" if rows is None else f"{_count(rows.before)} -> {_count(rows.after)}"
    versions = f"{found.table.before} -> {found.table.version}"
    return short(found.table.dataset), versions, time_text(found.time_ms), counts


def _count(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"


def _flow_name(found: FlowRewind, short: ShortNames) -> str:
    flow, dataset = short(found.flow.flow), short(found.flow.dataset)
    return flow if flow == dataset else f"{flow} into {dataset}"


def _continues(found: FlowRewind) -> str:
    flow = found.flow
    place = "anew" if flow.batch is None else f"after batch {flow.batch} of generation {flow.origin}"
    place = "completed" if flow.completed else place
    return f"{place}, as generation {flow.generation}"


def _short(plan: RewindPlan) -> ShortNames:
    names: list[QualifiedName] = [each.table.dataset for each in plan.tables]
    names += [name for each in plan.flows for name in (each.flow.dataset, each.flow.flow)]
    return ShortNames.of([*names, *plan.computed])
