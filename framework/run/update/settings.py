"""The validated settings of an update from the pipeline's spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from framework.declare.pipeline_spec import PipelineSpec
from framework.run.configuration import DEFAULT_PROGRESS_SECONDS, progress_seconds, whole_number
from framework.run.quarantine.setting import quarantine_by_default
from framework.run.update.intervals import DEFAULT_INTERVALS, RefreshIntervals, refresh_intervals
from framework.run.update.retries import RetryPolicy, retry_policy

PARALLEL_FLOWS = "pipelines.maxParallelFlows"
_DEFAULT_PARALLEL_FLOWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """How an update runs.

    Args:
        retries: the number and delays of retries.
        parallel_flows: the number of flows that run at the same time.
        intervals: the minimum times between two refreshes of a view in a continuous update.
        progress_seconds: the time between two reports about the tables of a gateway.
    """

    retries: RetryPolicy = field(default_factory=RetryPolicy)
    parallel_flows: int = _DEFAULT_PARALLEL_FLOWS
    intervals: RefreshIntervals = DEFAULT_INTERVALS
    progress_seconds: int = DEFAULT_PROGRESS_SECONDS

    @classmethod
    def of(cls, spec: PipelineSpec) -> Self:
        """Return the settings of a spec.

        Raises:
            UserError: INVALID_CONFIGURATION.
        """
        configuration = dict(spec.configuration)
        quarantine_by_default(configuration)
        return cls(
            retries=retry_policy(configuration, development=spec.development),
            parallel_flows=whole_number(configuration, PARALLEL_FLOWS, default=_DEFAULT_PARALLEL_FLOWS, least=1),
            intervals=refresh_intervals(configuration),
            progress_seconds=progress_seconds(configuration),
        )
