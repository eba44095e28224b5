"""Findings of the checks and the lint of a bundle, each with its location and a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.conditions import describe
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation


class Severity(StrEnum):
    """Severity of a finding: an error prevents plan and deploy, a warning is only reported."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFinding:
    """One finding; its condition and texts are from the error catalogue."""

    condition: str
    severity: Severity
    what: str
    remedy: str
    location: SourceLocation | None = None

    def render(self) -> str:
        """Return one short paragraph: condition, severity, fault, location, remedy."""
        where = f"\n  at {self.location}" if self.location else ""
        return f"[{self.condition}] {self.severity.value}: {self.what}{where}\n  -> {self.remedy}"


def of_error(fault: UserError) -> BundleFinding:
    """Convert a fault that ended the loading of a target."""
    return BundleFinding(
        condition=fault.condition,
        severity=Severity.ERROR,
        what=fault.what,
        remedy=fault.remedy,
        location=fault.location,
    )


def error(condition: str, location: SourceLocation | None, **fields: object) -> BundleFinding:
    """Make a finding that prevents a deploy of the bundle."""
    return _finding(condition, Severity.ERROR, location, fields)


def warning(condition: str, location: SourceLocation | None, **fields: object) -> BundleFinding:
    """Make a finding that is only reported."""
    return _finding(condition, Severity.WARNING, location, fields)


def _finding(
    condition: str, severity: Severity, location: SourceLocation | None, fields: dict[str, object]
) -> BundleFinding:
    what, remedy = describe(condition, fields)
    return BundleFinding(condition=condition, severity=severity, what=what, remedy=remedy, location=location)
