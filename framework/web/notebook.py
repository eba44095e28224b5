"""How a pipeline, a plan and a result show in a notebook.

Importing this module registers the drawings, so the facade imports it.
"""

from __future__ import annotations

from html import escape

from framework.foundation.display import html_of
from framework.graph.graph import DataflowGraph
from framework.plan.explainer import explain, plan_summary, plan_title
from framework.plan.steps import Plan
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
