"""Output of bundle validations, plans and states: results as tables or JSON, findings on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from framework.cli.command import styled
from framework.cli.output import Output, say
from framework.deploy.bundle.configuration import hidden_configuration
from framework.deploy.bundle.documents.findings import BundleFinding, Severity
from framework.deploy.plan.deploy_plan import DeployPlan, PlannedChange
from framework.deploy.plan.diff import FieldChange
from framework.deploy.plan.policy import ExitCode, Verdict
from framework.deploy.plan.reasons import table_text
from framework.deploy.state.state import DeployState
from framework.foundation.secrets.secrecy import hide_secrets
from framework.operations.deploying import BundleValidation

_COLUMNS = ("resource", "change", "verdict", "why")
_ACCEPTED_COLUMNS = ("field", "accepted", "bundle")
_STATE_COLUMNS = ("resource", "kind", "id")
_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}
_VALIDATION_COLUMNS = ("target", "mode", "resource", "name")


def print_changes(output: Output, plan: DeployPlan, changes: Sequence[PlannedChange], code: ExitCode) -> None:
    """Print the changes of a plan or a deploy, without unchanged resources."""
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
    """Print the accepted fields, each with its current value and its value in the bundle."""
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
    """Print the deployed resources of a target."""
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


def print_findings(findings: Iterable[BundleFinding]) -> None:
    """Print findings without duplicates."""
    for finding in dict.fromkeys(findings):
        text = styled(finding.render(), colour=_COLOURS[finding.severity])
        say(text)


def print_validation(output: Output, validation: BundleValidation) -> None:
    """Print targets, resources and the number of findings; JSON output has the resolved configuration of a target."""
    rows = [
        {
            "target": bundle.target,
            "mode": bundle.mode,
            "resource": resource.key,
            "name": hide_secrets(resource.name, bundle.secrets),
        }
        for bundle in validation.bundles
        for resource in bundle.resources
    ]
    if output.as_json:
        bundle = next(iter(validation.bundles), None)
        configuration = {} if bundle is None else hidden_configuration(bundle.configuration, bundle.secrets)
        output.json({**configuration, "findings": [_finding_json(finding) for finding in validation.findings]})
        return
    if rows:
        output.table(_VALIDATION_COLUMNS, rows)
    word = "valid" if validation.is_sound else "not valid"
    counts = [_count(validation.findings, severity) for severity in (Severity.ERROR, Severity.WARNING)]
    loaded = _plural(len(validation.bundles), "target")
    output.text(f"\nThe bundle is {word}: {loaded}, {_plural(len(rows), 'resource')}, {', '.join(counts)}.")


def _count(findings: Sequence[BundleFinding], severity: Severity) -> str:
    return _plural(sum(finding.severity is severity for finding in findings), severity.value)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _finding_json(finding: BundleFinding) -> dict[str, Any]:
    location = finding.location
    return {
        "condition": finding.condition,
        "severity": finding.severity.value,
        "what": finding.what,
        "remedy": finding.remedy,
        "file": None if location is None else location.file,
        "line": None if location is None else location.line,
    }
