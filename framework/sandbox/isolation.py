"""What a sandbox needs of a pipeline, and how it differs from the pipeline that users run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

from framework.declare.inputs import GivenInputs
from framework.declare.pipeline_spec import PipelineSpec
from framework.declare.registry import Registry
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.files.storage import Storage
from framework.graph.graph import DataflowGraph
from framework.plan.request import RequestOptions
from framework.plan.steps import Plan
from framework.recovery.quarantine.quarantine import Quarantine
from framework.run.update.results import UpdateResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Isolation:
    """How the pipeline of a sandbox differs from the pipeline that users run.

    Args:
        storage: the folder of its checkpoints, events and tables.
        inputs: takes the reads of its code.
        clock: the time of its updates.
        code: the folder of another release of its spec and modules; None for the pipeline's own.
    """

    storage: str
    inputs: GivenInputs
    clock: Clock
    code: Path | None = None


class IsolatedPipeline(Protocol):
    """The pipeline of a sandbox; `framework.pipeline.Pipeline` is one."""

    @property
    def spec(self) -> PipelineSpec:
        """The configuration of the pipeline."""
        ...

    @property
    def spark(self) -> SparkSession:
        """The pipeline's own session."""
        ...

    @property
    def storage(self) -> Storage:
        """The storage of checkpoints, events and tables."""
        ...

    @property
    def graph(self) -> DataflowGraph:
        """The resolved graph of the last plan or update."""
        ...

    @property
    def registry(self) -> Registry:
        """The declarations of the pipeline's modules."""
        ...

    @property
    def quarantine(self) -> Quarantine:
        """The rows that flows could not write."""
        ...

    def plan(self, **request: Unpack[RequestOptions]) -> Plan:
        """Return the steps of an update."""
        ...

    def run(self, **request: Unpack[RequestOptions]) -> UpdateResult:
        """Update datasets."""
        ...

    def foretell(self) -> tuple[OperationError, ...]:
        """Return the errors of flows that certainly can't continue."""
        ...

    def table(self, name: str) -> DataFrame:
        """Return the current rows of a table."""
        ...

    def close(self) -> None:
        """Release the session."""
        ...


MakePipeline = Callable[[Isolation], IsolatedPipeline]
"""Makes the pipeline of a sandbox; called again for the code of another release."""
