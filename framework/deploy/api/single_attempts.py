"""The SDK's client without its own repetitions: those would make any write twice, and wait as long as they are told."""

from __future__ import annotations

import logging
import re
from typing import Any, cast

import requests
from databricks.sdk.clock import Clock as SdkClock
from databricks.sdk.core import ApiClient, Config
from databricks.sdk.errors import DeadlineExceeded, InternalError, TemporarilyUnavailable, TooManyRequests
from databricks.sdk.errors.base import DatabricksError

_TRY_SECONDS = 300
_STATUS = re.compile(r"< \d{3} ")
_PASSING = (DeadlineExceeded, InternalError, TemporarilyUnavailable, TooManyRequests)
CALL_ERRORS = (DatabricksError, TimeoutError, requests.RequestException)
"""All that a call raises."""


class SingleTries:
    """Calls, each made once."""

    def __init__(self, config: Config) -> None:
        self._client = ApiClient(cast("Config", _OneTryConfig(config)))

    def call(self, method: str, path: str, *, query: dict[str, Any] | None, body: Any = None) -> dict[str, Any]:
        """What a call answers.

        Raises:
            DatabricksError: what the service says against it.
            RequestException, TimeoutError: there was no answer.
        """
        try:
            return cast("dict[str, Any]", self._client.do(method, path, query=query, body=body))
        except TimeoutError as error:
            # So the SDK ends what it would have tried again; why, is in the cause.
            if isinstance(error.__cause__, CALL_ERRORS):
                raise error.__cause__ from None
            raise


def is_passing(error: Exception) -> bool:
    """Whether the same call may well succeed a little later."""
    if isinstance(error, DatabricksError):
        # A status that the SDK has no class for, such as a proxy's 502, says nothing about the call.
        return type(error) is DatabricksError or isinstance(error, _PASSING)
    return True


def is_refusal(error: Exception) -> bool:
    """Whether the service says that it did nothing."""
    return isinstance(error, TooManyRequests) or not is_passing(error)


def seconds_asked_for(error: Exception) -> float | None:
    """How long the service asks us to wait, by its `Retry-After`."""
    seconds = getattr(error, "retry_after_secs", None)
    return None if seconds is None else float(seconds)


class _WithoutBodies(logging.Filter):
    """Leaves calls and their status in the SDK's debug log, and drops their bodies: settings hold secret values."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let each record through, cut."""
        lines = record.getMessage().splitlines()
        record.msg, record.args = "\n".join(lines[:1] + [line for line in lines[1:] if _STATUS.match(line)]), ()
        return True


logging.getLogger("databricks.sdk").addFilter(_WithoutBodies())


class _OneTryConfig:
    """A configuration with which the SDK has the time for one try."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.clock = _OneTry()
        self.retry_timeout_seconds = _TRY_SECONDS

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


class _OneTry(SdkClock):
    """A clock by which the SDK's time for tries is over after the first."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def time(self) -> float:
        """A time two thirds of the SDK's later than the last one."""
        self._seconds += _TRY_SECONDS * 2 / 3
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Return at once."""
