"""The steps an update is made of: a closed union that the executor does and the explainer prints."""

from __future__ import annotations

from dataclasses import dataclass

from framework.foundation.display import Displayed
from framework.foundation.names import QualifiedName


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """Create the target table, or bring it to its present definition; `rebuild` names the copy built aside."""

    dataset: QualifiedName
    reason: str
    rebuild: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginGeneration:
    """Begin a new generation of a flow's checkpoint; the old one is kept for roll-back.

    One of a `rebuild` becomes the current one when the rebuild is published.
    """

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    reason: str
    rebuild: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Read everything that is there at the start, then end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """Keep reading; end the query when nothing is left to read, and start it again when there is more.

    Args:
        interval_seconds: the shortest time between two micro-batches of the flow.
        idle_seconds: the time without data after which the query ends; None: it does not end by itself.
    """

    interval_seconds: float = 0.0
    idle_seconds: float | None = 5.0


Trigger = AvailableNow | Continuous


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlow:
    """Run one flow into its target until its trigger ends.

    Args:
        trigger: when the flow reads, and when it ends.
        after: datasets whose steps end before this one starts.
        rebuild: the rebuild it writes to, aside from the table that still serves its old rows.
        check: run only if its sources hold something new when its turn comes.
    """

    flow: QualifiedName
    dataset: QualifiedName
    generation: int
    after: tuple[QualifiedName, ...]
    reason: str
    rebuild: int | None = None
    check: bool = False
    trigger: Trigger = AvailableNow()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishRebuild:
    """Replace a table's rows by those of its rebuild, in one commit, when all flows of it are done."""

    dataset: QualifiedName
    rebuild: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshView:
    """Compute a materialized view and replace its rows in one commit.

    `check`: only if its inputs changed by the time its turn comes.
    """

    dataset: QualifiedName
    flow: QualifiedName
    after: tuple[QualifiedName, ...]
    reason: str
    check: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipStep:
    """Leave a flow or a dataset as it is, and say why."""

    dataset: QualifiedName
    flow: QualifiedName | None
    reason: str
    excluded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseTable:
    """Fail the flows of a dataset whose table belongs to somebody else; nothing of the table is touched.

    Args:
        flows: the flows into the dataset.
        path: where the table is.
        owner: whom it belongs to, in words.
    """

    dataset: QualifiedName
    flows: tuple[QualifiedName, ...]
    path: str
    owner: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepStored:
    """Leave a table that no module declares any more, or `columns` of a table that no flow writes any more."""

    dataset: QualifiedName
    reason: str
    columns: tuple[str, ...] = ()


Step = CreateTable | BeginGeneration | RunFlow | PublishRebuild | RefreshView | SkipStep | RefuseTable | KeepStored


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Displayed):
    """The steps of one update, in an order in which each may be done after those before it."""

    pipeline: str
    steps: tuple[Step, ...]
