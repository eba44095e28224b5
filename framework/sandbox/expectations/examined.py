"""What the expectations of a test look at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import Any, Protocol

from framework.declare.specs import DatasetSpec
from framework.foundation.errors import UserError
from framework.foundation.names import QualifiedName
from framework.foundation.time_zones import zone_of
from framework.plan.steps import Plan
from framework.run.update.results import FlowResult, UpdateResult
from framework.sandbox.differences.difference_text import DifferenceFormat
from framework.sandbox.inputs import Inputs
from framework.sandbox.isolation import IsolatedPipeline
from framework.sandbox.sandbox_clock import SandboxClock


class Examined(Protocol):
    """What expectations need of a sandbox; `framework.sandbox.sandbox.Sandbox` is one."""

    pipeline: IsolatedPipeline
    inputs: Inputs
    clock: SandboxClock
    last: UpdateResult | None
    differences: DifferenceFormat
    compared: set[QualifiedName]

    def dataset(self, name: str) -> QualifiedName:
        """Return the full name of a dataset."""
        ...

    def plan(self, *datasets: str, **request: Any) -> Plan:
        """Return the steps of an update."""
        ...

    def update(self, *datasets: str) -> UpdateResult:
        """Update datasets and all that they read."""
        ...

    def twin(self, folder: str | Path | None = None) -> Examined:
        """Return another sandbox of the pipeline, without inputs and without a storage."""
        ...

    def close(self) -> None:
        """Release the session and the folder."""
        ...


def last_update(sandbox: Examined) -> UpdateResult:
    """Return the result of the last update.

    Raises:
        UserError: TEST_NO_UPDATE.
    """
    if sandbox.last is None:
        raise UserError("TEST_NO_UPDATE")
    return sandbox.last


def flows_into(sandbox: Examined, dataset: QualifiedName) -> Iterator[FlowResult]:
    """Yield the results of the flows into a dataset in the last update."""
    return (flow for flow in last_update(sandbox).flows if flow.dataset == dataset)


def declared(sandbox: Examined, dataset: QualifiedName) -> DatasetSpec:
    """Return the declaration of a dataset."""
    return next(spec for spec in sandbox.pipeline.definitions.registry.datasets if spec.name == dataset)


def session_zone(sandbox: Examined) -> tzinfo:
    """Return the time zone of the session."""
    return zone_of(str(sandbox.pipeline.spark.conf.get("spark.sql.session.timeZone")))
