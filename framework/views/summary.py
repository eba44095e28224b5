"""The summary of an update: its flows, the counts of its expectations, its errors and the paths of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framework.foundation.errors import SluiceError
from framework.foundation.names import ShortNames
from framework.foundation.wording import counted, quality_text, rows_text, seconds_text
from framework.plan.steps import NOT_SELECTED
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState
from framework.views.flow_board import FLOW_COLUMNS, TONES, title_of
from framework.views.table import Cell, Column, Table, Tone

UPDATE_TONES = {UpdateState.COMPLETED: Tone.GOOD, UpdateState.FAILED: Tone.BAD, UpdateState.CANCELED: Tone.WARNING}
"""The tone of each final state of an update."""

_MOST_TITLES = 5
"""The largest number of flows in the title of one error."""

_QUALITY_COLUMNS = (
    Column(name="dataset", wraps=False),
    Column(name="expectation"),
    Column(name="action"),
    Column(name="passed", right=True),
    Column(name="failed", right=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPaths:
    """The paths or URIs of an update's output."""

    graph: str
    tables: str
    events: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSummary:
    """The result of an update as tables, sentences and JSON values."""

    pipeline: str
    result: UpdateResult
    paths: OutputPaths

    def flows_table(self) -> Table:
        """Return one row for each flow that had work; expectation counts have their own table."""
        flows = [flow for flow in self.result.flows if _has_news(flow)]
        table = flows_table(flows, _short_names(self.result))
        columns = {"flow", "state", "rows", "time"}
        with_reasons = any(flow.state is not FlowState.COMPLETED for flow in flows)
        return table.select(columns | {"reason"} if with_reasons else columns)

    def quality_table(self) -> Table:
        """Return one row for each expectation of each flow that had work."""
        short = _short_names(self.result)
        rows = [
            (
                short(count.dataset),
                count.name,
                count.action.value,
                f"{count.passed:,}",
                Cell(text=f"{count.failed:,}", tone=Tone.WARNING if count.failed else None),
            )
            for flow in self.result.flows
            if _has_news(flow)
            for count in flow.expectations
        ]
        return Table.of(_QUALITY_COLUMNS, rows)

    def idle_notes(self) -> tuple[str, ...]:
        """Return one sentence about all idle flows, and one about all flows outside the selection."""
        states = [flow.state for flow in self.result.flows]
        idle = states.count(FlowState.IDLE)
        excluded = sum(flow.state is FlowState.EXCLUDED and not _has_news(flow) for flow in self.result.flows)
        notes = []
        if idle and self.result.is_idle:
            notes.append(f"Nothing to do: {counted(idle, 'flow')} up to date")
        elif idle:
            notes.append(f"{counted(idle, 'flow')} had nothing to do")
        if excluded:
            notes.append(f"{counted(excluded, 'flow')} not in the selection")
        return tuple(notes)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values, with full names."""
        return {
            "pipeline": self.pipeline,
            "update_id": self.result.update_id,
            "state": self.result.state.value,
            "duration_seconds": round(self.result.duration_seconds, 3),
            "flows": [_flow_json(flow) for flow in self.result.flows],
            "graph": self.paths.graph,
            "refused": [{"condition": each.condition, "message": each.render()} for each in self.result.refused],
            "tables": self.paths.tables,
            "events": self.paths.events,
        }


def _has_news(flow: FlowResult) -> bool:
    """Whether a flow had work, or was left out although it is selected."""
    return flow.state is not FlowState.IDLE and (flow.state is not FlowState.EXCLUDED or flow.reason != NOT_SELECTED)


def result_table(result: UpdateResult) -> Table:
    """Return one row for each flow of an update, without empty columns."""
    return flows_table(result.flows, _short_names(result)).without_empty_columns()


def result_errors(result: UpdateResult) -> tuple[tuple[str, SluiceError], ...]:
    """Return each error with the titles of the flows that it failed; all flows of a table may share one error."""
    short = _short_names(result)
    found: dict[str, tuple[list[str], SluiceError]] = {}
    for flow in result.flows:
        if flow.error is not None:
            found.setdefault(flow.error.render(), ([], flow.error))[0].append(flow_title(flow, short))
    return tuple((_listed(titles), error) for titles, error in found.values())


def _listed(titles: Sequence[str]) -> str:
    more = f" and {counted(len(titles) - _MOST_TITLES, 'other flow')}" if len(titles) > _MOST_TITLES else ""
    return f"{'Flow' if len(titles) == 1 else 'Flows'} {', '.join(titles[:_MOST_TITLES])}{more}"


def flows_table(flows: Sequence[FlowResult], short: ShortNames) -> Table:
    """Return one row for each flow: state, rows, time, violated expectations, and the reason if it did not complete."""
    return Table.of(
        FLOW_COLUMNS,
        [
            (
                flow_title(flow, short),
                Cell(text=flow.state.value, tone=TONES.get(flow.state.value)),
                rows_text(flow.rows_written, flow.rows_upserted, flow.rows_deleted),
                seconds_text(flow.seconds) if flow.seconds else "",
                quality_text(sum(count.failed for count in flow.expectations), flow.rows_dropped),
                Cell(text="" if flow.state is FlowState.COMPLETED else flow.reason, tone=Tone.QUIET),
            )
            for flow in flows
        ],
    )


def flow_title(flow: FlowResult, short: ShortNames) -> str:
    """Return a flow's short name, followed by its target if the names differ."""
    return title_of(short(flow.flow), short(flow.dataset))


def _short_names(result: UpdateResult) -> ShortNames:
    return ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))


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
