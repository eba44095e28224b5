"""Client of a workspace for deploys: reads with retries, and writes that are retried only if that is safe."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from databricks.sdk.errors import NotFound, PermissionDenied, ResourceConflict, Unauthenticated
from databricks.sdk.errors.base import DatabricksError

from framework.deploy.api.single_attempts import (
    CALL_ERRORS,
    SingleAttemptClient,
    had_no_effect,
    is_transient,
    retry_after_seconds,
)
from framework.foundation.clock import Clock
from framework.foundation.errors import OperationError
from framework.foundation.secrets.secrecy import hide_in_text

if TYPE_CHECKING:
    from databricks.sdk.core import Config

_MAX_TRIES = 8
_MAX_WAIT_SECONDS = 900.0
_RETRY_SECONDS = 300.0


class ResponseLost(OperationError):  # noqa: N818 - named after the event; the write may have succeeded
    """A write whose effect is unknown: the connection was lost, or the service failed during the call.

    Args:
        wait_seconds: seconds to wait before a retry; the service's `Retry-After` if it sent one.
    """

    def __init__(self, condition: str, *, wait_seconds: float = 1.0, **fields: Any) -> None:
        super().__init__(condition, **fields)
        self.wait_seconds = wait_seconds


class Workspace:
    """Reads and writes of one workspace.

    Reads are retried after transient errors. Writes are retried only after a 429, because a write with that status
    had no effect; after any other transient error the caller looks up whether the write took effect. A `Retry-After`
    is respected, up to a quarter of an hour for one call.

    Args:
        config: SDK configuration: host, credentials, warehouse; its retry timeout bounds the retries of a call.
        clock: clock for the waits between attempts.
    """

    def __init__(self, config: Config, *, clock: Clock) -> None:
        self.warehouse_id: str | None = config.warehouse_id
        self.host: str = config.host or ""
        self.clock = clock
        self._retry_seconds = float(config.retry_timeout_seconds or _RETRY_SECONDS)
        self._attempts = SingleAttemptClient(config)

    def read(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the response of a GET.

        Raises:
            NotFound: the object does not exist.
            OperationError: WORKSPACE_UNAUTHENTICATED, WORKSPACE_FORBIDDEN, WORKSPACE_CALL_FAILED.
        """
        delays = _RetryDelays(self.clock, self._retry_seconds)
        while True:
            try:
                return self._attempts.call("GET", path, query=query)
            except NotFound:
                raise
            except CALL_ERRORS as error:
                if not is_transient(error) or not delays.wait_for_retry(error):
                    raise _translated(error, "GET", path) from None

    def find(self, path: str, query: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the response of a GET; None if the object does not exist."""
        try:
            return self.read(path, query)
        except NotFound:
            return None

    def write(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make a write that takes effect at most once, and return its response.

        Raises:
            ResponseLost: WORKSPACE_ANSWER_LOST if the write may have taken effect.
            NotFound, ResourceConflict: raised unchanged; their meaning depends on the call.
            OperationError: the write was refused.
        """
        delays = _RetryDelays(self.clock, self._retry_seconds)
        while True:
            try:
                return self._attempts.call(method, path, query=None, body=body)
            except (NotFound, ResourceConflict):
                raise
            except CALL_ERRORS as error:
                if not had_no_effect(error):
                    seconds = retry_after_seconds(error) or 1.0
                    raise ResponseLost(
                        "WORKSPACE_ANSWER_LOST", wait_seconds=seconds, method=method, path=path
                    ) from None
                if not is_transient(error) or not delays.wait_for_retry(error):
                    raise _translated(error, method, path) from None

    def repeat(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make an idempotent write, such as overwriting a file, and return its response; retry if that is lost."""
        waited = 0.0
        for _ in range(_MAX_TRIES - 1):
            try:
                return self.write(method, path, body)
            except ResponseLost as lost:
                waited += lost.wait_seconds
                if waited > _MAX_WAIT_SECONDS:
                    raise
                self.clock.sleep(lost.wait_seconds)
        return self.write(method, path, body)

    def read_file(self, path: str) -> str | None:
        """Return the text of a workspace file; None if it does not exist."""
        found = self.find("/api/2.0/workspace/export", {"path": path, "format": "AUTO"})
        return None if found is None else base64.b64decode(found["content"]).decode("utf-8")

    def write_file(self, path: str, content: bytes, *, overwrite: bool = True) -> None:
        """Write a workspace file; its folder must exist.

        Raises:
            ResourceConflict: the file exists and `overwrite` is False.
            NotFound: the folder does not exist.
        """
        body = {
            "path": path,
            "format": "AUTO",
            "overwrite": overwrite,
            "content": base64.b64encode(content).decode("ascii"),
        }
        (self.repeat if overwrite else self.write)("POST", "/api/2.0/workspace/import", body)

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents."""
        self.repeat("POST", "/api/2.0/workspace/mkdirs", {"path": path})

    def delete_file(self, path: str) -> None:
        """Delete a file or an empty folder; do nothing if it does not exist."""
        try:
            self.repeat("POST", "/api/2.0/workspace/delete", {"path": path, "recursive": False})
        except NotFound:
            return


def error_name(error: Exception) -> str:
    """Return the condition of an error, or the name of its type."""
    return error.condition if isinstance(error, OperationError) else type(error).__name__


class _RetryDelays:
    """Wait times between the attempts of one call: the service's `Retry-After`, or else 1 to 10 seconds, increasing."""

    def __init__(self, clock: Clock, retry_seconds: float) -> None:
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._began = clock.monotonic()
        self._attempts = 0
        self._requested = 0.0

    def wait_for_retry(self, error: Exception) -> bool:
        """Wait before the next attempt; return False without waiting if no attempt is left."""
        requested = retry_after_seconds(error)
        self._attempts += 1
        self._requested += requested or 0.0
        unrequested = self._clock.monotonic() - self._began - self._requested
        if unrequested > self._retry_seconds or self._requested > _MAX_WAIT_SECONDS:
            return False
        self._clock.sleep(min(10.0, float(self._attempts)) if requested is None else requested)
        return True


def _translated(error: Exception, method: str, path: str) -> OperationError:
    call = f"{method} {path}"
    if isinstance(error, Unauthenticated):
        return OperationError("WORKSPACE_UNAUTHENTICATED", call=call)
    if isinstance(error, PermissionDenied):
        return OperationError("WORKSPACE_FORBIDDEN", call=call)
    text = hide_in_text(str(error)) if isinstance(error, DatabricksError) else type(error).__name__
    requested = retry_after_seconds(error)
    if requested is not None:
        text = f"{text} The workspace requested a wait of {requested:.0f} more seconds."
    return OperationError("WORKSPACE_CALL_FAILED", call=call, cause=text)
