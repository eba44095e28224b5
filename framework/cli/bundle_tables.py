"""Output of plans and states of bundles as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from framework.cli.output import Output
from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.diff import FieldChange
from framework.deploy.plan.policy import ExitCode, Verdict
from framework.deploy.plan.reasons import table_text
from framework.deploy.state.state import DeployState

_COLUMNS = ("resource", "change", "verdict", "why")
_ACCEPTED_COLUMNS = ("field", "accepted", "bundle")
_STATE_COLUMNS = ("resource", "kind", "id")


def print_changes(output: Output, plan: DeployPlan, changes: Sequence[PlannedChange], code: ExitCode) -> None:
    """Print the changes of a plan or a deploy; resources without changes are not listed."""
    if output.as_json:
        output.json(_plan_json(plan, changes, code))
        return
    listed = [each for each in changes if each.verdict is not Verdict.NOTHING or each.phantoms or each.acts]
    if listed:
        output.table(_COLUMNS, [_row(each) for each in listed])
    for change in listed:
        for field in change.fields:
            output.text(f"  {change.key}  {_field_text(field)}")
    if plan.uploads or plan.removals:
        output.text(f"{len(plan.uploads)} files to upload, {len(plan.removals)} to delete")
    if not listed and not plan.uploads and not plan.removals:
        output.text("Nothing to do.")


def print_acceptance(output: Output, change: PlannedChange) -> None:
    """Print accepted fields: the current value and the bundle's value of each."""
    absent = None if output.as_json else "nothing"
    rows = [
        {"field": ".".join(each.path), "accepted": each.remote or absent, "bundle": each.wanted or absent}
        for each in change.fields
    ]
    if rows or output.as_json:
        output.table(_ACCEPTED_COLUMNS, rows)
    else:
        output.text(f"Nothing of {change.key} was changed outside of the bundle.")


def print_state(output: Output, state: DeployState | None) -> None:
    """Print the resources that a target has deployed."""
    resources = () if state is None else state.resources
    rows = [{"resource": each.key, "kind": each.kind, "id": each.id} for each in resources]
    output.table(_STATE_COLUMNS, sorted(rows, key=lambda row: str(row["resource"])))


def _row(change: PlannedChange) -> dict[str, Any]:
    access = "access" if change.access else ""
    verdict = change.verdict.value if change.verdict is not Verdict.NOTHING or not access else "apply"
    return {
        "resource": change.key,
        "change": ", ".join(filter(None, [change.change_class.value, access])),
        "verdict": verdict,
        "why": change.reason,
    }


def _field_text(field: FieldChange) -> str:
    return f"{'.'.join(field.path)}: {field.remote or 'nothing'} -> {field.wanted or 'nothing'}"


def _plan_json(plan: DeployPlan, changes: Sequence[PlannedChange], code: ExitCode) -> dict[str, Any]:
    return {
        "bundle": plan.bundle,
        "target": plan.target,
        "exit_code": int(code),
        "fingerprint": plan.fingerprint(),
        "uploads": list(plan.uploads),
        "removals": list(plan.removals),
        "changes": [_change_json(change) for change in changes],
    }


def _change_json(change: PlannedChange) -> dict[str, Any]:
    state = change.gateway
    return {
        "resource": change.key,
        "kind": change.kind,
        "name": change.name,
        "class": change.change_class.value,
        "verdict": change.verdict.value,
        "reason": change.reason,
        "id": change.remote_id,
        "access": change.access,
        "fields": [
            {
                "path": ".".join(field.path),
                "class": field.change_class.value,
                "remote": field.remote,
                "wanted": field.wanted,
            }
            for field in change.fields
        ],
        "phantoms": [".".join(path) for path in change.phantoms],
        "gateway": None
        if state is None
        else {
            "phase": state.phase.value,
            "lost_hours": round(state.lost_hours, 1),
            "tables": [table_text(table) for table in state.tables],
        },
    }
