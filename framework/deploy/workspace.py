"""The workspace as a deploy calls it: the SDK's client, with writes that are never blindly made twice."""

from __future__ import annotations

import base64
from typing import Any, cast

import requests
from databricks.sdk.clock import Clock as SdkClock
from databricks.sdk.core import ApiClient, Config
from databricks.sdk.errors import (
    InternalError,
    NotFound,
    PermissionDenied,
    TemporarilyUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from databricks.sdk.errors.base import DatabricksError

from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError

_MOST_TRIES = 8


class AnswerLost(OperationError):  # noqa: N818 - it tells what happened, and may be no error in the end
    """A write whose effect is not known: the line was cut, or the service failed on its way."""


class Workspace:
    """Reads and writes of one workspace.

    Reads are the SDK's, which waits and tries again. Writes are tried again only after a 429, which
    says that nothing was done; what else may have taken effect is for the caller to look up.

    Args:
        config: of the SDK: host, credentials, warehouse.
        clock: what waits between tries go by.
    """

    def __init__(self, config: Config, *, clock: Clock) -> None:
        self.warehouse_id: str | None = config.warehouse_id
        self.clock = clock
        self._reading = ApiClient(config)
        self._writing = ApiClient(cast("Config", _WithClock(config, _OneTry())))

    def read(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a GET answers.

        Raises:
            OperationError: WORKSPACE_UNAUTHENTICATED, WORKSPACE_FORBIDDEN, WORKSPACE_CALL_FAILED.
        """
        try:
            return cast("dict[str, Any]", self._reading.do("GET", path, query=query))
        except NotFound:
            raise
        except (DatabricksError, TimeoutError, requests.RequestException) as error:
            raise _translated(error, "GET", path) from None

    def find(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """What a GET answers; None when there is nothing."""
        try:
            return self.read(path, query)
        except NotFound:
            return None

    def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a write answers, made once.

        Raises:
            AnswerLost: WORKSPACE_ANSWER_LOST when it may have taken effect.
            DatabricksError: NotFound, or a conflict: the caller knows what they mean.
            OperationError: it was refused.
        """
        for _ in range(_MOST_TRIES):
            try:
                return cast("dict[str, Any]", self._writing.do(method, path, body=body))
            except TimeoutError as error:
                cause = error.__cause__
                if not isinstance(cause, TooManyRequests):
                    raise AnswerLost("WORKSPACE_ANSWER_LOST", method=method, path=path) from None
                self.clock.sleep(float(cause.retry_after_secs or 1))
            except (InternalError, TemporarilyUnavailable, requests.RequestException):
                raise AnswerLost("WORKSPACE_ANSWER_LOST", method=method, path=path) from None
            except (Unauthenticated, PermissionDenied) as error:
                raise _translated(error, method, path) from None
        raise OperationError("WORKSPACE_CALL_FAILED", call=f"{method} {path}", cause="429 again and again")

    def repeat(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a write answers that may be made twice, such as overwriting a file; a lost answer is asked for again."""
        for _ in range(_MOST_TRIES - 1):
            try:
                return self.write(method, path, body)
            except AnswerLost:
                self.clock.sleep(1)
        return self.write(method, path, body)

    def read_file(self, path: str) -> str | None:
        """The text of a workspace file; None when there is none."""
        found = self.find("/api/2.0/workspace/export", {"path": path, "format": "AUTO"})
        return None if found is None else base64.b64decode(found["content"]).decode("utf-8")

    def write_file(self, path: str, content: bytes, *, overwrite: bool = True) -> None:
        """Write a workspace file; its folder must be there.

        Raises:
            DatabricksError: it exists and `overwrite` is False, or its folder does not.
        """
        body = {
            "path": path,
            "format": "AUTO",
            "overwrite": overwrite,
            "content": base64.b64encode(content).decode("ascii"),
        }
        (self.repeat if overwrite else self.write)("POST", "/api/2.0/workspace/import", body)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        self.repeat("POST", "/api/2.0/workspace/mkdirs", {"path": path})

    def delete_file(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file or a folder; what is not there is deleted."""
        try:
            self.repeat("POST", "/api/2.0/workspace/delete", {"path": path, "recursive": recursive})
        except NotFound:
            return


class _WithClock:
    """A configuration with another clock."""

    def __init__(self, config: Config, clock: SdkClock) -> None:
        self._config = config
        self.clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


class _OneTry(SdkClock):
    """A clock by which the SDK's time for tries is over after the first: its own loop would repeat any write."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def time(self) -> float:
        """A time 200 seconds after the last one: of the SDK's 300, one try fits in."""
        self._seconds += 200.0
        return self._seconds

    def sleep(self, seconds: float) -> None:
        """Return at once."""


def _translated(error: Exception, method: str, path: str) -> OperationError:
    call = f"{method} {path}"
    if isinstance(error, Unauthenticated):
        return OperationError("WORKSPACE_UNAUTHENTICATED", call=call)
    if isinstance(error, PermissionDenied):
        return OperationError("WORKSPACE_FORBIDDEN", call=call)
    text = str(error) if isinstance(error, DatabricksError) else type(error).__name__
    return OperationError("WORKSPACE_CALL_FAILED", call=call, cause=text)
