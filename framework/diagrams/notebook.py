"""Display of graphs, plans, results and flow boards: as HTML in a notebook, as text at a prompt.

Importing this module registers the renderers with `foundation.display`, so the facade imports it.
"""

from __future__ import annotations

from datetime import datetime

from framework.diagrams.escaping import escape
from framework.diagrams.page import fragment, html_table
from framework.diagrams.picture import Picture, board_picture, outcome_picture, picture_of
from framework.diagrams.svg import svg
from framework.diagrams.text import table_text
from framework.foundation.display import html_of, text_of
from framework.foundation.wording import seconds_text
from framework.graph.graph import DataflowGraph
from framework.plan.explainer import plan_summary, plan_text, plan_title, step_lines
from framework.plan.steps import Plan
from framework.run.update.results import UpdateResult
from framework.views.explanation import Explanation
from framework.views.flow_board import FlowBoard
from framework.views.graph import MAIN_COLUMNS, datasets_table, graph_summary
from framework.views.plan import plan_table
from framework.views.summary import UPDATE_TONES, result_errors, result_table
from framework.views.table import Table


@html_of.register
def graph_html(graph: DataflowGraph) -> str:
    """Return a graph as HTML: its name, its counts and its picture."""
    head = f'<b>{escape(graph.pipeline)}</b> <span class="quiet">{escape(graph_summary(graph))}</span>'
    return fragment(head, _drawn(picture_of(graph)))


@text_of.register
def graph_text(graph: DataflowGraph) -> str:
    """Return a graph as text: its name, its counts and a line per dataset."""
    head = f"{graph.pipeline}: {graph_summary(graph)}"
    return head + _text_below(datasets_table(graph).select(MAIN_COLUMNS))


@html_of.register
def plan_html(plan: Plan) -> str:
    """Return a plan as HTML: a row per step with its reason."""
    summary = f'<span class="quiet">{escape(plan_summary(plan))}</span>'
    return fragment(f"<b>{escape(plan_title(plan))}</b>", _html_below(plan_table(plan)), summary)


text_of.register(Plan, plan_text)


@html_of.register
def result_html(result: UpdateResult) -> str:
    """Return a result as HTML: the update's state, the picture with each dataset's state, its flows and errors."""
    tone = UPDATE_TONES.get(result.state, "")
    return fragment(
        f'<b class="{tone}">{result.state.value}</b> in {seconds_text(result.duration_seconds)}',
        f' <span class="quiet">update {escape(result.update_id)}</span>',
        _drawn(outcome_picture(result.graph, result.flows)) if result.graph is not None else "",
        _html_below(result_table(result)),
        *(f'<div class="error">{escape(error.render())}</div>' for _, error in result_errors(result)),
    )


@text_of.register
def result_text(result: UpdateResult) -> str:
    """Return a result as text: the state of the update, a line per flow, and the errors."""
    head = f"{result.state.value} in {seconds_text(result.duration_seconds)} (update {result.update_id})"
    return "\n\n".join(
        [head + _text_below(result_table(result)), *(error.render() for _, error in result_errors(result))]
    )


def board_html(board: FlowBoard, now: datetime, graph: DataflowGraph | None = None) -> str:
    """Return a flow board as HTML: the state of the running update, the graph with states if known, a row per flow."""
    update = f' <span class="quiet">update {escape(board.update_id)}</span>' if board.update_id else ""
    head = f"<b>{escape(board.state)}</b>{update}"
    drawn = "" if graph is None else _drawn(board_picture(graph, board.flows))
    return fragment(head, drawn, _html_below(board.table(now)))


def board_text(board: FlowBoard, now: datetime) -> str:
    """Return a flow board as text: the state of the running update and a line per flow."""
    update = f" (update {board.update_id})" if board.update_id else ""
    return board.state + update + _text_below(board.table(now))


@html_of.register
def explanation_html(explanation: Explanation) -> str:
    """Return the explanation of a dataset as HTML: what it reads, its steps in the next update, and foretold errors."""
    plan = explanation.plan
    return fragment(
        f'<b>{escape(explanation.title)}</b> <span class="quiet">{escape(explanation.reads)}</span>',
        _html_below(plan_table(plan)),
        *(f'<div class="error">{escape(error.render())}</div>' for error in explanation.breaks),
    )


@text_of.register
def explanation_text(explanation: Explanation) -> str:
    """Return the explanation of a dataset as text."""
    head = " ".join(filter(None, (explanation.title, explanation.reads)))
    steps = [line for _, line in step_lines(explanation.plan)]
    return "\n\n".join(["\n".join([head, *steps]), *(error.render() for error in explanation.breaks)])


def _drawn(picture: Picture) -> str:
    return f'<div class="picture">{svg(picture)}</div>'


def _html_below(table: Table) -> str:
    return html_table(table) if table.rows else ""


def _text_below(table: Table) -> str:
    """Return a table as text after an empty line; empty without rows."""
    return f"\n\n{table_text(table)}" if table.rows else ""
