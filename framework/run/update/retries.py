"""The retry policy for transient faults: the number and delays of retries."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from framework.run.configuration import whole_number

FLOW_RETRIES = "pipelines.maxFlowRetryAttempts"
UPDATE_RETRIES = "pipelines.numUpdateRetryAttempts"
_DEFAULT_FLOW_RETRIES = 2
_DEFAULT_UPDATE_RETRIES = 5
_FIRST_DELAY_SECONDS = 2.0
_LONGEST_DELAY_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential backoff with jitter, used only in production mode.

    Args:
        most_retries: the maximum retries of one flow in one attempt of the update.
        most_update_retries: the maximum retries of an update's failed and skipped flows, if a retry may succeed.
        first_delay_seconds: delay before the first retry; it doubles with each further one.
    """

    most_retries: int = 0
    most_update_retries: int = 0
    first_delay_seconds: float = _FIRST_DELAY_SECONDS

    def delay_seconds(self, attempt: int) -> float:
        """Return the delay before retry `attempt`: doubled each time, at most five minutes, half of it random."""
        full: float = min(self.first_delay_seconds * 2 ** (attempt - 1), _LONGEST_DELAY_SECONDS)
        return full / 2 + random.uniform(0, full / 2)  # noqa: S311 - jitter of retries, not security


def retry_policy(configuration: Mapping[str, str], *, development: bool) -> RetryPolicy:
    """Return the policy of a pipeline's configuration.

    Raises:
        UserError: INVALID_CONFIGURATION if the number of retries is not a whole number from 0.
    """
    most = whole_number(configuration, FLOW_RETRIES, default=_DEFAULT_FLOW_RETRIES, least=0)
    most_update = whole_number(configuration, UPDATE_RETRIES, default=_DEFAULT_UPDATE_RETRIES, least=0)
    return RetryPolicy() if development else RetryPolicy(most_retries=most, most_update_retries=most_update)
