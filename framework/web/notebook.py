"""How a pipeline, a plan and a result show in a notebook.

Importing this module registers the drawings, so the facade imports it.
"""

from __future__ import annotations

from html import escape

from framework.foundation.display import html_of
from framework.foundation.short_names import ShortNames
from framework.foundation.wording import quality_text, rows_text, seconds_text
from framework.graph.graph import DataflowGraph
from framework.plan.explainer import explain, plan_summary, plan_title
from framework.plan.steps import Plan
from framework.run.results import FlowResult, FlowState, UpdateResult, UpdateState
from framework.web.page import graph_summary
from framework.web.picture import picture_of
from framework.web.svg import svg
from framework.web.table import Cell, fragment, html_table


@html_of.register
def graph_html(graph: DataflowGraph) -> str:
    """A graph: its name, its counts and its picture."""
    head = f'<b>{escape(graph.pipeline)}</b> <span class="quiet">{escape(graph_summary(graph))}</span>'
    return fragment(head, f'<div class="picture">{svg(picture_of(graph))}</div>')


@html_of.register
def plan_html(plan: Plan) -> str:
    """A plan: a row per step with its reason."""
    rows = []
    for step in explain(plan):
        look = "quiet" if step.skipped else ""
        rows.append(tuple(Cell(text=text, look=look) for text in (step.action, step.what, step.reason)))
    table = html_table(("step", "of", "because"), rows) if rows else ""
    return fragment(
        f"<b>{escape(plan_title(plan))}</b>", table, f'<span class="quiet">{escape(plan_summary(plan))}</span>'
    )


_LOOKS = {FlowState.COMPLETED: "good", FlowState.FAILED: "bad", FlowState.SKIPPED: "bad", FlowState.STOPPED: "bad"}


@html_of.register
def result_html(result: UpdateResult) -> str:
    """A result: how the update ended, and a row per flow."""
    look = "good" if result.state is UpdateState.COMPLETED else "bad"
    head = f'<b class="{look}">{result.state.value}</b> in {seconds_text(result.duration_seconds)}'
    short = ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))
    columns = ("flow", "into", "state", "rows", "time", "expectations", "because")
    table = html_table(columns, [_flow_row(flow, short) for flow in result.flows]) if result.flows else ""
    return fragment(head, f' <span class="quiet">update {escape(result.update_id)}</span>', table)


def _flow_row(flow: FlowResult, short: ShortNames) -> tuple[Cell | str, ...]:
    failed = sum(count.failed for count in flow.expectations)
    reason = flow.error.render() if flow.error is not None else flow.reason
    return (
        short(flow.flow),
        short(flow.dataset),
        Cell(text=flow.state.value, look=_LOOKS.get(flow.state, "quiet")),
        Cell(text=rows_text(flow.rows_written, flow.rows_upserted, flow.rows_deleted), look="number"),
        Cell(text=seconds_text(flow.seconds), look="number"),
        quality_text(failed, flow.rows_dropped),
        Cell(text=reason, look="quiet"),
    )
