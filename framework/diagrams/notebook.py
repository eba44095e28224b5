"""Display of graphs, plans and results: as HTML in a notebook, as text at a prompt.

Importing this module registers both renderers with `foundation.display`, so the facade imports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import click

from framework.diagrams.outcomes import OUTCOMES, outcome_picture
from framework.diagrams.page import COLUMNS, Cell, dataset_rows, fragment, graph_summary, html_table
from framework.diagrams.picture import Outcome, Picture, picture_of
from framework.diagrams.svg import svg
from framework.diagrams.text_table import text_table
from framework.foundation.display import html_of, text_of
from framework.foundation.names import ShortNames
from framework.foundation.wording import quality_text, rows_text, seconds_text
from framework.graph.graph import DataflowGraph
from framework.plan.explainer import explain, plan_summary, plan_text, plan_title
from framework.plan.steps import Plan
from framework.run.update.results import FlowResult, FlowState, UpdateResult, UpdateState

_LOOKS = {Outcome.GOOD: "good", Outcome.BAD: "bad", Outcome.UNCHANGED: "quiet"}
_FLOW_COLUMNS = ("flow", "state", "rows", "time", "expectations", "why")
_GRAPH_COLUMNS = ("dataset", "kind", "flows", "reads", "columns")


@html_of.register
def graph_html(graph: DataflowGraph) -> str:
    """A graph: its name, its counts and its picture."""
    head = f'<b>{escape(graph.pipeline)}</b> <span class="quiet">{escape(graph_summary(graph))}</span>'
    return fragment(head, _drawn(picture_of(graph)))


@text_of.register
def graph_text(graph: DataflowGraph) -> str:
    """A graph: its name, its counts and a line per dataset."""
    wanted = [COLUMNS.index(column) for column in _GRAPH_COLUMNS]
    rows = [[row[index] for index in wanted] for row in dataset_rows(graph)]
    return f"{graph.pipeline}: {graph_summary(graph)}" + _text_below(_GRAPH_COLUMNS, rows)


@html_of.register
def plan_html(plan: Plan) -> str:
    """A plan: a row per step with its reason."""
    rows = []
    for step in explain(plan):
        look = "quiet" if step.skipped else ""
        rows.append(tuple(Cell(text=text, look=look) for text in (step.action, step.what, step.reason)))
    table = html_table(("step", "of", "why"), rows) if rows else ""
    return fragment(
        f"<b>{escape(plan_title(plan))}</b>", table, f'<span class="quiet">{escape(plan_summary(plan))}</span>'
    )


text_of.register(Plan, plan_text)


@html_of.register
def result_html(result: UpdateResult) -> str:
    """A result: the state of the update, the picture with each dataset's state, a row per flow, and the errors."""
    look = "good" if result.state is UpdateState.COMPLETED else "bad"
    head = f'<b class="{look}">{result.state.value}</b> in {seconds_text(result.duration_seconds)}'
    picture = _drawn(outcome_picture(result.graph, result.flows)) if result.graph is not None else ""
    columns, rows = _flow_table(result)
    return fragment(
        head,
        f' <span class="quiet">update {escape(result.update_id)}</span>',
        picture,
        html_table(columns, rows) if rows else "",
        *(f'<div class="error">{escape(error)}</div>' for error in _errors(result)),
    )


@text_of.register
def result_text(result: UpdateResult) -> str:
    """A result: the state of the update, a line per flow, and the errors."""
    head = f"{result.state.value} in {seconds_text(result.duration_seconds)} (update {result.update_id})"
    return "\n\n".join([head + _text_below(*_flow_table(result)), *_errors(result)])


def _drawn(picture: Picture) -> str:
    return f'<div class="picture">{svg(picture)}</div>'


def _text_below(columns: Sequence[str], rows: Sequence[Sequence[Cell | str]]) -> str:
    """The rows as aligned text without colours, after an empty line; empty without rows."""
    if not rows:
        return ""
    texts = [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in rows]
    return "\n\n" + click.unstyle(text_table(columns, texts, right=("rows", "time", "columns")))


def _errors(result: UpdateResult) -> Iterator[str]:
    return (flow.error.render() for flow in result.flows if flow.error is not None)


def _flow_table(result: UpdateResult) -> tuple[Sequence[str], Sequence[Sequence[Cell | str]]]:
    """The columns that are not empty, and a row per flow."""
    short = ShortNames.of(name for flow in result.flows for name in (flow.flow, flow.dataset))
    rows = [_flow_row(flow, short) for flow in result.flows]
    kept = [index for index, _ in enumerate(_FLOW_COLUMNS) if any(row[index].text for row in rows)]
    return [_FLOW_COLUMNS[index] for index in kept], [[row[index] for index in kept] for row in rows]


def _flow_row(flow: FlowResult, short: ShortNames) -> tuple[Cell, ...]:
    failed = sum(count.failed for count in flow.expectations)
    into = "" if flow.flow == flow.dataset else f" into {short(flow.dataset)}"
    told = flow.state is FlowState.COMPLETED or flow.error is not None  # errors are below the table
    return (
        Cell(text=f"{short(flow.flow)}{into}", look="name"),
        Cell(text=flow.state.value, look=_LOOKS[OUTCOMES[flow.state]] if flow.state in OUTCOMES else "quiet"),
        Cell(text=rows_text(flow.rows_written, flow.rows_upserted, flow.rows_deleted), look="number"),
        Cell(text=seconds_text(flow.seconds) if flow.seconds else "", look="number"),
        Cell(text=quality_text(failed, flow.rows_dropped)),
        Cell(text="" if told else flow.reason, look="quiet"),
    )
