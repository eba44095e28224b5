"""The steps of a plan as a table; `framework.plan.explainer` has their texts and their JSON."""

from __future__ import annotations

from framework.plan.explainer import explain
from framework.plan.steps import Plan
from framework.views.table import Cell, Table, Tone


def plan_table(plan: Plan) -> Table:
    """Return one row for each step: the step, its object and the reason; skipped steps are quiet."""
    rows = [
        [Cell(text=text, tone=Tone.QUIET if step.skipped else None) for text in (step.action, step.what, step.reason)]
        for step in explain(plan)
    ]
    return Table.of(("step", "object", "reason"), rows)
