"""The steps an update is made of: a closed union that the executor does and the explainer prints."""

from __future__ import annotations

from dataclasses import dataclass

from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """Create the target table, or add the columns and settings it lacks."""

    dataset: QualifiedName
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginGeneration:
    """Begin a new generation of a flow's checkpoint; the old one is kept for roll-back."""

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    reason: str
    staged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlow:
    """Run one flow into its target until what was there at the start is done.

    `staged` flows write to the rebuild of a table that still serves its old rows.
    """

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    after: tuple[QualifiedName, ...]
    reason: str
    staged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRebuild:
    """Replace a table's rows by those of its finished rebuild, in one commit."""

    dataset: QualifiedName
    after: tuple[QualifiedName, ...]
    rebuild: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView:
    """Compute a materialized view and replace its rows in one commit."""

    dataset: QualifiedName
    flow: QualifiedName
    after: tuple[QualifiedName, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipStep:
    """Leave a flow or a dataset as it is, and say why."""

    dataset: QualifiedName
    flow: QualifiedName | None
    reason: str
    excluded: bool = False


Step = CreateTable | BeginGeneration | RunFlow | PublishRebuild | RefreshView | SkipStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of one update, in an order in which each may be done after those before it."""

    pipeline: str
    steps: tuple[Step, ...]
