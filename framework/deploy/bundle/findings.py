"""What the lint finds in a bundle: each with its place, what it would do, and what to write in its stead."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from framework.foundation.conditions import describe
from framework.foundation.errors import UserError
from framework.foundation.locations import SourceLocation


class Severity(StrEnum):
    """An error keeps a bundle from being planned and deployed; a warning is told."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the lint found; condition and texts are of the catalogue."""

    condition: str
    severity: Severity
    what: str
    remedy: str
    location: SourceLocation | None = None

    def render(self) -> str:
        """One short paragraph: severity, condition, what, where, what to do next."""
        where = f"\n  at {self.location}" if self.location else ""
        return f"[{self.condition}] {self.severity.value}: {self.what}{where}\n  -> {self.remedy}"


def of_error(fault: UserError) -> Finding:
    """A fault that ended the loading of a target."""
    return Finding(
        condition=fault.condition,
        severity=Severity.ERROR,
        what=fault.what,
        remedy=fault.remedy,
        location=fault.location,
    )


def error(condition: str, location: SourceLocation | None, **fields: object) -> Finding:
    """A finding that keeps the bundle from being deployed."""
    return _finding(condition, Severity.ERROR, location, fields)


def warning(condition: str, location: SourceLocation | None, **fields: object) -> Finding:
    """A finding that is told, and nothing else."""
    return _finding(condition, Severity.WARNING, location, fields)


def _finding(condition: str, severity: Severity, location: SourceLocation | None, fields: dict[str, object]) -> Finding:
    what, remedy = describe(condition, fields)
    return Finding(condition=condition, severity=severity, what=what, remedy=remedy, location=location)
