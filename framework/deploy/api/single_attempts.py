"""SDK client without retries: the SDK would retry any write, and wait for any `Retry-After`."""

from __future__ import annotations

import logging
import re
from typing import Any, cast

import requests
from databricks.sdk.clock import Clock as SdkClock
from databricks.sdk.core import ApiClient, Config
from databricks.sdk.errors import DeadlineExceeded, InternalError, TemporarilyUnavailable, TooManyRequests
from databricks.sdk.errors.base import DatabricksError

_RETRY_TIMEOUT_SECONDS = 300
_STATUS = re.compile(r"< \d{3} ")
_TRANSIENT = (DeadlineExceeded, InternalError, TemporarilyUnavailable, TooManyRequests)
CALL_ERRORS = (DatabricksError, TimeoutError, requests.RequestException)
"""All exceptions that a call raises."""


class SingleAttemptClient:
    """Client that makes each call once."""

    def __init__(self, config: Config) -> None:
        self._client = ApiClient(cast("Config", _OneAttemptConfig(config)))

    def call(self, method: str, path: str, *, query: dict[str, Any] | None, body: Any = None) -> dict[str, Any]:
        """Make a call and return its response.

        Raises:
            DatabricksError: the service returned an error.
            RequestException, TimeoutError: there was no response.
        """
        try:
            return cast("dict[str, Any]", self._client.do(method, path, query=query, body=body))
        except TimeoutError as error:
            # The SDK raises this for a failure that it would retry; the failure is the cause.
            if isinstance(error.__cause__, CALL_ERRORS):
                raise error.__cause__ from None
            raise


def is_transient(error: Exception) -> bool:
    """Return whether the error is transient: the same call may succeed later."""
    if isinstance(error, DatabricksError):
        # A status without a class in the SDK, such as a proxy's 502, does not depend on the call.
        return type(error) is DatabricksError or isinstance(error, _TRANSIENT)
    return True


def had_no_effect(error: Exception) -> bool:
    """Return whether the error shows that the call had no effect."""
    return isinstance(error, TooManyRequests) or not is_transient(error)


def retry_after_seconds(error: Exception) -> float | None:
    """Return the seconds to wait from the service's `Retry-After`; None without one."""
    seconds = getattr(error, "retry_after_secs", None)
    return None if seconds is None else float(seconds)


class _BodyFilter(logging.Filter):
    """Filter that removes bodies from the SDK's debug log, because settings hold secrets; calls and status stay."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove the bodies from a record and keep the record."""
        lines = record.getMessage().splitlines()
        record.msg, record.args = "\n".join(lines[:1] + [line for line in lines[1:] if _STATUS.match(line)]), ()
        return True


logging.getLogger("databricks.sdk").addFilter(_BodyFilter())


class _OneAttemptConfig:
    """SDK configuration whose retry timeout ends after one attempt."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.clock = _OneAttemptClock()
        self.retry_timeout_seconds = _RETRY_TIMEOUT_SECONDS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


class _OneAttemptClock(SdkClock):
    """Clock on which the SDK's retry timeout ends after the first attempt."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def time(self) -> float:
        """Return a time that is two thirds of the retry timeout later than the last one."""
        self._seconds += _RETRY_TIMEOUT_SECONDS * 2 / 3
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Return at once."""
