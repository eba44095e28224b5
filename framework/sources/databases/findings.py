"""Findings of a preflight: a problem of a source database, and the statement that fixes it.

A finding has a condition of the catalogue and its texts, so that it reads like the error that it prevents.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from framework.foundation.conditions import describe
from framework.sources.databases.tables import TableName


class Severity(StrEnum):
    """The effect of a finding on the ingestion."""

    ERROR = "error"
    """Rows or changes would be missing, or a step fails."""
    WARNING = "warning"
    """The result is exact, but something is left out or may fail later."""
    INFORMATION = "information"
    """The result is exact and complete; some work is slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFinding:
    """One finding of a preflight.

    Args:
        condition: a key of the catalogue of conditions.
        severity: the effect on the ingestion.
        what: what is wrong.
        remedy: what to do.
        statement: the SQL statement or command that fixes it; empty if no single statement does.
        table: the affected table; None for the server.
    """

    condition: str
    severity: Severity
    what: str
    remedy: str
    statement: str = ""
    table: TableName | None = None

    @classmethod
    def of(
        cls,
        condition: str,
        severity: Severity,
        *,
        table: TableName | None = None,
        statement: str = "",
        **fields: object,
    ) -> Self:
        """Fill the texts of a condition; `table` and `statement` are among its fields."""
        what, remedy = describe(condition, {**fields, "table": table, "statement": statement})
        return cls(condition=condition, severity=severity, what=what, remedy=remedy, statement=statement, table=table)
