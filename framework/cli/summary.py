"""Summary of an update: its state, its flows, the counts of its expectations, the paths of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from framework.cli.output import Output
from framework.diagrams.text_table import Coloured, text_table
from framework.foundation.names import ShortNames
from framework.foundation.wording import counted, rows_text, seconds_text
from framework.run.flows.expectations import ExpectationCount
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState

_COLOURS = {
    FlowState.COMPLETED: "green",
    FlowState.FAILED: "red",
    FlowState.SKIPPED: "yellow",
    FlowState.STOPPED: "yellow",
}
_UPDATE_COLOURS = {UpdateState.COMPLETED: "green", UpdateState.FAILED: "red", UpdateState.CANCELED: "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Locations of an update's output: paths and URIs."""

    graph: str
    tables: str
    events: str


def print_summary(output: Output, pipeline: str, result: UpdateResult, places: Places) -> None:
    """Print a result as JSON, or as a short summary."""
    if output.as_json:
        output.json(result_json(pipeline, result, places))
        return
    state = click.style(result.state.value, fg=_UPDATE_COLOURS.get(result.state), bold=True)
    head = f"{click.style(pipeline, bold=True)}  {state} in {seconds_text(result.duration_seconds)}"
    output.text(f"{head}  {click.style(f'update {result.update_id}', dim=True)}")
    short = ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))
    acted = [flow for flow in result.flows if flow.state not in {FlowState.IDLE, FlowState.EXCLUDED}]
    if acted:
        output.text("\n" + _flows_table(acted, short))
    output.text("\n".join(["", *_idle_lines(result.flows), ""]) if len(acted) < len(result.flows) else "")
    quality = [count for flow in acted for count in flow.expectations]
    if quality:
        output.text(f"{click.style('Data quality', bold=True)}\n{_quality_table(quality, short)}\n")
    for label, place in (("graph", places.graph), ("tables", places.tables), ("events", places.events)):
        output.text(f"{click.style(f'{label:<8}', dim=True)}{near_path(place)}")


def near_path(place: str) -> str:
    """Return a path relative to the working directory if it is below it, else unchanged."""
    here = Path.cwd()
    path = Path(place)
    return str(path.relative_to(here)) if path.is_relative_to(here) else place


def result_json(pipeline: str, result: UpdateResult, places: Places) -> dict[str, Any]:
    """Return a result as JSON values, with full names."""
    return {
        "pipeline": pipeline,
        "update_id": result.update_id,
        "state": result.state.value,
        "duration_seconds": round(result.duration_seconds, 3),
        "flows": [_flow_json(flow) for flow in result.flows],
        "graph": places.graph,
        "tables": places.tables,
        "events": places.events,
    }


def flow_title(flow: FlowResult, short: ShortNames) -> str:
    """Return a flow's title as in plan and progress."""
    return short(flow.flow) if flow.flow == flow.dataset else f"{short(flow.flow)} into {short(flow.dataset)}"


def _flow_json(flow: FlowResult) -> dict[str, Any]:
    error = flow.error
    return {
        "flow": str(flow.flow),
        "dataset": str(flow.dataset),
        "state": flow.state.value,
        "reason": flow.reason,
        "rows_written": flow.rows_written,
        "rows_upserted": flow.rows_upserted,
        "rows_deleted": flow.rows_deleted,
        "rows_dropped": flow.rows_dropped,
        "seconds": round(flow.seconds, 3),
        "error": None if error is None else {"condition": error.condition, "message": error.render()},
        "expectations": [
            {
                "name": count.name,
                "dataset": str(count.dataset),
                "action": count.action.value,
                "passed": count.passed,
                "failed": count.failed,
            }
            for count in flow.expectations
        ],
    }


def _flows_table(flows: Sequence[FlowResult], short: ShortNames) -> str:
    rows = [
        (
            flow_title(flow, short),
            Coloured(text=flow.state.value, colour=_COLOURS.get(flow.state)),
            rows_text(flow.rows_written, flow.rows_upserted, flow.rows_deleted),
            seconds_text(flow.seconds) if flow.seconds else "",
            "" if flow.state is FlowState.COMPLETED else flow.reason,
        )
        for flow in flows
    ]
    # The column of reasons exists only if a flow did not complete.
    told = all(flow.state is FlowState.COMPLETED for flow in flows)
    columns = ("flow", "state", "rows", "time") if told else ("flow", "state", "rows", "time", "why")
    return text_table(columns, [row[: len(columns)] for row in rows], right=("rows", "time"))


def _quality_table(counts: Sequence[ExpectationCount], short: ShortNames) -> str:
    rows = [
        (
            short(count.dataset),
            count.name,
            count.action.value,
            f"{count.passed:,}",
            Coloured(text=f"{count.failed:,}", colour="yellow" if count.failed else None),
        )
        for count in counts
    ]
    return text_table(("dataset", "expectation", "action", "passed", "failed"), rows, right=("passed", "failed"))


def _idle_lines(flows: Sequence[FlowResult]) -> list[str]:
    """Return one line for all idle flows, and one for all flows outside of the selection."""
    idle = sum(flow.state is FlowState.IDLE for flow in flows)
    excluded = sum(flow.state is FlowState.EXCLUDED for flow in flows)
    nothing_else = idle + excluded == len(flows)
    lines = []
    if idle:
        words = (
            f"Nothing to do: {counted(idle, 'flow')} up to date"
            if nothing_else
            else f"{counted(idle, 'flow')} had nothing to do"
        )
        lines.append(words if nothing_else else click.style(words, dim=True))
    if excluded:
        lines.append(click.style(f"{counted(excluded, 'flow')} not in the selection", dim=True))
    return lines
