"""Output of findings on standard error, each once."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from framework.cli.command import styled
from framework.cli.output import colours_wanted
from framework.deploy.bundle.findings import Finding, Severity
from framework.foundation.errors import UserError

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


def print_findings(findings: Iterable[Finding]) -> None:
    """Print findings without duplicates."""
    for finding in dict.fromkeys(findings):
        text = styled(finding.render(), colour=_COLOURS[finding.severity])
        click.echo(text, err=True, color=colours_wanted(sys.stderr))


def refuse_errors(findings: Iterable[Finding], target: str) -> None:
    """Refuse a bundle with errors among its findings.

    Raises:
        UserError: BUNDLE_LINT.
    """
    count = sum(finding.severity is Severity.ERROR for finding in findings)
    if count:
        raise UserError("BUNDLE_LINT", target=target, count=count, plural="" if count == 1 else "s")
