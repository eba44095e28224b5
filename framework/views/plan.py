"""The steps of a plan as a table; their texts and JSON are in `framework.plan.explainer`."""

from __future__ import annotations

from framework.plan.explainer import explain
from framework.plan.steps import Plan
from framework.views.table import Cell, Table, Tone


def plan_table(plan: Plan) -> Table:
    """Return one row for each step: the step, its object and the reason; skipped steps have a quiet tone."""
    rows = [
        [Cell(text=text, tone=Tone.QUIET if step.skipped else None) for text in (step.action, step.what, step.reason)]
        for step in explain(plan)
    ]
    return Table.of(("step", "object", "reason"), rows)
