"""Validation of a bundle's targets: the loaded targets, the findings in all of them, and their output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framework.cli.output import Output
from framework.deploy.bundle.bundle import Bundle
from framework.deploy.bundle.configuration import hidden_configuration
from framework.deploy.bundle.findings import Finding, Severity, of_error
from framework.deploy.bundle.pipeline_modules import native_faults

_COLUMNS = ("target", "mode", "resource", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The targets that could be loaded, and the findings in all targets."""

    bundles: tuple[Bundle, ...]
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def passes(self, *, strict: bool) -> bool:
        """Return whether there are no errors, and with `strict` no warnings."""
        return not self.findings if strict else self.is_sound


def findings_of(bundle: Bundle) -> tuple[Finding, ...]:
    """Return the findings of a loaded target, and the faults of modules that can't run natively on Databricks."""
    native = (of_error(fault) for fault in native_faults(bundle))
    return (*bundle.findings, *native)


def print_validation(output: Output, validation: Validation) -> None:
    """Print targets, resources and the number of findings; in JSON the resolved configuration of a target."""
    rows = [
        {"target": bundle.target, "mode": bundle.mode, "resource": resource.key, "name": resource.name}
        for bundle in validation.bundles
        for resource in bundle.resources
    ]
    if output.as_json:
        configuration = hidden_configuration(validation.bundles[0].configuration) if validation.bundles else {}
        output.json({**configuration, "findings": [_finding_json(finding) for finding in validation.findings]})
        return
    if rows:
        output.table(_COLUMNS, rows)
    word = "valid" if validation.is_sound else "not valid"
    counts = [_count(validation.findings, severity) for severity in (Severity.ERROR, Severity.WARNING)]
    loaded = _plural(len(validation.bundles), "target")
    output.text(f"\nThe bundle is {word}: {loaded}, {_plural(len(rows), 'resource')}, {', '.join(counts)}.")


def _count(findings: Sequence[Finding], severity: Severity) -> str:
    return _plural(sum(finding.severity is severity for finding in findings), severity.value)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _finding_json(finding: Finding) -> dict[str, Any]:
    location = finding.location
    return {
        "condition": finding.condition,
        "severity": finding.severity.value,
        "what": finding.what,
        "remedy": finding.remedy,
        "file": None if location is None else location.file,
        "line": None if location is None else location.line,
    }
