"""The result of a preflight, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from framework.sources.databases.findings import PreflightFinding, Severity
from framework.sources.databases.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The result of one ingestion.

    Args:
        gateway: name of the ingestion.
        tables: the declared tables.
        findings: problems to fix, and notes.
    """

    gateway: str
    tables: tuple[TableName, ...]
    findings: tuple[PreflightFinding, ...]

    @property
    def has_failed(self) -> bool:
        """Whether an update would fail or miss rows."""
        return any(each.severity is Severity.ERROR for each in self.findings)
